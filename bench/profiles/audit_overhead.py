"""The ledger's cost for a broker and an agent, each compared with one that does not keep it."""

import itertools
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from bench.contents.log_lines import Line, json_line, plain_line
from bench.contents.topics import topic
from bench.figures.measurement import CPU_PER_GB, Figure, Goal, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.shipping_figures import CPU_PER_MILLION
from bench.ledger_counting import LOADS, PARTITIONS, entries_written, processor_time, send
from bench.profiles.agent_steady import steadily
from bench.servers.ledger_brokers import LedgerBroker, ledger_broker_of
from client.producing.batch_producer import BatchProducer
from harness.processes.waiting import wait_until

COUNTING: Final = Figure("counting, % of the broker's", 2)
_MB_PER_SECOND: Final = Figure("MB/s", 1, more_is_better=True)
_BATCHES: Final = Figure("batches/s")
_PEAK: Final = Figure("peak RSS, MB")
_PATIENCE: Final = 60.0


def _produce(context: CaseContext, *, load: str) -> Sample:
    """Every run waits until the last batches are counted, even without a ledger."""
    scale, ledger_broker = context.scale, ledger_broker_of(context)
    make_batches, rate = LOADS[load]
    batches = itertools.cycle(make_batches(random.Random(1)))
    with (
        topic(ledger_broker.server.port, partitions=PARTITIONS) as name,
        BatchProducer(ledger_broker.brokers.bootstrap) as producer,
    ):
        _warm_up(ledger_broker, producer, name, batches)
        pid = ledger_broker.server.process.pid
        counting_before = _counting(ledger_broker)
        with Meter(pid) as meter:
            start_time = time.perf_counter()
            size, count = send(producer, name, batches, seconds=scale.ledger_seconds, rate=rate)
            seconds = time.perf_counter() - start_time
            time.sleep(scale.ledger_interval * 1.1)
        counting_cpu = _counting(ledger_broker) - counting_before
        share = counting_cpu / (meter.broker_cpu - counting_cpu) * 100
        return {
            CPU_PER_GB: meter.broker_cpu / size * 1e9,
            **({COUNTING: share} if ledger_broker.keeps_ledger else {}),
            _MB_PER_SECOND: size / seconds / 1e6,
            _BATCHES: count / seconds,
            _PEAK: meter.peak_bytes / 1e6,
        }


def _warm_up(
    ledger_broker: LedgerBroker, producer: BatchProducer, name: str, batches: Iterator[bytes]
) -> None:
    """Send until there is an entry about the topic."""
    entries_before = entries_written(ledger_broker.brokers)
    send(producer, name, batches, seconds=1.0, rate=1.0)
    if ledger_broker.keeps_ledger:
        wait_until(
            lambda: entries_written(ledger_broker.brokers) > entries_before,
            within=_PATIENCE,
            what="an entry",
        )


def _counting(ledger_broker: LedgerBroker) -> float:
    return processor_time(ledger_broker.server)[1] if ledger_broker.keeps_ledger else 0.0


BROKER: Final = Profile(
    "audit-broker",
    "a broker that counts what it takes for the ledger, and one that does not",
    (
        Case(
            "batches of agents, 100 to 500 KB, 20 MB/s",
            partial(_produce, load="agent"),
            (Goal(COUNTING, at_most=1),),
        ),
        Case(
            "the same, as fast as they are taken",
            partial(_produce, load="agent-fast"),
            (Goal(COUNTING, at_most=1),),
        ),
        Case("of 2 KB, as fast as they are taken", partial(_produce, load="agent-small")),
    ),
)


def _ship(context: CaseContext, *, line: Line, json: bool) -> Sample:
    seconds = context.scale.ledger_seconds
    ledger_context = replace(context, scale=replace(context.scale, latency_seconds=seconds))
    sample = steadily(ledger_context, line=line, files=1, json=json)
    return {CPU_PER_MILLION: sample[CPU_PER_MILLION], **sample}


AGENT: Final = Profile(
    "audit-agent",
    "an agent that keeps the ledger, and one that does not: a file that grows by 100,000 lines/s",
    (
        Case("plain", partial(_ship, line=plain_line, json=False)),
        Case("JSON", partial(_ship, line=json_line, json=True)),
    ),
)

PROFILES: Final = (BROKER, AGENT)
