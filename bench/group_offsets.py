"""`python -m bench.group_offsets`: how many offsets groups commit per second with one ZooKeeper.

An embedded ZooKeeper, as `zookeeper: embedded` starts it, keeps the offsets of 100 groups, 100
partitions each. One thread, then four, with groups of their own, commit them repeatedly, in
transactions of 1, 10, 100 and 1,000 partitions. Prints partitions per second, the duration of a
transaction, and processor time per partition, of this process with kazoo and of ZooKeeper.
ZooKeeper syncs each transaction to the disk of `--directory`; the duration of a bare sync comes
first.

Then the size of ZooKeeper with 10,000 and with 100,000 offsets: live heap, resident memory,
snapshot, and the time to start.
"""

import argparse
import itertools
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.figures.measurement import Figure
from bench.figures.processes import cpu_seconds, own_cpu_seconds
from cluster.groups import groups
from cluster.groups.offsets import GroupCommit, OffsetWriter, read_offsets
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupFence, GroupInfo, GroupKind, TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper

_PARTITIONS: Final = 100  # of each group
_AT_ONCE: Final = 16  # groups in creation
_SYNCS: Final = 200
_TOPIC: Final = "page_views"
_SESSION_S: Final = 30.0
_WARM_UP: Final = 0.2  # of the measured time

RATE: Final = Figure("partitions/s", more_is_better=True)
TRANSACTIONS: Final = Figure("transactions/s")
MEDIAN: Final = Figure("ms, median", 2)
P99: Final = Figure("ms, p99", 2)
OWN_CPU: Final = Figure("CPU-µs here", 1)
ITS_CPU: Final = Figure("CPU-µs ZooKeeper", 1)

SYNC: Final = Figure("ms for a sync of 4 KiB by itself, median", 2)
LIVE: Final = Figure("MB live in the heap", 1)
RESIDENT: Final = Figure("MB resident", 1)
SNAPSHOT: Final = Figure("MB snapshot", 1)
LOGS: Final = Figure("MB of transactions kept", 1)
STARTED: Final = Figure("s to start", 1)
READ: Final = Figure("s to read all offsets of all groups", 2)


