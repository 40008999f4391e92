"""Reports to the ledger when the loads of a table fail and when they succeed again, and the
loader's own health at the beginning and end of a load.

A failure is reported when it begins, when its reason changes, and about every hour while it lasts.
A small file beside the commit log keeps what was reported:

    {root}/_penstock/~loads/{table}.json

so that later loads, in other processes, know since when the table fails. When a failure begins, the
file is written before the report, as the ledger may not be reachable either; then, and whenever it
is reported again, after the report: after a crash in between, the report is repeated, which is
harmless. If the file is lost, the failure counts as new.

Success is reported at the end of each load. No file shows whether that is necessary: a load that
could not write to the root has left none, and a topic may belong to another table by now.

Nothing here makes a load fail: without the ledger there is a warning, and the next load reports
again. If the root is inaccessible, every load reports the failure, as its beginning is unknown.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from client.connection.brokers import Brokers
from client.connection.connection import SOFTWARE_VERSION
from client.errors import ClientError
from ground.known_types import known_type
from ground.signatures.keys import SigningKey
from ledger.health import MOST_PATTERNS, Health, HealthProbe
from loader.config import LoaderConfig
from loader.errors import (
    Interrupted,
    LoaderError,
    RunTaken,
    StoreError,
    cure_of,
    load_command,
    reason_of,
)
from loader.ledger.observations import Observations, divided
from loader.run.load_context import LoadContext, LoadRequest
from loader.run.outcomes import TableOutcome, has_failed
from loader.store.store import PENSTOCK
from loader.values.tables import TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

VERSION: Final = 1
AGAIN_MILLIS: Final = 50 * 60_000  # so that hourly loads report it each time
LONGEST: Final = 2_000  # characters of a reason
_STATES: Final = f"{PENSTOCK}/~loads"
_TRIED: Final = 12  # approximate bytes of a statement beside its texts
Json = dict[str, Any]
_NO_END: Final = (Interrupted, RunTaken)  # neither failure nor success of the table
log = logging.getLogger(__name__)


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """The reported state of a table whose loads fail."""

    version: int = VERSION
    since: int  # when the first of these loads started, milliseconds
    told: int  # when it was last reported, milliseconds; 0: not yet
    reason: str


def state_path(table: str) -> str:
    """The table's state file. No table's name begins with `~`."""
    return f"{_STATES}/{table}.json"


def from_bytes(data: bytes) -> Failing | None:
    """The state, or None if the data is damaged or of another version."""
    try:
        state = msgspec.json.decode(data, type=known_type(Failing))
    except msgspec.DecodeError:
        return None
    return state if state.version == VERSION else None


def failing(before: Failing | None, reason: str, began: int, now: int) -> tuple[Failing, bool]:
    """The state after a failed load, and whether to report it."""
    reason = reason[:LONGEST]
    if before is None:
        return Failing(since=began, told=now, reason=reason), True
    if before.reason == reason and 0 <= now - before.told < AGAIN_MILLIS:
        return before, False
    return Failing(since=before.since, told=now, reason=reason), True


def statements(topics: Iterable[str], known: Failing, cure: str) -> list[Json]:
    """The statements of the failure, one for each topic of the table."""
    return [
        {
            "topic": topic,
            "failed": True,
            "since": known.since,
            "reason": known.reason,
            "cure": cure[:LONGEST],
        }
        for topic in topics
    ]


def recovered(commands: Mapping[str, str], began: int) -> list[Json]:
    """The statements that a load has succeeded, with the command that loads each topic."""
    return [
        {"topic": topic, "failed": False, "since": began, "cure": command[:LONGEST]}
        for topic, command in sorted(commands.items())
    ]


def weight(statement: Mapping[str, Any]) -> int:
    """The approximate size of a statement in an entry, in bytes."""
    texts = (statement["topic"], statement.get("reason", ""), statement.get("cure", ""))
    return _TRIED + sum(len(text.encode()) for text in texts)


def report_failure(
    context: LoadContext, table: TableSource, outcome: TableOutcome, began: int
) -> None:
    """Reports a failed load of this table, which started at `began`."""
    error = outcome.error
    if not _reports(context) or error is None or isinstance(error, _NO_END) or _is_loaded(outcome):
        return
    try:
        _report_failure(context, table, outcome, reason_of(error), began)
    except (ClientError, SchemaError, LoaderError) as other:
        text = f"cannot report in the ledger that this table failed: {other}"
        outcome.warnings.append(text)
        context.watcher.warned(table.name, text)


def report_successes(
    context: LoadContext,
    tables: Sequence[TableSource],
    outcomes: Sequence[TableOutcome],
    began: int,
) -> None:
    """Reports the tables that were loaded, even if no failure was reported before: a load that
    could not reach the root left no trace there. The report includes the command that loads each
    topic."""
    if not _reports(context):
        return
    commands: dict[str, dict[str, str]] = defaultdict(dict)  # by destination and topic
    config_options = context.request.config_options
    try:
        known_paths = {entry.path for entry in context.store.list(_STATES)}
        for table, outcome in zip(tables, outcomes, strict=True):
            if _is_loaded(outcome) and not isinstance(outcome.error, _NO_END):
                # Before the report: if that fails, the next load repeats it.
                if state_path(table.name) in known_paths:
                    context.store.delete(state_path(table.name))
                command = load_command(table.name, config_options) if config_options else ""
                by_topic = {source.topic: command and f"`{command}`" for source in table.topics}
                # The ledger has a renamed root's first name; but a load that could not start knew
                # only the current one.
                root = context.store.root
                for destination in {outcome.destination or root, root}:
                    commands[destination] |= by_topic
        for destination, by_topic in sorted(commands.items()):
            _report(context, recovered(by_topic, began), destination)
    except (ClientError, SchemaError, LoaderError) as error:
        log.warning("cannot report in the ledger which tables were loaded: %s", error)


def report_no_start(
    config: LoaderConfig,
    request: LoadRequest,
    tables: Sequence[TableSource],
    error: Exception,
    began: int,
    *,
    key: SigningKey | None = None,
) -> None:
    """Reports an error that kept a load from starting any table. The report includes the health of
    its host: otherwise the audit would believe that no load begins."""
    if not config.ledger:
        return
    failures = []
    for table in tables:
        state, _ = failing(None, reason_of(error), began, began)
        topics = [source.topic for source in table.topics]
        failures += statements(topics, state, cure_of(error, table.name, request.config_options))
    try:
        with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
            registry = RegistryClient(config.registry_address)
            try:
                now_millis = int(time.time() * 1000)
                health = {"health": [health_of(config, request, began).json]}
                Observations(config, None, key).tell_latest(
                    brokers, registry, [*_lists(failures), health], now_millis
                )
            finally:
                registry.close()
    except (ClientError, SchemaError) as other:
        log.warning("cannot report in the ledger that the load failed: %s", other)


def report_health(context: LoadContext, brokers: Brokers, began: int) -> None:
    """Reports that a load, which started at `began`, is running or has ended, and the health of its
    host."""
    if not _reports(context):
        return
    entry_lists = [{"health": [health_of(context.config, context.request, began).json]}]
    try:
        context.observations.tell(brokers, context.registry, entry_lists, context.now())
    except (ClientError, SchemaError) as error:
        log.info("cannot report the loader's health in the ledger: %s", error)


def health_of(config: LoaderConfig, request: LoadRequest, began: int) -> Health:
    """The health of this host: its disks are those of a local root, and those to which Spark
    writes."""
    scheme, _, root = config.root.partition(":")
    local_folders = [f"/{root.lstrip('/')}"] if scheme == "file" else []
    spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    health_probe = HealthProbe(
        SOFTWARE_VERSION,
        name=config.root,
        directories=filter(None, (*local_folders, *spark)),
        certificates=config.security.certificate_files,
        interval=request.every or config.started_every,
    )
    topics = (
        *config.topics,
        *(topic for table in config.tables.values() for topic in table.topics),
    )
    if len(topics) > MOST_PATTERNS or len(config.exclude) > MOST_PATTERNS:
        topics = ()
    return replace(health_probe.health(), started=began, topics=topics, exclude=config.exclude)


def _reports(context: LoadContext) -> bool:
    return context.config.ledger and not context.request.is_unreported


def _is_loaded(outcome: TableOutcome) -> bool:
    """Whether the table's new events were loaded; true also if files differ."""
    return outcome.run is not None or not has_failed(outcome)


def _report_failure(
    context: LoadContext, table: TableSource, outcome: TableOutcome, reason: str, began: int
) -> None:
    path = state_path(table.name)
    try:
        data = context.store.read(path)
    except StoreError:
        data = None
    previous_state = None if data is None else from_bytes(data)
    state, is_due = failing(previous_state, reason, began, context.now())
    if is_due:
        topics = [source.topic for source in table.topics]
        if previous_state is None:
            with suppress(StoreError):
                context.store.replace(path, msgspec.json.encode(replace(state, told=0)))
        _report(context, statements(topics, state, outcome.cure), outcome.destination)
        context.store.replace(path, msgspec.json.encode(state))


def _report(context: LoadContext, reports: Sequence[Mapping[str, Any]], destination: str) -> None:
    if reports:
        with context.brokers() as brokers:
            tell_latest = context.observations.tell_latest
            tell_latest(brokers, context.registry, _lists(reports), context.now(), destination)


def _lists(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"loads": part} for part in divided(reports, weight)]
