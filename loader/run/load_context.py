"""The context of a load, shared by all its tables, and that of one table's run."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import msgspec

from client.connection.brokers import Brokers
from ground.signatures.keys import SigningKey
from loader.certificates.audit_client import CertifyingAudit
from loader.commit.commit_log import CommitLog
from loader.config import LoaderConfig
from loader.errors import Interrupted
from loader.hours.audit import Audit
from loader.hours.completeness import Watermarks
from loader.hours.ledger_reading import LoadLedger
from loader.ledger.observations import Observations
from loader.run.outcomes import TableOutcome, TableWatcher
from loader.store.store import Store
from loader.values.tables import Hour, TableSource
from schemas.registry_client import RegistryClient

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork


def loader_name() -> str:
    """Identifies the writer of manifests; unique for each process."""
    try:
        penstock = version("penstock")
    except PackageNotFoundError:
        penstock = "unknown"
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]} penstock {penstock}"


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """A request to join small files of complete hours, instead of a load."""

    older_than: int  # milliseconds since the end of an hour
    target_bytes: int  # the approximate size of new files; smaller ones are joined


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    tables: tuple[str, ...] = ()  # names or patterns; empty: all configured tables
    accept_gap: bool = False
    max_records: int | None = None  # of each table
    rebuild: tuple[Hour, ...] = ()
    remove_rows: int = 0  # that a rebuild may remove although the brokers no longer have them
    check_files: tuple[Hour, ...] | None = None  # only checks these; empty: all hours
    dry_run: bool = False
    compaction: Compaction | None = None
    upgrade_schema: bool = False  # rewrites hours whose files do not have the table's columns
    config_options: tuple[str, ...] = ()  # `--config FILE`, for commands that mend a load
    every: float = 0.0  # seconds from one load to the next; 0: the configuration says it

    @property
    def accepts_gap(self) -> bool:
        return self.accept_gap or self.remove_rows > 0

    @property
    def reads_nothing(self) -> bool:
        is_load = self.check_files is None and self.compaction is None
        return self.dry_run or not is_load

    @property
    def is_unreported(self) -> bool:
        """Whether the outcome is kept out of the ledger, because this is not a regular load."""
        return self.reads_nothing or bool(self.rebuild)


class LoadContext(msgspec.Struct, frozen=True):
    """The shared state of all tables of a load. May be used by many threads; connections to brokers
    are made for each table."""

    config: LoaderConfig
    request: LoadRequest
    start_spark: "Callable[[], SparkWork]"  # always the same one; raises LoaderError
    store: Store
    registry: RegistryClient
    ledger: LoadLedger
    watermarks: Watermarks | None  # None: unknown which hours are complete
    audit: Audit | None  # decides instead of watermarks, if configured
    signing_key: SigningKey | None  # proves ledger entries; None: they have no proofs
    certifying: CertifyingAudit | None  # None: hours get no certificates
    observations: Observations
    watcher: TableWatcher
    stopping: threading.Event
    clock: Callable[[], float] = time.time
    loader: str = msgspec.field(default_factory=loader_name)

    @property
    def spark(self) -> "SparkWork":
        """Returns Spark, and starts it if necessary, so that a load without new events never starts
        it."""
        return self.start_spark()

    def now(self) -> int:
        return int(self.clock() * 1000)

    def brokers(self) -> Brokers:
        return Brokers(self.config.bootstrap, client_id="penstock-loader")

    @property
    def key_fingerprint(self) -> str:
        """Of the signing key; empty without one."""
        return "" if self.signing_key is None else self.signing_key.public.fingerprint

    def check_stopped(self, table: str) -> None:
        """Checks whether the load was asked to stop. Raises Interrupted."""
        if self.stopping.is_set():
            raise Interrupted(f"table {table}: stopped before anything was committed")


class TableLoad(msgspec.Struct, frozen=True):
    """One table's part of a load. Used by one thread."""

    context: LoadContext
    table: TableSource
    brokers: Brokers
    commit_log: CommitLog
    outcome: TableOutcome  # filled during the load

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def topics(self) -> list[str]:
        """The topics that currently feed the table."""
        return [source.topic for source in self.table.topics]

    def doing(self, step: str) -> None:
        self.context.watcher.doing(self.name, step)

    def warn(self, text: str) -> None:
        """Adds a warning to the outcome, and shows it immediately."""
        self.outcome.warnings.append(text)
        self.context.watcher.warned(self.name, text)

    def check_stopped(self) -> None:
        """Checks whether the load was asked to stop. Raises Interrupted."""
        self.context.check_stopped(self.name)
