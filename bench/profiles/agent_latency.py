"""From a line's writing to a consumer's having it, at default settings."""

from functools import partial

from bench.line_latency import written_to_consumed
from bench.measurement import Goal, Sample
from bench.profile import Case, Place, Profile
from bench.profiles.latency import LARGEST, P50, P99, P999
from bench.shippers import shipper_of, shipping


def _run(place: Place, *, rate: int) -> Sample:
    with shipping(shipper_of(place)) as running:
        latencies = written_to_consumed(
            running.port,
            running.topic,
            running.shipped,
            running.watched / "lines.log",
            rate=rate,
            seconds=place.scale.latency_seconds,
            warm_up=place.scale.warm_up_seconds,
        )
    return {
        P50: latencies.milliseconds(0.5),
        P99: latencies.milliseconds(0.99),
        P999: latencies.milliseconds(0.999),
        LARGEST: latencies.milliseconds(1),
    }


PROFILE = Profile(
    "agent-latency",
    "line written to line consumed, a plain line of 200 bytes each time, default settings",
    tuple(
        Case(f"{rate:,} lines/s", partial(_run, rate=rate), (Goal(P99, at_most=250),))
        for rate in (10, 1_000, 10_000)
    ),
)
