"""Latency from produce to consume: at a steady 10,000 messages a second, and of single messages.

The steady load uses librdkafka on both sides; single messages go between two raw connections.
"""

from functools import partial

from bench.contents.topics import topic
from bench.figures.measurement import Figure, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.steady_load import Latencies, one_at_a_time, produce_to_consume

_RATE = 10_000
P50 = Figure("p50, ms", 2)
P99 = Figure("p99, ms", 2)
P999 = Figure("p99.9, ms", 2)
LARGEST = Figure("largest, ms", 2)
LATE = Figure("sent late by the client: p99.9, ms", 2)


def _run(context: CaseContext, *, options: dict[str, str]) -> Sample:
    with topic(context.broker.port) as name:
        latencies, schedule_delays = produce_to_consume(
            context.broker.port,
            name,
            rate=_RATE,
            seconds=context.scale.latency_seconds,
            warm_up=context.scale.warm_up_seconds,
            options=options,
        )
    return {**_figures(latencies), LATE: schedule_delays.milliseconds(0.999)}


def _alone(context: CaseContext, *, acks: int) -> Sample:
    with topic(context.broker.port) as name:
        latencies = one_at_a_time(
            context.broker.port,
            name,
            acks=acks,
            seconds=context.scale.latency_seconds,
            warm_up=context.scale.warm_up_seconds,
        )
    return _figures(latencies)


def _figures(latencies: Latencies) -> Sample:
    return {
        P50: latencies.milliseconds(0.5),
        P99: latencies.milliseconds(0.99),
        P999: latencies.milliseconds(0.999),
        LARGEST: latencies.milliseconds(1),
    }


PROFILE = Profile(
    "latency",
    f"produce to consume at {_RATE:,} messages a second (librdkafka), and a message at a time",
    (
        *(
            Case(name, partial(_run, options=options))
            for name, options in (
                ("acks=1", {"acks": "1"}),
                ("acks=1, linger.ms=0", {"acks": "1", "linger.ms": "0"}),
                ("acks=all", {"acks": "all"}),
                ("acks=all, linger.ms=0", {"acks": "all", "linger.ms": "0"}),
            )
        ),
        Case("acks=1, a message at a time", partial(_alone, acks=1)),
        Case("acks=all, a message at a time", partial(_alone, acks=-1)),
    ),
)
