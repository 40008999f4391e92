"""One load: every table brought up to what the brokers hold now, several side by side.

What goes wrong with one table ends that table's part, and is told in its outcome. Watermarks are
read before anything is planned: what they promise lies below the ends that are planned then.

One loader is on a table at a time, on this host: a slow run is not overtaken by the next. The lock
is a name among the kernel's sockets, the same for all users: it leaves no file, and ends with the
process, however that ends. Loaders on other hosts, or in other containers, do not see it, nor do
those that call the root by another name; of them, one commits a run and the others find its number
taken.
"""

import errno
import hashlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from client.brokers import Brokers
from client.errors import ClientError, OffsetsMissing
from loader.config import LoaderConfig
from loader.errors import GapError, Interrupted, LoaderError, RunTaken, StoreError
from loader.hours.audit import Audit
from loader.hours.completeness import Watermarks
from loader.hours.ledger_reading import read_watermarks
from loader.ledger.observations import Observations
from loader.planning.choosing import matching, tables_of
from loader.rewriting.row_format import check_format
from loader.run.load_context import LoadContext, LoadRequest
from loader.run.outcomes import TableOutcome, TableWatcher
from loader.run.table import TableRun
from loader.run.telling_loads import tell_if_it_failed, tell_that_none_began, tell_which_succeeded
from loader.store.opening import open_store
from loader.store.store import Store
from loader.tables import TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork

_REBUILD_PATIENCE: Final = 600.0  # a loader that runs all the time has the table for one load
_LOOK_SECONDS: Final = 0.2
log = logging.getLogger(__name__)


def load(
    config: LoaderConfig,
    request: LoadRequest,
    start_spark: "Callable[[], SparkWork]",
    watcher: TableWatcher,
    stopping: threading.Event | None = None,
) -> list[TableOutcome]:
    """Every table's outcome. Raises LoaderError or ClientError if none could even be begun.

    Spark is asked for by the first who needs it: the store, unless it is local, or a table of which
    something is to be read, merged or counted.
    """
    stopping = stopping or threading.Event()
    began = int(time.time() * 1000)
    try:
        check_format(config.format, config.compression, lambda: start_spark().check_avro())
        store = open_store(config.root, lambda root: start_spark().store(root))
        if not request.dry_run:
            store.prove()
    except LoaderError as error:
        if not stopping.is_set() and not request.says_nothing_of_loads:
            _tell_that_none_began(config, request, error, began)
        raise
    with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
        tables = asked_for(config, request, brokers)
        with closing(RegistryClient(config.registry_address)) as registry:
            context = LoadContext(
                config=config,
                request=request,
                start_spark=start_spark,
                store=store,
                registry=registry,
                watermarks=(
                    None
                    if request.reads_nothing or config.audit
                    else watermarks(config, brokers, registry, store, tables)
                ),
                audit=(
                    Audit(config.audit, config.cluster, security=config.audit_security)
                    if config.audit
                    else None
                ),
                observations=Observations(config, store),
                watcher=watcher,
                stopping=stopping,
            )
            with ThreadPoolExecutor(config.tasks.tables, "table") as threads:
                outcomes = list(threads.map(lambda table: run_table(context, table), tables))
            tell_which_succeeded(context, tables, outcomes, began)
            return outcomes


def _tell_that_none_began(
    config: LoaderConfig, request: LoadRequest, error: LoaderError, began: int
) -> None:
    try:
        with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
            tables = asked_for(config, request, brokers)
    except (LoaderError, ClientError) as other:
        log.warning("the ledger was not told that nothing can be loaded: %s", other)
        return
    tell_that_none_began(config, tables, error, began, config_file=request.config_file)


def asked_for(config: LoaderConfig, request: LoadRequest, brokers: Brokers) -> list[TableSource]:
    """The tables of this load. Raises LoaderError if what was asked for is none of them."""
    known = brokers.refresh(None)
    tables = tables_of(config, [name for name in known.topics if known.has(name)])
    if not request.tables:
        return list(tables)
    names = {table.name for table in tables}
    wanted = set(matching(names, request.tables, ()))
    if strangers := wanted - names:
        raise LoaderError(
            f"{', '.join(sorted(strangers))}: no such table among those that are configured"
        )
    if not wanted:
        raise LoaderError(f"no table matches {', '.join(request.tables)}")
    return [table for table in tables if table.name in wanted]


def watermarks(
    config: LoaderConfig,
    brokers: Brokers,
    registry: RegistryClient,
    store: Store,
    tables: Sequence[TableSource],
) -> Watermarks | None:
    """None where no hour can be judged now: then none is closed, and the next load does it."""
    topics = sorted({source.topic for table in tables for source in table.topics})
    now = int(time.time() * 1000)
    try:
        return read_watermarks(brokers, registry, store, config, topics=topics, now=now)
    except (ClientError, SchemaError, StoreError) as error:
        log.warning("which hours are complete is not known: %s", error)
        return None


def run_table(context: LoadContext, table: TableSource) -> TableOutcome:
    """One table, whatever comes of it."""
    outcome = TableOutcome(table.name)
    began = context.now()
    try:
        context.go_on(table.name)
        patience = _REBUILD_PATIENCE if context.request.rebuild else 0.0
        lock = sole_loader(
            context.store.root, table.name, patience=patience, stopping=context.stopping
        )
        with lock, context.brokers() as brokers:
            run = TableRun(context, table, brokers)
            outcome = run.outcome
            run.run()
    except OffsetsMissing as error:
        outcome.error = GapError(str(error))
    except (LoaderError, ClientError, SchemaError) as error:
        outcome.error = error
    except Exception as error:  # a bug of ours is one table's trouble, and not that of a month
        log.exception("table %s", table.name)
        outcome.error = LoaderError(f"table {table.name}: {type(error).__name__}: {error}")
    if outcome.error is not None and context.stopping.is_set():
        said = "before anything was" if outcome.run is None else f"after run {outcome.run} had been"
        outcome.error = Interrupted(f"table {table.name}: stopped {said} committed")
    tell_if_it_failed(context, table, outcome, began)
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
    """`root` as its store calls it. Waits `patience` seconds while another process, or thread,
    holds it, and raises RunTaken then."""
    digest = hashlib.sha256(f"{root}\0{table}".encode()).hexdigest()[:32]
    stopping = stopping or threading.Event()
    until = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while not _is_bound(lock, f"\0penstock-load-{digest}"):
            if time.monotonic() >= until or stopping.wait(_LOOK_SECONDS):
                raise RunTaken(
                    f"table {table}: another loader on this host is at work; try again when it is"
                    " done"
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
