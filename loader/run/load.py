"""One load: brings all tables up to date with the brokers, several tables at a time.

An error affects only its own table, and is reported in that table's outcome. Watermarks are read
before anything is planned: what they guarantee lies below the ends that are planned then.

On one host, only one loader works on a table at a time, so a slow run is not overtaken by the next.
The lock is an abstract socket name, shared by all users: it leaves no file, and ends with the
process. Loaders on other hosts, in other containers, or with another name of the same root do not
see it; one of them commits a run, and the others find its number taken.
"""

import errno
import hashlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from client.connection.brokers import Brokers
from client.errors import ClientError, OffsetsMissing
from ground.signatures.keys import BadKey, PublicKey, SigningKey
from loader.certificates.audit_client import CertifyingAudit
from loader.certificates.signing_key import signing_key
from loader.commit.publishing import clean_creating
from loader.config import CertificateMode, LoaderConfig
from loader.errors import GapError, Interrupted, LoaderError, RunTaken, StoreError, cure_of
from loader.hours.audit import Audit
from loader.hours.completeness import Watermarks
from loader.hours.ledger_reading import LoadLedger
from loader.ledger.observations import Observations
from loader.planning.table_selection import matching, tables_of
from loader.rewriting.row_format import check_format
from loader.run.load_context import LoadContext, LoadRequest
from loader.run.load_reports import report_failure, report_health, report_no_start, report_successes
from loader.run.outcomes import TableOutcome, TableWatcher
from loader.run.table import TableRun
from loader.store.opening import open_store
from loader.store.store import Entry, Store
from loader.values.tables import TableSource, hour_folder
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork

_PATIENCE: Final = 600.0  # a loader that runs all the time has the table for one load
_LOOK_SECONDS: Final = 0.2
log = logging.getLogger(__name__)


