"""The cost of TLS 1.3: producing batches of fifty and consuming them, with TLS and in plaintext.

The load generators are those of `produce-50` and `consume`, on the same brokers in turn. Each case
runs with and without TLS. The log is written before the rounds, without TLS.
"""

from collections.abc import Mapping
from functools import partial

from bench.contents.topics import create, ends, topic, wait_for_end
from bench.figures.measurement import Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.throughput import CHEAPER, FASTER, SMALL, metered
from bench.loads import librdkafka
from bench.loads.raw_producer import produce
from bench.profiles.consume import consume
from bench.profiles.produce import lines_of

_BATCH = 50
_WINDOW = 64
_LOG = "log"
_READS = 3  # processor time has a resolution of 10 ms
_FETCH_BYTES = 2**20
_PATIENCE = 600.0


def _prepare(context: CaseContext) -> None:
    lines_of(context)
    create(context.broker.port, {_LOG: 1})
    load = produce(
        [context.broker.port],
        _LOG,
        batch=_BATCH,
        acks=1,
        window=_WINDOW,
        seconds=_PATIENCE,
        limit=context.scale.messages,
    )
    wait_for_end(context.broker.port, _LOG, load.messages)


def _options(context: CaseContext, *, with_tls: bool) -> Mapping[str, str]:
    """The settings of librdkafka."""
    if not with_tls:
        return {}
    return {"security.protocol": "ssl", "ssl.ca.location": str(context.locked.ca)}


def _port(context: CaseContext, *, with_tls: bool) -> int:
    return context.locked.tls_port if with_tls else context.broker.port


def _produce(context: CaseContext, *, with_tls: bool, acks: int) -> Sample:
    tls = context.locked.tls if with_tls else None
    with topic(context.broker.port) as name:
        return metered(
            context.broker,
            lambda: produce(
                [_port(context, with_tls=with_tls)],
                name,
                batch=_BATCH,
                acks=acks,
                window=_WINDOW,
                seconds=context.scale.seconds,
                tls=tls,
            ),
        )


def _consume(context: CaseContext, *, with_tls: bool) -> Sample:
    end = ends(context.broker.port, {_LOG: 1})[_LOG, 0]
    port, tls = _port(context, with_tls=with_tls), context.locked.tls if with_tls else None
    return metered(
        context.broker,
        lambda: consume(port, _LOG, end=end, max_bytes=_FETCH_BYTES, times=_READS, tls=tls),
    )


def _kcat_produce(context: CaseContext, *, with_tls: bool) -> Sample:
    port, lines, messages = context.broker.port, lines_of(context), context.scale.messages
    options = {"acks": "1", **_options(context, with_tls=with_tls)}
    with topic(port) as name:
        sample = metered(
            context.broker,
            lambda: librdkafka.kcat_produce(
                _port(context, with_tls=with_tls), name, lines, messages, options
            ),
        )
        wait_for_end(port, name, messages)
        return sample


def _kcat_consume(context: CaseContext, *, with_tls: bool) -> Sample:
    end = ends(context.broker.port, {_LOG: 1})[_LOG, 0]
    port, options = _port(context, with_tls=with_tls), _options(context, with_tls=with_tls)
    return metered(context.broker, lambda: librdkafka.kcat_consume(port, _LOG, end, options))


_RUNS = (
    ("produce, acks=0", partial(_produce, acks=0)),
    ("produce, acks=1", partial(_produce, acks=1)),
    ("consume, fetches of 1 MB", _consume),
    ("kcat produces, acks=1", _kcat_produce),
    ("kcat consumes", _kcat_consume),
)

PROFILE = Profile(
    "tls",
    "batches of fifty 200-byte messages by TLS 1.3, one connection; and in the clear beside it",
    tuple(
        Case(f"{name}, {how}", partial(run, with_tls=with_tls), goals)
        for name, run in _RUNS
        for how, with_tls, goals in (
            ("TLS", True, (FASTER, CHEAPER, SMALL)),
            ("in the clear", False, ()),
        )
    ),
    prepare=_prepare,
)
