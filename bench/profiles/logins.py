"""SCRAM-SHA-512 logins over new connections: the highest rate, and the effect on another client.

The broker's part of SCRAM is a few hashes, regardless of the iterations; the rest is a connection,
the TLS handshake if there is TLS, and four requests. The other client produces in plaintext, while
clients log in at a rate that both brokers can sustain.
"""

from functools import partial

from bench.contents.topics import topic
from bench.figures.measurement import CLIENT_CORES, Figure, Goal, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.login_load import login_load
from bench.loads.steady_load import produce_and_wait

_LOGINS = Figure("logins/s", more_is_better=True)
_CPU = Figure("broker CPU-ms a login", 2)
_CORES = Figure("broker cores in use", 2)
_BEFORE = Figure("produce p99 without logins, ms", 2)
_MEANWHILE = Figure("produce p99 meanwhile, ms", 2)
_STEADY = 100
_PRODUCED = 200  # batches a second


def _as_many_as_possible(context: CaseContext, *, with_tls: bool) -> Sample:
    with (
        login_load(context.locked, with_tls=with_tls) as clients,
        Meter(context.broker.pid) as meter,
    ):
        result = clients.begin(context.scale.seconds)()
    return {
        _LOGINS: result.count / result.seconds,
        _CPU: meter.broker_cpu / result.count * 1e3,
        _CORES: meter.broker_cpu / result.seconds,
        CLIENT_CORES: result.client_cpu / result.seconds,
    }


def _steadily(context: CaseContext) -> Sample:
    scale, port = context.scale, context.broker.port

    def p99(name: str) -> float:
        return produce_and_wait(
            port, name, rate=_PRODUCED, seconds=scale.latency_seconds, warm_up=scale.warm_up_seconds
        ).milliseconds(0.99)

    with topic(port) as name, login_load(context.locked, with_tls=True) as clients:
        latency_before = p99(name)
        with Meter(context.broker.pid) as meter:
            end = clients.begin(scale.warm_up_seconds + scale.latency_seconds, _STEADY)
            latency_meanwhile = p99(name)
            result = end()
    return {
        _MEANWHILE: latency_meanwhile,
        _BEFORE: latency_before,
        _LOGINS: result.count / result.seconds,
        _CORES: meter.broker_cpu / result.seconds,
    }


_GOALS = (Goal(_LOGINS, ahead=True), Goal(_CPU, ahead=True))

PROFILE = Profile(
    "logins",
    f"SCRAM-SHA-512 over new connections, 8 at a time; {_STEADY} a second beside a client that "
    f"sends {_PRODUCED} batches of one a second, acks=1",
    (
        Case("in the clear", partial(_as_many_as_possible, with_tls=False), _GOALS),
        Case("TLS 1.3", partial(_as_many_as_possible, with_tls=True), _GOALS),
        Case(f"TLS 1.3, {_STEADY} a second", _steadily, (Goal(_MEANWHILE, ahead=True),)),
    ),
)
