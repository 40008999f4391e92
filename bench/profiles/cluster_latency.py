"""Latency from schedule to acknowledgement by three replicas, at a steady 5,000 messages a second.

Penstock acknowledges data that is on three disks. Apache Kafka's default acknowledges data in the
memory of three brokers; with `flush.messages=1` each of them flushes every append.
"""

import time
from functools import partial

from bench.contents.cluster_topics import topic
from bench.figures.measurement import Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.acknowledged_load import acknowledged_load
from bench.profiles.latency import LARGEST, LATE, P50, P99, P999

_RATE = 5_000
_PARTITIONS = 3


def _run(context: CaseContext, *, durable: bool, options: dict[str, str]) -> Sample:
    cluster, scale = context.cluster, context.scale
    config = cluster.durable if durable else {}
    with (
        topic(cluster, partitions=_PARTITIONS, config=config) as name,
        acknowledged_load(cluster.bootstrap, name, rate=_RATE, options=options) as end,
    ):
        time.sleep(scale.warm_up_seconds)
        start_ns = time.monotonic_ns()
        time.sleep(scale.latency_seconds)
        end_ns = time.monotonic_ns()
        load = end()
    latencies = load.latencies(start_ns, end_ns)
    return {
        P50: latencies.milliseconds(0.5),
        P99: latencies.milliseconds(0.99),
        P999: latencies.milliseconds(0.999),
        LARGEST: latencies.milliseconds(1),
        LATE: load.lateness(start_ns, end_ns).milliseconds(0.999),
    }


PROFILE = Profile(
    "cluster-latency",
    f"acks=all by three replicas at {_RATE:,} messages a second (librdkafka, idempotent)",
    tuple(
        Case(
            f"{against}{linger}",
            partial(_run, durable=durable, options=options),
            (Goal(P99, ahead=True),) if durable else (),
        )
        for against, durable in (
            ("Apache Kafka as it comes", False),
            ("Apache Kafka with flush.messages=1", True),
        )
        for linger, options in (("", {}), (", linger.ms=0", {"linger.ms": "0"}))
    ),
)
