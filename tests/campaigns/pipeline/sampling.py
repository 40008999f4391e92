"""What a site takes, looked at all the while, and kept as a table.

    seconds,series,kind,life,value
    30.1,broker-1 memory,memory,4711,81264640

A `life` is a process id where a process is meant; what outlives processes has none. Of a process,
all its descendants count as it does. What cannot be looked at, because it is just ending or being
started, has no sample then.
"""

import csv
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from bench.figures.processes import tree
from harness.processes.server_process import ServerProcess
from tests.campaigns.pipeline.flatness import Kind, Point, Series
from tests.campaigns.pipeline.site import Site
from tests.system.crash import Worker

HEADER: Final = ("seconds", "series", "kind", "life", "value")
_BLOCK: Final = 512
_ANSWERS_WITHIN: Final = 2.0
_OUTPUTS: Final = ("*.log", "*/*.log", "*/*/*.log")


class Look(NamedTuple):
    """What one look found: no moment yet."""

    series: str
    kind: Kind
    life: str
    value: float


Looking = Callable[[], Iterable[Look]]


def of_process(name: str, pid: Callable[[], int | None], memory: Kind = Kind.MEMORY) -> Looking:
    """`pid`: nothing while it does not run."""

    def look() -> Iterator[Look]:
        process = pid()
        if process is None:
            return
        try:
            # A process that has ended and was not waited for has no memory any more.
            status = [found for each in tree(process) if "VmRSS" in (found := _status(each))]
            descriptors = sum(len(os.listdir(f"/proc/{each}/fd")) for each in tree(process))  # noqa: PTH208
        except OSError:
            return  # it is just ending, or one of its children is
        if not status:
            return
        life = str(process)
        yield Look(f"{name} memory", memory, life, sum(each["VmRSS"] for each in status) * 1024)
        yield Look(f"{name} threads", Kind.THREADS, life, sum(each["Threads"] for each in status))
        yield Look(f"{name} descriptors", Kind.DESCRIPTORS, life, descriptors)

    return look


def _status(pid: int) -> dict[str, int]:
    lines = (each.split() for each in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {each[0][:-1]: int(each[1]) for each in lines if each[0] in {"VmRSS:", "Threads:"}}


def of_files(name: str, kind: Kind, find: Callable[[], Iterable[Path]]) -> Looking:
    """What these take on disk, folders with all that is in them."""

    def look() -> Iterator[Look]:
        yield Look(name, kind, "", sum(map(allocated, find())))

    return look


def allocated(path: Path) -> int:
    """Of a file or a folder, whatever comes and goes meanwhile."""
    taken = 0
    waiting = [path]
    while waiting:
        with suppress(FileNotFoundError, NotADirectoryError):
            place = waiting.pop()
            if not place.is_dir():
                taken += place.stat().st_blocks * _BLOCK
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                        continue
                    with suppress(FileNotFoundError):
                        taken += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    return taken


def of_zookeeper(port: int) -> Looking:
    """By its command `mntr`, which it must allow."""

    def look() -> Iterator[Look]:
        said = asked("mntr", port)
        for key, series, kind in (
            ("zk_znode_count", "zookeeper nodes", Kind.NODES),
            ("zk_watch_count", "zookeeper watches", Kind.WATCHES),
            ("zk_approximate_data_size", "zookeeper data", Kind.STATE),
        ):
            if key in said:
                yield Look(series, kind, "", float(said[key]))

    return look


def asked(command: str, port: int) -> Mapping[str, str]:
    """What a ZooKeeper answers; nothing if it does not."""
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), _ANSWERS_WITHIN) as connection:
            connection.settimeout(_ANSWERS_WITHIN)
            connection.sendall(command.encode())
            while data := connection.recv(65536):
                said += data
    except OSError:
        return {}
    lines = (line.partition("\t") for line in said.decode(errors="replace").splitlines())
    return {key: value for key, tab, value in lines if tab}


