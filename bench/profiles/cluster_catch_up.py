"""The speed at which a follower catches up after a long absence, and the effect on a producer.

It is stopped cleanly. The messages that it misses are still in the machine's page cache when it
returns. A producer sends 5,000 messages a second to the same partitions with acks=all; its p99 is
measured with all in sync, and from the follower's first copied byte until it is in sync.
"""

import time
from pathlib import Path

from bench.contents.cluster_topics import in_sync, seconds_until, topic
from bench.figures.measurement import MEGABYTES, Figure, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads import librdkafka
from bench.loads.acknowledged_load import acknowledged_load
from bench.loads.requests import MESSAGE_SIZE
from bench.servers.broker_clusters import Member

_RATE = 5_000
_PARTITIONS = 3
_FOLLOWER = 3
_EVERY = 0.05
_SAFE = {"acks": "all", "enable.idempotence": "true"}
_MEANWHILE = Figure("produce p99 meanwhile, ms", 2)
_BEFORE = Figure("produce p99 before, ms", 2)
_AWAY = Figure("produce p99 while it is away, ms", 2)
_COPYING = Figure("seconds from its first byte to in sync", 2)
_STARTING = Figure("seconds from its start to its first byte", 2)
_MISSED = Figure("GB missed", 2)


def _lines(context: CaseContext) -> tuple[Path, int]:
    messages = max(1, context.scale.missed_bytes // MESSAGE_SIZE)
    return librdkafka.file_of_lines(context.files, messages), messages


def _prepare(context: CaseContext) -> None:
    _lines(context)


def _run(context: CaseContext) -> Sample:
    cluster, scale = context.cluster, context.scale
    follower = cluster.members[_FOLLOWER]
    lines, messages = _lines(context)
    with topic(cluster, partitions=_PARTITIONS) as name:
        with acknowledged_load(cluster.bootstrap, name, rate=_RATE, options={}) as end:
            time_before = _measured_time(scale.warm_up_seconds, scale.latency_seconds)
            load = end()
        p99_before = load.latencies(*time_before).milliseconds(0.99)
        follower.stop()
        try:
            bootstrap, copied_bytes = cluster.bootstrap, _bytes(follower, name)
            librdkafka.kcats_produce(bootstrap, name, lines, messages, _SAFE, kcats=1)
            with acknowledged_load(bootstrap, name, rate=_RATE, options={}) as end:
                time_away = _measured_time(scale.warm_up_seconds, scale.latency_seconds)
                follower.spawn()
                start_seconds = seconds_until(
                    lambda: _bytes(follower, name) > copied_bytes,
                    "the follower copies",
                    every=_EVERY,
                )
                start_ns = time.monotonic_ns()
                copy_seconds = seconds_until(
                    lambda: in_sync(cluster.members.values(), name, _PARTITIONS),
                    "the follower is in sync",
                    every=_EVERY,
                )
                end_ns = time.monotonic_ns()
                load = end()
        finally:
            if not follower.process.alive:
                follower.start()
    missed_bytes = messages * MESSAGE_SIZE
    return {
        MEGABYTES: missed_bytes / copy_seconds / 1e6,
        _MEANWHILE: load.latencies(start_ns, end_ns).milliseconds(0.99),
        _BEFORE: p99_before,
        _AWAY: load.latencies(*time_away).milliseconds(0.99),
        _COPYING: copy_seconds,
        _STARTING: start_seconds,
        _MISSED: missed_bytes / 1e9,
    }


def _measured_time(warm_up: float, seconds: float) -> tuple[int, int]:
    """Wait; return the beginning and the end of the measured time."""
    time.sleep(warm_up)
    start_ns = time.monotonic_ns()
    time.sleep(seconds)
    return start_ns, time.monotonic_ns()


def _bytes(member: Member, topic: str) -> int:
    """The size of the topic's logs on this broker."""
    return sum(log.stat().st_size for log in member.data_dir.glob(f"{topic}-*/*.log"))


PROFILE = Profile(
    "cluster-catch-up",
    "a follower that was away catches up, beside a producer of 5,000 messages a second",
    (Case("catching up", _run, (Goal(MEGABYTES, ahead=True), Goal(_MEANWHILE, ahead=True))),),
    prepare=_prepare,
)
