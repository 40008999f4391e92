"""Shippers of lines from files to a broker: Penstock's agent, and its peers.

All get the same files and broker. A shipper has the last core to itself; broker, ZooKeeper,
registry and the writer of the files share the others. A run begins without state and with one line
that has arrived, so that connections exist and the topic is known.

The agent has its default settings, and no Hypothesis, which kio would import if it were installed.
The peers' settings are in `bench.peers`.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.contents.log_files import first_line
from bench.contents.log_lines import REQUEST_SCHEMA
from bench.contents.topics import create, topic, wait_for_end
from bench.figures.measurement import NotMeasured
from bench.figures.plain_python import without_hypothesis
from bench.figures.profile import CaseContext, ServerKind
from bench.peers import PEERS
from bench.peers.peer import Task
from bench.servers.brokers import penstock_cluster
from harness.penstock.agent import AgentProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import ServerProcess
from harness.processes.waiting import wait_until

_PATIENCE = 60.0
_DEFAULTS: Mapping[str, object] = {"scan_interval": 5.0, "ledger_interval": 10.0, "batches": {}}
_FIRST = "first.txt"  # later files have other names


class Site(msgspec.Struct, frozen=True):
    """The broker that shippers ship to, and its registry."""

    broker: BrokerProcess
    registry: RegistryProcess
    wrapper: Sequence[str]  # pins a shipper to its core

    def log_bytes(self, name: str) -> int:
        """The size of the topic's partition 0 on disk."""
        return sum(file.stat().st_size for file in self._segments(name))

    def batches(self, name: str) -> int:
        """The number of batches in the topic's partition 0."""
        return sum(_batches(file.read_bytes()) for file in self._segments(name))

    def _segments(self, name: str) -> list[Path]:
        return list(self.broker.partition_dir(name).glob("*.log"))


def _batches(log: bytes) -> int:
    count = position = 0
    while position + 12 <= len(log):
        position += 12 + int.from_bytes(log[position + 8 : position + 12])
        count += 1
    return count


class Shipper(msgspec.Struct):
    """A kind of shipper; it runs only within `shipping`."""

    name: str
    site: Site
    directory: Path
    settings: Mapping[str, object]  # of the agent
    process: ServerProcess | None = None
    runs: int = 0

    def last_words(self, lines: int) -> str:
        return "" if self.process is None else self.process.last_words(lines)


class Running(msgspec.Struct, frozen=True):
    """A started shipper: files that appear in `watched` are shipped to `topic`."""

    site: Site
    pid: int
    watched: Path
    topic: str
    shipped: int  # lines before the measurement

    @property
    def port(self) -> int:
        return self.site.broker.port

    def wait_for(self, lines: int, *, within: float = _PATIENCE) -> None:
        """Waits until `lines` more lines can be consumed."""
        wait_for_end(self.port, self.topic, self.shipped + lines, within=within)


def shipper_of(context: CaseContext) -> Shipper:
    assert isinstance(context.server, Shipper)
    return context.server


@contextlib.contextmanager
def shipping(shipper: Shipper, *, json: bool = False) -> Iterator[Running]:
    shipper.runs += 1
    home = shipper.directory / f"run-{shipper.runs}"
    watched_folder = home / "watched"
    watched_folder.mkdir(parents=True)
    (watched_folder / _FIRST).write_bytes(_first(json=json))
    site = shipper.site
    with topic(site.broker.port) as name:
        if json:
            answer = site.registry.register(f"{name}-value", REQUEST_SCHEMA)
            assert answer.status == 200, answer
        with _started(shipper, home, watched_folder, name, json=json) as process:
            running = Running(site, process.pid, watched_folder, name, 1)
            wait_for_end(site.broker.port, name, 1, within=_PATIENCE)
            yield running


def _first(*, json: bool) -> bytes:
    if not json:
        return first_line("first")
    return (
        b'{"ts":"2026-11-20T00:00:00Z","level":"info","status":200,"duration_ms":1.5,'
        b'"bytes":1,"cached":false,"request":"first"}\n'
    )


@contextlib.contextmanager
def _started(
    shipper: Shipper, home: Path, watched_folder: Path, name: str, *, json: bool
) -> Iterator[ServerProcess]:
    site = shipper.site
    if shipper.name in PEERS:
        task = Task(home, watched_folder, site.broker.port, name)
        process = PEERS[shipper.name].process(task, site.wrapper)
        shipper.process = process
        with process:
            process.spawn()
            yield process
        return
    source = {"paths": [str(watched_folder / "*")], "topic": name}
    json_settings = {"format": "json", "time": {"field": "ts"}} if json else {}
    agent = AgentProcess(
        home,
        brokers=site.broker.bootstrap,
        registry=site.registry.url,
        inputs=[{**source, **json_settings}],
        settings={**_DEFAULTS, **shipper.settings},
        environment={"PYTHONPATH": str(without_hypothesis(home))},
        wrapper=site.wrapper,
    )
    shipper.process = agent.process
    with agent:
        yield agent.process


@contextlib.contextmanager
def shippers(directory: Path, names: Sequence[str]) -> Iterator[Mapping[str, ServerKind]]:
    """Yields Penstock's agent and the installed peers, with a broker already started."""
    with _started_site(directory) as site:
        yield {name: _kind(name, site, {}) for name in names}


@contextlib.contextmanager
def agents(
    directory: Path, settings: Mapping[str, Mapping[str, object]]
) -> Iterator[Mapping[str, ServerKind]]:
    """Yields agents only, with different settings by name."""
    with _started_site(directory) as site:
        yield {name: _kind(name, site, changes) for name, changes in settings.items()}


@contextlib.contextmanager
def _started_site(directory: Path) -> Iterator[Site]:
    with (
        _own_core() as core_prefix,
        tempfile.TemporaryDirectory(dir=directory) as home,
        penstock_cluster(Path(home)) as (address, broker),
    ):
        create(broker.port, {"_audit": 1})
        registry = RegistryProcess(
            Path(home) / "registry", brokers=broker.bootstrap, zookeeper=address
        )
        with registry:
            wait_until(lambda: registry.is_writer, within=_PATIENCE, what="a registry that writes")
            yield Site(broker, registry, core_prefix)


def _kind(name: str, site: Site, settings: Mapping[str, object]) -> ServerKind:
    return lambda directory: contextlib.nullcontext(Shipper(name, site, directory, settings))


@contextlib.contextmanager
def _own_core() -> Iterator[Sequence[str]]:
    """Keep this process and its children off the last core; yields a prefix that uses it."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        raise NotMeasured("a shipper needs its own core, and this machine has only one")
    last_core = max(cores)
    os.sched_setaffinity(0, cores - {last_core})
    try:
        yield ["taskset", "--cpu-list", str(last_core)]
    finally:
        os.sched_setaffinity(0, cores)