def of_machine() -> Iterator[Look]:
    yield Look("machine load", Kind.OTHER, "", os.getloadavg()[0])


class Sampler(Worker):
    """Looks every so many seconds, and writes each sample down at once."""

    def __init__(self, looking: Sequence[Looking], file: TextIO, every: float) -> None:
        super().__init__("sampler")
        self._looking, self._every = looking, every
        self._file = file
        self._write = csv.writer(file, lineterminator="\n").writerow
        self._write(HEADER)
        self.began = time.monotonic()

    def work(self) -> None:
        while True:
            self.look(time.monotonic() - self.began)
            if self._stop_asked.wait(self._every):
                return

    def look(self, seconds: float) -> None:
        for looking in self._looking:
            for each in looking():
                value = f"{each.value:.6g}" if each.value % 1 else f"{each.value:.0f}"
                self._write((f"{seconds:.1f}", each.series, each.kind.value, each.life, value))
        self._file.flush()


def read(path: Path) -> list[Series]:
    """What was written down, by series, as they came."""
    kinds: dict[str, Kind] = {}
    points: defaultdict[str, list[Point]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            kinds[row["series"]] = Kind(row["kind"])
            point = Point(float(row["seconds"]), row["life"], float(row["value"]))
            points[row["series"]].append(point)
    return [Series(name, kinds[name], tuple(points[name])) for name in kinds]


def watched(site: Site) -> Iterator[Looking]:
    """What of a site of one cluster is looked at. It has been started."""
    directory, cluster, topics = site.directory, site.last.cluster, site.last.topics
    (zookeeper,) = cluster.zookeepers.servers
    yield of_process("zookeeper", lambda: _pid(zookeeper.process), Kind.JVM_MEMORY)
    for broker_id, broker in cluster.brokers.items():
        yield of_process(f"broker-{broker_id}", lambda of=broker.process: _pid(of))
    for number, registry in enumerate(site.registries, 1):
        yield of_process(f"registry-{number}", lambda of=registry.process: _pid(of))
    yield of_process("audit", lambda: _pid(site.audit.process))
    for agent in site.agents.values():
        yield of_process(agent.host, lambda of=agent.process: _pid(of))

    for broker_id, broker in cluster.brokers.items():
        name, data = f"broker-{broker_id}", broker.data_dir
        for topic in topics:
            yield of_files(
                f"{name} log of {topic}",
                Kind.LOGS,
                lambda of=data, topic=topic: of.glob(f"{topic}-*"),
            )
        yield of_files(f"{name} other files", Kind.STATE, lambda of=data: _beside_logs(of, topics))
    for agent in site.agents.values():
        yield of_files(f"{agent.host} journal", Kind.STATE, lambda of=agent.data_dir: [of])
    yield of_files("audit database", Kind.STATE, lambda: [site.audit.data_dir / "audit.db"])
    yield of_files("audit log ahead", Kind.AHEAD, lambda: [site.audit.data_dir / "audit.db-wal"])
    yield of_files("loader commit log", Kind.STATE, lambda: [site.loader.warehouse / "_penstock"])
    yield of_files(
        "zookeeper files", Kind.STATE, lambda: [directory / site.last.name / "zookeeper-1" / "data"]
    )
    yield of_files("said by programs", Kind.STATE, lambda: _outputs(directory))
    yield of_files("log files of applications", Kind.LOGS, lambda: [directory / "logs"])
    yield of_zookeeper(zookeeper.port)
    yield of_machine


def _pid(process: ServerProcess) -> int | None:
    return process.pid if process.alive else None


def _beside_logs(data: Path, topics: Iterable[str]) -> Iterable[Path]:
    logs = tuple(f"{topic}-" for topic in topics)
    return [each for each in data.iterdir() if not each.name.startswith(logs)]


def _outputs(directory: Path) -> list[Path]:
    return [path for pattern in _OUTPUTS for path in directory.glob(pattern)]
