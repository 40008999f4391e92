"""A mirror between two clusters: its speed, cost, and the delay of a message under a steady load.

The source is written before the mirror starts. The measurement begins with the first message in the
copy, so it excludes the start and what had been copied by then. Sizes are those of the source's
logs, as compressed.
"""

import contextlib
import itertools
import random
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench.contents.topics import create, delete, ends, is_served
from bench.figures.measurement import MEGABYTES, Figure, Goal, NotMeasured, Sample
from bench.figures.processes import cpu_seconds, peak_bytes, tree
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads import librdkafka
from bench.loads.requests import MESSAGE_SIZE, AnswerError
from bench.loads.steady_load import produce_to_consume
from bench.servers.mirrors import PREFIX, MirroredClusters
from harness.processes.server_process import RunningServer

MIRROR_CPU: Final = Figure("mirror CPU-s/GB", 2)
PER_CPU_SECOND: Final = Figure("MB per mirror CPU-s", more_is_better=True)
CORES: Final = Figure("mirror cores in use", 2)
MEMORY: Final = Figure("mirror peak RSS, MB")
LAG_P50: Final = Figure("in the copy after, p50, ms", 1)
LAG_P99: Final = Figure("in the copy after, p99, ms", 1)
LATE_P99: Final = Figure("generator late, p99, ms", 1)

_PARTITIONS: Final = 3
_STEADY_SIZE: Final = 10_000
_STEADY_RATE: Final = 5_000  # of these, in a second: 50 MB
_PATIENCE: Final = 600.0
_NUMBERS: Final = itertools.count()
_SMALL: Final = Goal(MEMORY, at_most=150)


@contextlib.contextmanager
def _topic(clusters: MirroredClusters, partitions: int) -> Iterator[str]:
    """A topic of the source; deleted with its copy."""
    name = f"mirrored-{next(_NUMBERS)}"
    create(clusters.source.port, {name: partitions})
    try:
        yield name
    finally:
        for port, topic in ((clusters.source.port, name), (clusters.target.port, PREFIX + name)):
            if is_served(port, {topic: partitions}):
                delete(port, topic)


def _copy(
    context: CaseContext, *, codec: str = "none", partitions: int = _PARTITIONS, batch: int = 0
) -> Sample:
    """`batch`: messages per batch, or 0 for librdkafka's default."""
    clusters = context.mirrored
    messages = max(partitions, context.scale.missed_bytes // MESSAGE_SIZE)
    lines = _lines(context.files, messages)
    with _topic(clusters, partitions) as name:
        options = {"compression.codec": codec, "linger.ms": "50", "acks": "1"}
        if batch:
            options["batch.num.messages"] = str(batch)
        librdkafka.kcats_produce(clusters.source.bootstrap, name, lines, messages, options, kcats=1)
        total = _settled(clusters.source.port, name, partitions, messages)
        logs = clusters.source.data_dir.glob(f"{name}-*/*.log")
        size = sum(log.stat().st_size for log in logs)
        with clusters.mirror(name, codec) as mirror:
            return _measured(mirror, clusters.target.port, name, partitions, total, size)


def _lines(directory: Path, messages: int) -> Path:
    """A file of lines of MESSAGE_SIZE bytes, half random, so that lz4 halves them; written once."""
    path = directory / f"mixed-lines-{messages}"
    if not path.exists():
        generator, padding = random.Random("mixed lines"), b"." * (MESSAGE_SIZE // 2)
        with path.open("wb") as lines:
            for _ in range(messages):
                lines.write(generator.randbytes(MESSAGE_SIZE // 4).hex().encode() + padding + b"\n")
    return path


def _settled(port: int, name: str, partitions: int, messages: int) -> int:
    _wait(lambda: _messages(port, name, partitions) == messages, "the source's log is complete")
    return messages


def _measured(  # noqa: PLR0917
    mirror: RunningServer, port: int, name: str, partitions: int, total: int, size: int
) -> Sample:
    count_copied = partial(_messages, port, PREFIX + name, partitions)
    _wait(lambda: count_copied() > 0, "the copy begins")
    start_time, cpu_before, copied_before = time.perf_counter(), _cpu(mirror), count_copied()
    if copied_before >= total:
        raise NotMeasured("the mirror copied everything before the measurement: raise --missed-gb")
    _wait(lambda: count_copied() >= total, "the copy is complete")
    seconds, cpu = time.perf_counter() - start_time, max(0.01, _cpu(mirror) - cpu_before)
    copied_bytes = size * (total - copied_before) / total
    return {
        MEGABYTES: copied_bytes / seconds / 1e6,
        PER_CPU_SECOND: copied_bytes / cpu / 1e6,
        MIRROR_CPU: cpu / max(1.0, copied_bytes) * 1e9,
        CORES: cpu / seconds,
        MEMORY: peak_bytes(mirror.process.pid) / 1e6,
    }


def _steady(context: CaseContext) -> Sample:
    clusters, scale = context.mirrored, context.scale
    with _topic(clusters, 1) as name, clusters.mirror(name) as mirror:
        copy = PREFIX + name
        _wait(lambda: is_served(clusters.target.port, {copy: 1}), "the copy exists")
        cpu_before, start_time = _cpu(mirror), time.perf_counter()
        latencies, delays = produce_to_consume(
            clusters.source.port,
            name,
            rate=_STEADY_RATE,
            seconds=scale.latency_seconds,
            warm_up=scale.warm_up_seconds,
            options={"acks": "1", "linger.ms": "5", "queue.buffering.max.kbytes": "1000000"},
            size=_STEADY_SIZE,
            consumed_at=(clusters.target.port, copy),
        )
        cores = (_cpu(mirror) - cpu_before) / (time.perf_counter() - start_time)
        return {
            LAG_P99: latencies.milliseconds(0.99),
            LAG_P50: latencies.milliseconds(0.5),
            LATE_P99: delays.milliseconds(0.99),
            CORES: cores,
            MEMORY: peak_bytes(mirror.process.pid) / 1e6,
        }


def _many(context: CaseContext) -> Sample:
    return _copy(context, partitions=context.scale.partitions)


def _messages(port: int, name: str, partitions: int) -> int:
    """The end offsets' sum; 0 while the topic is unknown."""
    try:
        return sum(ends(port, {name: partitions}).values())
    except (AnswerError, OSError, struct.error):
        return 0


def _cpu(mirror: RunningServer) -> float:
    return sum(map(cpu_seconds, tree(mirror.process.pid)))


def _wait(condition: Callable[[], bool], what: str) -> None:
    end_time = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end_time:
            raise AnswerError(f"timed out after {_PATIENCE:g} s: {what}")
        time.sleep(0.02)


_CHEAP: Final = (
    Goal(MEGABYTES, ahead=True),
    Goal(PER_CPU_SECOND, at_least=400, ahead=True, times=5),
    _SMALL,
)
PROFILE: Final = Profile(
    "mirror",
    "a topic is copied into another cluster, beside MirrorMaker 2",
    (
        Case("not compressed", _copy, _CHEAP),
        Case("lz4", partial(_copy, codec="lz4"), _CHEAP),
        Case("batches of fifty", partial(_copy, batch=50), _CHEAP),
        Case("steady 50 MB/s", _steady, (Goal(LAG_P99, ahead=True), _SMALL)),
        Case("many partitions", _many, (Goal(PER_CPU_SECOND, ahead=True), _SMALL)),
    ),
)