def committed(session: Session, count: int) -> list[GroupFence]:
    """Creates `count` groups that have committed each of their partitions once."""
    new_groups = [
        GroupInfo(name=f"group-{number:05}", kind=GroupKind.KAFKA, coordinator=1)
        for number in range(count)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        fences = list(pool.map(partial(groups.create_group, session), new_groups))
    OffsetWriter(session).commit([_commit(fence, range(_PARTITIONS), 0) for fence in fences])
    return fences


def measure(
    session: Session,
    zookeeper: EmbeddedZooKeeper,
    fences: Sequence[GroupFence],
    *,
    size: int,
    threads: int,
    seconds: float,
) -> dict[Figure, float]:
    """Measures commits in transactions of this size from `threads` threads."""
    writer = OffsetWriter(session)
    deadline = 0.0
    durations: list[float] = []

    def run(number: int) -> None:
        own_fences = fences[number::threads]
        for commits in _transactions(own_fences, size):
            start_time = time.perf_counter()
            assert not writer.commit(commits)
            end_time = time.perf_counter()
            durations.append(end_time - start_time)
            if end_time > deadline:
                return

    def run_all(within: float) -> float:
        nonlocal deadline
        start_time = time.perf_counter()
        deadline = start_time + within
        pool = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        return time.perf_counter() - start_time

    # The writer then knows which nodes exist.
    writer.commit([_commit(fence, range(_PARTITIONS), 0) for fence in fences])
    run_all(seconds * _WARM_UP)
    durations.clear()
    client_cpu, zookeeper_cpu = own_cpu_seconds(), _cpu(zookeeper)
    elapsed = run_all(seconds)
    offset_count = len(durations) * size
    durations.sort()
    return {
        RATE: offset_count / elapsed,
        TRANSACTIONS: len(durations) / elapsed,
        MEDIAN: durations[len(durations) // 2] * 1e3,
        P99: durations[len(durations) * 99 // 100] * 1e3,
        OWN_CPU: (own_cpu_seconds() - client_cpu) / offset_count * 1e6,
        ITS_CPU: (_cpu(zookeeper) - zookeeper_cpu) / offset_count * 1e6,
    }


def sync_ms(directory: Path) -> float:
    """Returns the median duration of an fdatasync after an append, as ZooKeeper's log performs
    it."""
    durations = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, _SYNCS * 4096)
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            start_time = time.perf_counter()
            os.fdatasync(file.fileno())
            durations.append(time.perf_counter() - start_time)
    return sorted(durations)[_SYNCS // 2] * 1e3


def weight(directory: Path, offsets: int) -> dict[Figure, float]:
    """Measures the size of a ZooKeeper that holds only these offsets."""
    with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
        committed(session, offsets // _PARTITIONS)
    start_time = time.perf_counter()  # the start writes a snapshot
    with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
        restart_seconds = time.perf_counter() - start_time
        start_time = time.perf_counter()
        count = sum(len(read_offsets(session, group.name)) for group in groups.list_groups(session))
        assert count == offsets
        return {
            READ: time.perf_counter() - start_time,
            LIVE: _live_bytes(zookeeper) / 1e6,
            RESIDENT: _resident_bytes(zookeeper) / 1e6,
            SNAPSHOT: max(_sizes(directory, "snapshot.*")) / 1e6,
            LOGS: sum(_sizes(directory, "log.*")) / 1e6,
            STARTED: restart_seconds,
        }


def _commit(fence: GroupFence, partitions: range, offset: int) -> GroupCommit:
    now = time.time_ns() // 1_000_000
    return GroupCommit(
        fence,
        {
            TopicPartition(_TOPIC, partition): CommittedOffset(
                offset=offset + partition, leader_epoch=3, committed_ms=now
            )
            for partition in partitions
        },
    )


def _transactions(fences: Sequence[GroupFence], size: int) -> Iterator[list[GroupCommit]]:
    """All partitions of all groups in turn, endlessly, in whole groups or parts of one."""
    step = min(size, _PARTITIONS)
    parts = (
        _commit(fence, range(first, first + step), offset)
        for offset in itertools.count(1)
        for fence in fences
        for first in range(0, _PARTITIONS, step)
    )
    while True:
        yield list(itertools.islice(parts, size // step))


@contextmanager
def _zookeeper(directory: Path) -> Iterator[EmbeddedZooKeeper]:
    zookeeper = EmbeddedZooKeeper.start(directory, port=0)
    try:
        yield zookeeper
    finally:
        zookeeper.stop()


@contextmanager
def _session(zookeeper: EmbeddedZooKeeper) -> Iterator[Session]:
    session = Session.connect(
        f"{zookeeper.address}/penstock", secret=zookeeper.secret, timeout_s=_SESSION_S
    )
    try:
        yield session
    finally:
        session.close()


def _pid(zookeeper: EmbeddedZooKeeper) -> int:
    assert zookeeper.pid is not None
    return zookeeper.pid


def _cpu(zookeeper: EmbeddedZooKeeper) -> float:
    return cpu_seconds(_pid(zookeeper))


def _live_bytes(zookeeper: EmbeddedZooKeeper) -> int:
    """The heap after a full collection, from the JDK's histogram."""
    command = ["jcmd", str(_pid(zookeeper)), "GC.class_histogram"]
    histogram = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total = next(line for line in histogram.splitlines() if line.startswith("Total"))
    return int(total.split()[2])


def _resident_bytes(zookeeper: EmbeddedZooKeeper) -> int:
    pages = int(Path(f"/proc/{_pid(zookeeper)}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _sizes(directory: Path, pattern: str) -> list[int]:
    return [file.stat().st_blocks * 512 for file in directory.glob(f"data/version-2/{pattern}")]


def _row(first: str, figures: dict[Figure, float]) -> str:
    return "| " + " | ".join([first, *(figure.text(value) for figure, value in figures.items())])


def _table(name: str, rows: Iterator[tuple[str, dict[Figure, float]]]) -> None:
    """Print each row as soon as it is measured."""
    for number, (first, figures) in enumerate(rows):
        if not number:
            heads = [name, *(figure.name for figure in figures)]
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        print(_row(first, figures) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each measurement")
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument(
        "--sizes", default="1,10,100,1000", help="sizes of transactions, in partitions"
    )
    parser.add_argument("--threads", default="1,4")
    parser.add_argument(
        "--kept",
        default="10000,100000",
        help="numbers of offsets for the size of ZooKeeper; may be empty",
    )
    options = parser.parse_args()

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",") if number]

    def rates(directory: Path) -> Iterator[tuple[str, dict[Figure, float]]]:
        with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
            fences = committed(session, options.groups)
            for threads in numbers(options.threads):
                for size in numbers(options.sizes):
                    figures = measure(
                        session,
                        zookeeper,
                        fences,
                        size=size,
                        threads=threads,
                        seconds=options.seconds,
                    )
                    yield f"{size:,}, {threads} at a time", figures

    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=options.directory) as work:
        print(f"{SYNC.text(sync_ms(Path(work)))} {SYNC.name}\n", flush=True)
        _table("a transaction", rates(Path(work) / "rates"))
        print()
        counts = numbers(options.kept)
        _table("offsets", ((f"{size:,}", weight(Path(work) / str(size), size)) for size in counts))


if __name__ == "__main__":
    main()
