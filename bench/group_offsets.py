"""`python -m bench.group_offsets`: how many offsets a second groups can commit by one ZooKeeper.

An embedded ZooKeeper, as `zookeeper: embedded` starts it, keeps the offsets of 100 groups, 100
partitions each. They are committed again and again, in transactions of 1, 10, 100 and 1,000
partitions, by one thread and by four, each with groups of its own. Prints partitions a second, how
long a transaction takes, and microseconds of processor time for a partition: of this process, kazoo
included, and of ZooKeeper. ZooKeeper syncs each transaction to the disk of `--directory`; how long
that takes by itself is printed first.

Then how large ZooKeeper is with 10,000 and with 100,000 offsets: what is live in its heap, its
resident memory, its snapshot, and how long it takes to start.
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
_AT_ONCE: Final = 16  # groups that are made
_SYNCS: Final = 200
_TOPIC: Final = "page_views"
_SESSION_S: Final = 30.0
_WARM_UP: Final = 0.2  # of the time that is measured

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
    """So many groups, each of which has committed all its partitions once."""
    made = [
        GroupInfo(name=f"group-{number:05}", kind=GroupKind.KAFKA, coordinator=1)
        for number in range(count)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        fences = list(pool.map(partial(groups.create_group, session), made))
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
    """Transactions of this size, by so many threads at once."""
    writer = OffsetWriter(session)
    deadline = 0.0
    took: list[float] = []

    def run(number: int) -> None:
        own = fences[number::threads]
        for commits in _transactions(own, size):
            began = time.perf_counter()
            assert not writer.commit(commits)
            now = time.perf_counter()
            took.append(now - began)
            if now > deadline:
                return

    def run_all(within: float) -> float:
        nonlocal deadline
        began = time.perf_counter()
        deadline = began + within
        running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
        for each in running:
            each.start()
        for each in running:
            each.join()
        return time.perf_counter() - began

    # From here on it is known which nodes there are.
    writer.commit([_commit(fence, range(_PARTITIONS), 0) for fence in fences])
    run_all(seconds * _WARM_UP)
    took.clear()
    cpu, its_cpu = own_cpu_seconds(), _cpu(zookeeper)
    elapsed = run_all(seconds)
    done = len(took) * size
    took.sort()
    return {
        RATE: done / elapsed,
        TRANSACTIONS: len(took) / elapsed,
        MEDIAN: took[len(took) // 2] * 1e3,
        P99: took[len(took) * 99 // 100] * 1e3,
        OWN_CPU: (own_cpu_seconds() - cpu) / done * 1e6,
        ITS_CPU: (_cpu(zookeeper) - its_cpu) / done * 1e6,
    }


def sync_ms(directory: Path) -> float:
    """Of a file that is written at its end, as ZooKeeper's log is."""
    took = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, _SYNCS * 4096)
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return sorted(took)[_SYNCS // 2] * 1e3


def weight(directory: Path, offsets: int) -> dict[Figure, float]:
    """Of a ZooKeeper that keeps so many offsets and nothing else."""
    with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
        committed(session, offsets // _PARTITIONS)
    began = time.perf_counter()  # it writes a snapshot when it starts
    with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
        started = time.perf_counter() - began
        began = time.perf_counter()
        found = sum(len(read_offsets(session, each.name)) for each in groups.list_groups(session))
        assert found == offsets
        return {
            READ: time.perf_counter() - began,
            LIVE: _live_bytes(zookeeper) / 1e6,
            RESIDENT: _resident_bytes(zookeeper) / 1e6,
            SNAPSHOT: max(_sizes(directory, "snapshot.*")) / 1e6,
            LOGS: sum(_sizes(directory, "log.*")) / 1e6,
            STARTED: started,
        }


def _commit(fence: GroupFence, partitions: range, offset: int) -> GroupCommit:
    now = time.time_ns() // 1_000_000
    return GroupCommit(
        fence,
        {
            TopicPartition(_TOPIC, each): CommittedOffset(
                offset=offset + each, leader_epoch=3, committed_ms=now
            )
            for each in partitions
        },
    )


def _transactions(fences: Sequence[GroupFence], size: int) -> Iterator[list[GroupCommit]]:
    """All partitions of all groups in turn, without an end; a transaction takes whole groups, or
    a part of one."""
    of_each = min(size, _PARTITIONS)
    parts = (
        _commit(fence, range(first, first + of_each), offset)
        for offset in itertools.count(1)
        for fence in fences
        for first in range(0, _PARTITIONS, of_each)
    )
    while True:
        yield list(itertools.islice(parts, size // of_each))


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
    """What is in the heap after a full collection, by the JDK's own tool."""
    command = ["jcmd", str(_pid(zookeeper)), "GC.class_histogram"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total = next(line for line in said.splitlines() if line.startswith("Total"))
    return int(total.split()[2])


def _resident_bytes(zookeeper: EmbeddedZooKeeper) -> int:
    pages = int(Path(f"/proc/{_pid(zookeeper)}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _sizes(directory: Path, pattern: str) -> list[int]:
    return [each.stat().st_blocks * 512 for each in directory.glob(f"data/version-2/{pattern}")]


def _row(first: str, figures: dict[Figure, float]) -> str:
    return "| " + " | ".join([first, *(figure.text(value) for figure, value in figures.items())])


def _table(name: str, rows: Iterator[tuple[str, dict[Figure, float]]]) -> None:
    """Each row as soon as it is there."""
    for number, (first, figures) in enumerate(rows):
        if not number:
            heads = [name, *(figure.name for figure in figures)]
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        print(_row(first, figures) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--seconds", type=float, default=10.0, help="each measurement")
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--sizes", default="1,10,100,1000", help="of transactions")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--kept", default="10000,100000", help="offsets; nothing: not weighed")
    given = parser.parse_args()

    def numbers(text: str) -> list[int]:
        return [int(each) for each in text.split(",") if each]

    def rates(directory: Path) -> Iterator[tuple[str, dict[Figure, float]]]:
        with _zookeeper(directory) as zookeeper, _session(zookeeper) as session:
            fences = committed(session, given.groups)
            for threads in numbers(given.threads):
                for size in numbers(given.sizes):
                    figures = measure(
                        session,
                        zookeeper,
                        fences,
                        size=size,
                        threads=threads,
                        seconds=given.seconds,
                    )
                    yield f"{size:,}, {threads} at a time", figures

    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=given.directory) as work:
        print(f"{SYNC.text(sync_ms(Path(work)))} {SYNC.name}\n", flush=True)
        _table("a transaction", rates(Path(work) / "rates"))
        print()
        kept = numbers(given.kept)
        _table("offsets", ((f"{each:,}", weight(Path(work) / str(each), each)) for each in kept))


if __name__ == "__main__":
    main()