def load(
    config: LoaderConfig,
    request: LoadRequest,
    start_spark: "Callable[[], SparkWork]",
    watcher: TableWatcher,
    stopping: threading.Event | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> list[TableOutcome]:
    """Loads all tables. Returns their outcomes. Raises LoaderError or ClientError if no table could
    be started.

    Spark is started when it is first needed: by a store that is not local, or for a table with much
    to read, merge or count.
    """
    stopping = stopping or threading.Event()
    began_millis = int(clock() * 1000)
    key: SigningKey | None = None
    try:
        key = None if request.dry_run else signing_key(config.signing_key)
        check_format(config.format, config.compression, lambda: start_spark().check_avro())
        store = open_store(config.root, lambda root: start_spark().store(root))
        unfinished = () if request.dry_run else store.prove()
    except LoaderError as error:
        if not stopping.is_set() and not request.is_unreported:
            _report_no_start(config, request, error, began_millis, key)
        raise
    with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
        tables = tables_for(config, request, brokers)
        with closing(RegistryClient(config.registry_address)) as registry:
            ledger = LoadLedger(
                config,
                brokers,
                registry,
                store,
                topics=topics_of(tables_for(config, LoadRequest(), brokers)),
                now=int(clock() * 1000),
            )
            context = LoadContext(
                config=config,
                request=request,
                start_spark=start_spark,
                store=store,
                registry=registry,
                ledger=ledger,
                watermarks=(
                    None if request.reads_nothing or config.audit else watermarks(ledger, tables)
                ),
                audit=(
                    Audit(config.audit, config.cluster, security=config.audit_security)
                    if config.audit
                    else None
                ),
                signing_key=key,
                certifying=_certifying(config, request, key, stopping),
                observations=Observations(config, store, key),
                watcher=watcher,
                stopping=stopping,
                clock=clock,
            )
            report_health(context, brokers, began_millis)
            with ThreadPoolExecutor(config.tasks.tables, "table") as executor:
                outcomes = list(executor.map(lambda table: run_table(context, table), tables))
            _clean(store, unfinished)
            watcher.finishing("reporting to the ledger")
            report_successes(context, tables, outcomes, began_millis)
            report_health(context, brokers, began_millis)
            _save(ledger)
            watcher.finishing("")
            return outcomes


def _certifying(
    config: LoaderConfig, request: LoadRequest, key: SigningKey | None, stopping: threading.Event
) -> CertifyingAudit | None:
    """Returns the audit's client for certificates; None if hours get none. The audit judges files
    by what loads have reported in the ledger. Raises LoaderError."""
    is_off = config.certificates is CertificateMode.OFF or request.dry_run
    if is_off or key is None or not (config.audit and config.ledger):
        return None
    try:
        audit_key = PublicKey.of_file(Path(config.audit_key)) if config.audit_key else None
    except BadKey as error:
        raise LoaderError(f"`audit_key`: {error}") from None
    return CertifyingAudit(
        config.audit,
        key,
        security=config.audit_security,
        audit_key=audit_key,
        stopping=stopping,
    )


def _clean(store: Store, unfinished: Sequence[Entry]) -> None:
    try:
        clean_creating(store, unfinished)
    except StoreError as error:
        log.warning("cannot remove all files that were never completed: %s", error)


def _report_no_start(
    config: LoaderConfig,
    request: LoadRequest,
    error: LoaderError,
    began: int,
    key: SigningKey | None,
) -> None:
    try:
        with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
            tables = tables_for(config, request, brokers)
    except (LoaderError, ClientError) as other:
        log.warning("cannot report in the ledger that the load failed: %s", other)
        return
    report_no_start(config, request, tables, error, began, key=key)


def tables_for(config: LoaderConfig, request: LoadRequest, brokers: Brokers) -> list[TableSource]:
    """The tables of this load. Raises LoaderError if a requested table does not exist."""
    metadata = brokers.refresh(None)
    tables = tables_of(config, [name for name in metadata.topics if metadata.has(name)])
    if not request.tables:
        return list(tables)
    names = {table.name for table in tables}
    requested_tables = set(matching(names, request.tables, ()))
    if unknown_tables := requested_tables - names:
        raise LoaderError(f"these tables are not configured: {', '.join(sorted(unknown_tables))}")
    if not requested_tables:
        raise LoaderError(f"no table matches {', '.join(request.tables)}")
    return [table for table in tables if table.name in requested_tables]


def topics_of(tables: Iterable[TableSource]) -> list[str]:
    return sorted({source.topic for table in tables for source in table.topics})


def watermarks(ledger: LoadLedger, tables: Iterable[TableSource]) -> Watermarks | None:
    """The agents' watermarks. None if they cannot be read; then this load closes no hour."""
    try:
        return ledger.watermarks(topics_of(tables))
    except (ClientError, SchemaError, StoreError) as error:
        log.warning("cannot determine which hours are complete: %s", error)
        return None


def _save(ledger: LoadLedger) -> None:
    try:
        ledger.save()
    except StoreError as error:
        log.warning("cannot save what was read of the ledger; it is read again: %s", error)


def run_table(context: LoadContext, table: TableSource) -> TableOutcome:
    """Runs one table. Returns its outcome, even after an error."""
    outcome = TableOutcome(table.name)
    began_millis = context.now()
    try:
        context.check_stopped(table.name)
        request = context.request
        is_patient = request.rebuild or request.upgrade_schema or request.compaction is not None
        patience_seconds = _PATIENCE if is_patient else 0.0
        lock = sole_loader(
            context.store.root, table.name, patience=patience_seconds, stopping=context.stopping
        )
        with lock, context.brokers() as brokers:
            run = TableRun(context, table, brokers)
            outcome = run.outcome
            run.run()
    except OffsetsMissing as error:
        outcome.error = GapError(str(error))
    except (LoaderError, ClientError, SchemaError) as error:
        outcome.error = error
    except Exception as error:  # a bug must not affect other tables
        log.exception("table %s", table.name)
        outcome.error = LoaderError(f"table {table.name}: {type(error).__name__}: {error}")
    if outcome.error is not None and context.stopping.is_set():
        progress = (
            "before anything was" if outcome.run is None else f"after run {outcome.run} had been"
        )
        outcome.error = Interrupted(f"table {table.name}: stopped {progress} committed")
    if outcome.error is not None:
        request = context.request
        rebuild = tuple(map(hour_folder, request.rebuild))
        outcome.cure = cure_of(outcome.error, table.name, request.config_options, rebuild)
    report_failure(context, table, outcome, began_millis)
    context.watcher.ended(outcome)
    return outcome


@contextmanager
def sole_loader(
    root: str,
    table: str,
    *,
    patience: float = 0.0,
    stopping: threading.Event | None = None,
) -> Iterator[None]:
    """Holds the lock of a table below the root of this name. Raises RunTaken if another process or
    thread holds the lock for more than `patience` seconds."""
    digest = hashlib.sha256(f"{root}\0{table}".encode()).hexdigest()[:32]
    stopping = stopping or threading.Event()
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while not _is_bound(lock, f"\0penstock-load-{digest}"):
            if time.monotonic() >= deadline or stopping.wait(_LOOK_SECONDS):
                raise RunTaken(
                    f"table {table}: another loader on this host is loading it; try again later"
                )
        yield


def _is_bound(lock: socket.socket, name: str) -> bool:
    """False while another has that name."""
    try:
        lock.bind(name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
