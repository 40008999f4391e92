"""Loaders of events into files: Penstock's, and Spark's own Kafka source.

Both run in `local[2]` with the same memory, read the same topics of the same broker, and write the
same columns. Their drivers keep running between loads, so their JVMs are warm. Each load has a new
folder.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import pyarrow.parquet as pq

from bench.contents.events import OWN_FIELDS, SCHEMA, EventTopics, fill
from bench.figures.plain_python import without_hypothesis
from bench.figures.profile import CaseContext, ServerKind
from bench.servers.brokers import PENSTOCK, penstock_cluster
from bench.spark.driver_commands import Json
from bench.spark.spark_driver import REPOSITORY, Peaks, SparkCost, SparkDriver
from bench.spark.spark_peer import SparkPeer
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import ServerFailed
from harness.processes.waiting import wait_until

SPARK: Final = "Spark's Kafka source"
_MASTER: Final = "local[2]"
_MEMORY: Final = "2g"
_PATIENCE: Final = 60.0


class Site(msgspec.Struct):
    """The source of the events."""

    broker: BrokerProcess
    registry: RegistryProcess
    filled: dict[int, EventTopics] = {}  # by number of rows

    def topics(self, rows: int) -> EventTopics:
        """The topics, filled on first use."""
        if rows not in self.filled:
            self.filled[rows] = fill(self.broker.bootstrap, self.registry.url, rows)
            os.sync()
        return self.filled[rows]


class LoaderCase(msgspec.Struct, frozen=True):
    """One load of a topic; `settings` are those of Penstock's loader."""

    topic: str
    rows: int
    settings: Json


class Loaded(msgspec.Struct, frozen=True):
    """The cost and the results of a load."""

    seconds: float
    cpu_seconds: float
    peaks: Peaks
    files: int
    bytes: int
    hours: int  # with files
    closed: int  # complete ones among these


class Loading(Protocol):
    """The configuration of a loader's driver and its loads."""

    site: Site

    def started_with(self) -> Json: ...
    def load(self, case: LoaderCase, root: Path) -> Json: ...


@dataclass(frozen=True, slots=True)
class _OurLoading(Loading):
    site: Site

    def _config(self, **more: object) -> Json:
        spark = {"master": _MASTER, "conf": {"spark.driver.memory": _MEMORY}}
        brokers, registry = [self.site.broker.bootstrap], self.site.registry.url
        return {"brokers": brokers, "registry": registry, "spark": spark, **more}

    def started_with(self) -> Json:
        return self._config(root="file:///nowhere", topics=["none"])

    def load(self, case: LoaderCase, root: Path) -> Json:
        return self._config(root=root.as_uri(), topics=[case.topic], **case.settings)


@dataclass(frozen=True, slots=True)
class _PeerLoading(Loading):
    site: Site
    peer: SparkPeer

    def started_with(self) -> Json:
        return {
            "spark.master": _MASTER,
            "spark.driver.memory": _MEMORY,
            "spark.jars": ",".join(self.peer.jars),
        }

    def load(self, case: LoaderCase, root: Path) -> Json:
        return {
            "brokers": self.site.broker.bootstrap,
            "topic": case.topic,
            "schema": SCHEMA,
            "fields": OWN_FIELDS,
            "folder": str(root / case.topic),
        }


class Loader(msgspec.Struct):
    """A started driver."""

    name: str
    home: Path
    driver: SparkDriver
    loading: Loading
    loads: int = 0

    def last_words(self, lines: int) -> str:
        return self.driver.last_words(lines)

    def load(self, case: LoaderCase) -> Loaded:
        """Runs one load. Raises ServerFailed if events are missing from the files."""
        self.loads += 1
        root = self.home / f"root-{self.loads}"
        try:
            with SparkCost(self.driver.pid) as cost:
                answer = self.driver.ask("load", self.loading.load(case, root))
            files = visible_files(root / case.topic)
            rows = sum(pq.read_metadata(file).num_rows for file in files)
            if rows != case.rows:
                raise ServerFailed(f"{rows} of {case.rows} events were loaded")
            hours = {file.parent for file in files}
            return Loaded(
                seconds=answer["seconds"],
                cpu_seconds=cost.cpu_seconds,
                peaks=cost.peaks,
                files=len(files),
                bytes=sum(file.stat().st_size for file in files),
                hours=len(hours),
                closed=sum((hour / "_SUCCESS").exists() for hour in hours),
            )
        finally:
            shutil.rmtree(root, ignore_errors=True)


def loader_of(context: CaseContext) -> Loader:
    assert isinstance(context.server, Loader)
    return context.server


def topics_of(context: CaseContext) -> EventTopics:
    """Returns topics with as many rows as the scale has."""
    return loader_of(context).loading.site.topics(context.scale.rows)


def visible_files(table: Path) -> list[Path]:
    """Returns the data files that Spark would read."""
    return [file for file in table.glob("dt=*/hour=*/*.parquet") if file.name[0] not in "_."]


@contextlib.contextmanager
def loaders(directory: Path, peer: SparkPeer | None) -> Iterator[Mapping[str, ServerKind]]:
    """Yields the loaders by name, with a broker and a registry already started."""
    with (
        tempfile.TemporaryDirectory(dir=directory) as home,
        penstock_cluster(Path(home)) as (address, broker),
    ):
        registry = RegistryProcess(
            Path(home) / "registry", brokers=broker.bootstrap, zookeeper=address
        )
        with registry:
            wait_until(lambda: registry.is_writer, within=_PATIENCE, what="a registry that writes")
            site = Site(broker, registry)
            servers_by_name: dict[str, ServerKind] = {
                PENSTOCK: lambda context: _ours(site, context)
            }
            if peer is not None:
                servers_by_name[SPARK] = lambda context: _peers(site, peer, context)
            yield servers_by_name


@contextlib.contextmanager
def _ours(site: Site, home: Path) -> Iterator[Loader]:
    environment = {"PYTHONPATH": f"{without_hypothesis(home)}:{REPOSITORY}"}
    command = [sys.executable, "-m", "bench.spark.loader_driver"]
    with _started(PENSTOCK, command, environment, _OurLoading(site), home) as loader:
        yield loader


@contextlib.contextmanager
def _peers(site: Site, peer: SparkPeer, home: Path) -> Iterator[Loader]:
    command = [str(peer.python), "-m", "bench.spark.peer_driver"]
    with _started(SPARK, command, {}, _PeerLoading(site, peer), home) as loader:
        yield loader


@contextlib.contextmanager
def _started(
    name: str, command: Sequence[str], environment: Mapping[str, str], loading: Loading, home: Path
) -> Iterator[Loader]:
    driver = SparkDriver(command, output=home / "driver.log", environment=environment)
    with driver:
        try:
            driver.ask("start", loading.started_with())
        except ServerFailed as failure:
            raise ServerFailed(f"{name}: {failure}\n{driver.last_words(40)}") from None
        yield Loader(name, home, driver, loading)
