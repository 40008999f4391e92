"""What carries events from a broker into files: Penstock's loader, and Spark's own Kafka source.

Both run in `local[2]` with the same memory, read the same topics of the same broker, and write the
same columns. Their drivers stay up from one load to the next, so that their JVMs are warm; each
load goes into a folder that was not there before.
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
    """Where events are loaded from."""

    broker: BrokerProcess
    registry: RegistryProcess
    filled: dict[int, EventTopics] = {}  # by how many rows

    def topics(self, rows: int) -> EventTopics:
        """Filled when they are first asked for."""
        if rows not in self.filled:
            self.filled[rows] = fill(self.broker.bootstrap, self.registry.url, rows)
            os.sync()
        return self.filled[rows]


class LoaderCase(msgspec.Struct, frozen=True):
    """One load of a topic, as a case wants it. The settings are those of Penstock's loader."""

    topic: str
    rows: int
    settings: Json


class Loaded(msgspec.Struct, frozen=True):
    """What a load took, and what it left."""

    seconds: float
    cpu_seconds: float
    peaks: Peaks
    files: int
    bytes: int
    hours: int  # that have files
    closed: int  # of these, those that are called complete


class Loading(Protocol):
    """How one of them is told to load."""

    site: Site

    def started_with(self) -> Json: ...
    def load(self, wanted: LoaderCase, root: Path) -> Json: ...


@dataclass(frozen=True, slots=True)
class _OurLoading(Loading):
    site: Site

    def _config(self, **more: object) -> Json:
        spark = {"master": _MASTER, "conf": {"spark.driver.memory": _MEMORY}}
        brokers, registry = [self.site.broker.bootstrap], self.site.registry.url
        return {"brokers": brokers, "registry": registry, "spark": spark, **more}

    def started_with(self) -> Json:
        return self._config(root="file:///nowhere", topics=["none"])

    def load(self, wanted: LoaderCase, root: Path) -> Json:
        return self._config(root=root.as_uri(), topics=[wanted.topic], **wanted.settings)


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

    def load(self, wanted: LoaderCase, root: Path) -> Json:
        return {
            "brokers": self.site.broker.bootstrap,
            "topic": wanted.topic,
            "schema": SCHEMA,
            "fields": OWN_FIELDS,
            "folder": str(root / wanted.topic),
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

    def load(self, wanted: LoaderCase) -> Loaded:
        """ServerFailed if not all of it is in the files."""
        self.loads += 1
        root = self.home / f"root-{self.loads}"
        try:
            with SparkCost(self.driver.pid) as cost:
                answer = self.driver.ask("load", self.loading.load(wanted, root))
            files = visible_files(root / wanted.topic)
            rows = sum(pq.read_metadata(file).num_rows for file in files)
            if rows != wanted.rows:
                raise ServerFailed(f"{rows} of {wanted.rows} events have landed")
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
    """As many events as the scale says."""
    return loader_of(context).loading.site.topics(context.scale.rows)


def visible_files(table: Path) -> list[Path]:
    """As Spark sees them."""
    return [file for file in table.glob("dt=*/hour=*/*.parquet") if file.name[0] not in "_."]


@contextlib.contextmanager
def loaders(directory: Path, peer: SparkPeer | None) -> Iterator[Mapping[str, ServerKind]]:
    """By their names, with what they load from started."""
    with (
        tempfile.TemporaryDirectory(dir=directory) as home,
        penstock_cluster(Path(home)) as (address, broker),
    ):
        registry = RegistryProcess(
            Path(home) / "registry", brokers=broker.bootstrap, zookeeper=address
        )
        with registry:
            wait_until(lambda: registry.is_writer, within=_PATIENCE, what="it is writer")
            site = Site(broker, registry)
            kinds: dict[str, ServerKind] = {PENSTOCK: lambda context: _ours(site, context)}
            if peer is not None:
                kinds[SPARK] = lambda context: _peers(site, peer, context)
            yield kinds


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
