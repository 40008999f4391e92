"""A fleet that writes to one broker: the cost for broker and ZooKeeper, the latency for agents."""

import time
from typing import Final

from bench.contents.topics import create
from bench.figures.measurement import (
    BROKER_CORES,
    PEAK_MEMORY,
    PROPORTIONAL_MEMORY,
    Figure,
    Goal,
    Sample,
)
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.many_agents import ENTRY_EVERY_S, EVERY_S, LINES, Written, playing
from bench.profiles.latency import LARGEST, LATE, P50, P99, P999

_PARTITIONS: Final = 8
_LEDGER: Final = "told"
_BATCHES: Final = Figure("batches a second", more_is_better=True)
_CPU_EACH: Final = Figure("broker CPU-µs a batch", 1)
_ZOOKEEPER: Final = Figure("cores of ZooKeeper", 3)
_ZOOKEEPERS_MEMORY: Final = Figure("ZooKeeper peak RSS, MB")


def _run(context: CaseContext) -> Sample:
    cluster, scale = context.cluster, context.scale
    (broker,) = cluster.members.values()
    agent_topics = Written(
        [f"lines-{number}" for number in range(scale.agents_topics)], _PARTITIONS, _LEDGER
    )
    create(broker.port, dict.fromkeys([*agent_topics.topics, _LEDGER], _PARTITIONS))
    with playing(broker.port, scale.agents, agent_topics) as end:
        time.sleep(scale.warm_up_seconds)
        with Meter(*cluster.pids) as brokers, Meter(*cluster.zookeepers) as zookeepers:
            start_ns = time.monotonic_ns()
            time.sleep(scale.fleet_seconds)
            end_ns = time.monotonic_ns()
        result = end()
    latencies = result.latencies(start_ns, end_ns)
    count, seconds = len(latencies.sorted), (end_ns - start_ns) / 1e9
    sample = {
        P99: latencies.milliseconds(0.99),
        P50: latencies.milliseconds(0.5),
        P999: latencies.milliseconds(0.999),
        LARGEST: latencies.milliseconds(1),
        LATE: result.lateness(start_ns, end_ns).milliseconds(0.999),
        _BATCHES: count / seconds,
        _CPU_EACH: brokers.broker_cpu / count * 1e6,
        BROKER_CORES: brokers.broker_cpu / seconds,
        PEAK_MEMORY: brokers.peak_bytes / 1e6,
        PROPORTIONAL_MEMORY: brokers.proportional_bytes / 1e6,
    }
    if cluster.zookeepers:
        sample[_ZOOKEEPER] = zookeepers.broker_cpu / seconds
        sample[_ZOOKEEPERS_MEMORY] = zookeepers.peak_bytes / 1e6
    return sample


PROFILE: Final = Profile(
    "fleet",
    f"10,000 agents write to one broker, 100 topics of {_PARTITIONS} partitions, acks=all: each a "
    f"batch of {LINES} lines in {EVERY_S:g} s, and in {ENTRY_EVERY_S:g} s as much as an entry of "
    "the ledger",
    (Case("agents", _run, (Goal(_CPU_EACH, ahead=True), Goal(PEAK_MEMORY, at_most=300))),),
    once=True,
)
