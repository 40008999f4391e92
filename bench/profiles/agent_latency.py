"""Latency from a line's write to its arrival at a consumer, at default settings, on a schedule.

A line carries its scheduled time, even if its writer is late. The consumer is a separate process,
`bench.loads.line_consumer`.
"""

import subprocess
import sys
import time
from array import array
from functools import partial
from pathlib import Path

from bench.contents.log_lines import LINE_BYTES
from bench.figures.measurement import Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.librdkafka import Incomplete
from bench.loads.line_consumer import DIGITS
from bench.loads.steady_load import Latencies
from bench.profiles.latency import LARGEST, P50, P99, P999
from bench.servers.shippers import shipper_of, shipping

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PATIENCE = 60.0


def written_to_consumed(
    port: int, topic: str, begin: int, path: Path, *, rate: int, seconds: float, warm_up: float
) -> Latencies:
    """Measures the latencies of single lines from their write to their consumption."""
    count = round((warm_up + seconds) * rate)
    arguments = (str(port), topic, str(begin), str(count))
    with subprocess.Popen(
        [sys.executable, "-m", "bench.loads.line_consumer", *arguments],
        cwd=_REPOSITORY,
        stdout=subprocess.PIPE,
    ) as consumer:
        try:
            assert consumer.stdout is not None
            if consumer.stdout.readline() != b"ready\n":
                raise Incomplete("the consumer did not start")
            start = _write(path, rate, count)
            consumer_output, _ = consumer.communicate(timeout=_PATIENCE)
        finally:
            consumer.kill()
    pairs = array("q", consumer_output)
    if len(pairs) != 2 * count:
        raise Incomplete(f"{len(pairs) // 2} of {count} lines arrived")
    count_start = start + round(warm_up * 1e9)
    return Latencies(
        sorted(pairs[index + 1] for index in range(0, len(pairs), 2) if pairs[index] >= count_start)
    )


def _write(path: Path, rate: int, count: int) -> int:
    """Returns the scheduled time of the first line."""
    gap = 1_000_000_000 // rate
    rest = b"line ".ljust(LINE_BYTES - 1 - DIGITS, b".")
    start = time.monotonic_ns() + gap
    with path.open("ab", buffering=0) as file:
        for number in range(count):
            due_time = start + number * gap
            while (pause := due_time - time.monotonic_ns()) > 0:
                time.sleep(pause / 1e9)
            file.write(b"%b%0*d\n" % (rest, DIGITS, due_time))
    return start


def _run(context: CaseContext, *, rate: int) -> Sample:
    with shipping(shipper_of(context)) as running:
        latencies = written_to_consumed(
            running.port,
            running.topic,
            running.shipped,
            running.watched / "lines.log",
            rate=rate,
            seconds=context.scale.latency_seconds,
            warm_up=context.scale.warm_up_seconds,
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
        Case(f"{rate:,} lines/s", partial(_run, rate=rate), (Goal(P99, at_most=30),))
        for rate in (10, 1_000, 10_000)
    ),
)
