"""What a load has at hand, and what it was asked to do, shared by all its tables; and what the
steps of one table have besides."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import msgspec

from client.brokers import Brokers
from loader.commit.history import History
from loader.config import LoaderConfig
from loader.errors import Interrupted
from loader.hours.audit import Audit
from loader.hours.completeness import Watermarks
from loader.ledger.observations import Observations
from loader.run.outcomes import TableOutcome, TableWatcher
from loader.store.store import Store
from loader.tables import Hour, TableSource
from schemas.registry_client import RegistryClient

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork


def loader_name() -> str:
    """Who writes manifests: no two processes are called the same."""
    try:
        penstock = version("penstock")
    except PackageNotFoundError:
        penstock = "unknown"
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]} penstock {penstock}"


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One load, as it was asked for."""

    tables: tuple[str, ...] = ()  # names or patterns of tables; none: all that are configured
    accept_gap: bool = False
    max_records: int | None = None  # of each table
    rebuild: tuple[Hour, ...] = ()
    check_files: tuple[Hour, ...] | None = None  # only these are checked, and none means all hours
    dry_run: bool = False
    config_file: str = ""  # of this loader, for commands that mend a load; empty: unknown

    @property
    def reads_nothing(self) -> bool:
        """Of any topic."""
        return self.dry_run or self.check_files is not None

    @property
    def says_nothing_of_loads(self) -> bool:
        """Whether it is no load as those that come by themselves."""
        return self.reads_nothing or bool(self.rebuild)


class LoadContext(msgspec.Struct, frozen=True):
    """Usable by many threads, but for brokers: each table has connections of its own."""

    config: LoaderConfig
    request: LoadRequest
    start_spark: "Callable[[], SparkWork]"  # the same each time; raises LoaderError
    store: Store
    registry: RegistryClient
    watermarks: Watermarks | None  # None: nobody can say which hours are complete, now
    audit: Audit | None  # who is asked instead
    observations: Observations
    watcher: TableWatcher
    stopping: threading.Event
    clock: Callable[[], float] = time.time
    loader: str = msgspec.field(default_factory=loader_name)

    @property
    def spark(self) -> "SparkWork":
        """For what only Spark can do: a load that finds nothing new never asks for it."""
        return self.start_spark()

    def now(self) -> int:
        return int(self.clock() * 1000)

    def brokers(self) -> Brokers:
        return Brokers(self.config.bootstrap, client_id="penstock-loader")

    def go_on(self, table: str) -> None:
        """Raises Interrupted if nobody wants more of this load."""
        if self.stopping.is_set():
            raise Interrupted(f"table {table}: stopped before anything was committed")


class TableLoad(msgspec.Struct, frozen=True):
    """One table's part of a load. Used by one thread."""

    context: LoadContext
    table: TableSource
    brokers: Brokers
    history: History
    outcome: TableOutcome  # grows while the load goes on

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def topics(self) -> list[str]:
        """That the table is fed by now."""
        return [source.topic for source in self.table.topics]

    def doing(self, step: str) -> None:
        """What comes now, in words."""
        self.context.watcher.doing(self.name, step)

    def warn(self, text: str) -> None:
        """Something to know, now and in the end."""
        self.outcome.warnings.append(text)
        self.context.watcher.warned(self.name, text)

    def go_on(self) -> None:
        """Raises Interrupted if nobody wants more of this load."""
        self.context.go_on(self.name)
