"""The ledger told how loads of tables end: that they fail, and that they do so no longer.

That they fail is said when it begins, when the reason changes, and about every hour as long as it
lasts. What was said is kept in a small file beside the commit log:

    {root}/_penstock/~loads/{table}.json

so that loads that are processes of their own know since when. It is written after the ledger was
told: whoever dies in between says it again, which changes nothing. A file that is lost is another
beginning.

That a table is loaded is said at the end of each load. No file tells whether it has to be: who
could not write to the root has left none, and a topic may be another table's by now.

Nothing here makes a load fail: what the ledger does not take is a warning, and said by the next.
Where the root cannot be read or written, it is said by each load, as nobody knows since when.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from client.brokers import Brokers
from client.errors import ClientError
from ground.known_types import known_type
from loader.config import LoaderConfig
from loader.errors import (
    FilesDiffer,
    Interrupted,
    LoaderError,
    RunTaken,
    StoreError,
    cure_of,
    reason_of,
)
from loader.ledger.observations import Observations, divided
from loader.run.load_context import LoadContext
from loader.run.outcomes import TableOutcome
from loader.store.store import PENSTOCK
from loader.tables import TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

VERSION: Final = 1
AGAIN_MILLIS: Final = 50 * 60_000  # so that loads on the hour say it each time
LONGEST: Final = 2_000  # letters of a reason
_TRIED: Final = 12  # bytes that a statement takes beside its texts
Json = dict[str, Any]
_NO_END: Final = (Interrupted, RunTaken)  # says nothing of the table
log = logging.getLogger(__name__)


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose loads fail, as the ledger knows it."""

    version: int = VERSION
    since: int  # when the first of these loads was begun, milliseconds
    told: int  # when it was said last
    reason: str


def state_path(table: str) -> str:
    """No table's name begins with `~`."""
    return f"{PENSTOCK}/~loads/{table}.json"


def from_bytes(data: bytes) -> Failing | None:
    """None if it is damaged, or of another version."""
    try:
        found = msgspec.json.decode(data, type=known_type(Failing))
    except msgspec.DecodeError:
        return None
    return found if found.version == VERSION else None


def failing(before: Failing | None, reason: str, began: int, now: int) -> tuple[Failing, bool]:
    """A load has failed: what is known then, and whether that is to be said."""
    reason = reason[:LONGEST]
    if before is None:
        return Failing(since=began, told=now, reason=reason), True
    if before.reason == reason and 0 <= now - before.told < AGAIN_MILLIS:
        return before, False
    return Failing(since=before.since, told=now, reason=reason), True


def statements(topics: Iterable[str], known: Failing, cure: str) -> list[Json]:
    """Of each topic of the table, that it fails."""
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


def recovered(topics: Iterable[str], began: int) -> list[Json]:
    """Of each topic of the table, that a load has succeeded again."""
    return [{"topic": topic, "failed": False, "since": began} for topic in topics]


def weight(said: Mapping[str, Any]) -> int:
    """Bytes that it takes in an entry, about."""
    texts = (said["topic"], said.get("reason", ""), said.get("cure", ""))
    return _TRIED + sum(len(text.encode()) for text in texts)


def tell_if_it_failed(
    context: LoadContext, table: TableSource, outcome: TableOutcome, began: int
) -> None:
    """After a load of this table that was begun then."""
    error = outcome.error
    if not _is_told(context) or error is None or isinstance(error, _NO_END) or _is_loaded(outcome):
        return
    try:
        _tell_failure(context, table, error, began, outcome.destination)
    except (ClientError, SchemaError, LoaderError) as other:
        text = f"the ledger was not told how the load of this table ended: {other}"
        outcome.warnings.append(text)
        context.watcher.warned(table.name, text)


def tell_which_succeeded(
    context: LoadContext,
    tables: Sequence[TableSource],
    outcomes: Sequence[TableOutcome],
    began: int,
) -> None:
    """After a load of these tables, whatever was said before: a load that could not reach the root
    left nothing there that says so."""
    if not _is_told(context):
        return
    loaded: dict[str, set[str]] = defaultdict(set)  # topics, by destination
    try:
        for table, outcome in zip(tables, outcomes, strict=True):
            if _is_loaded(outcome) and not isinstance(outcome.error, _NO_END):
                # First: what is forgotten and not told, the next load tells.
                context.store.delete(state_path(table.name))
                topics = {source.topic for source in table.topics}
                # Of a root that was moved, the ledger has the first name; a load that could not
                # begin knew the present one alone.
                root = context.store.root
                for destination in {outcome.destination or root, root}:
                    loaded[destination] |= topics
        for destination, names in sorted(loaded.items()):
            _say_around(context, recovered(sorted(names), began), destination)
    except (ClientError, SchemaError, LoaderError) as error:
        log.warning("the ledger was not told which tables are loaded: %s", error)


def tell_that_none_began(
    config: LoaderConfig,
    tables: Sequence[TableSource],
    error: Exception,
    began: int,
    *,
    config_file: str = "",
) -> None:
    """What kept a load from beginning with any table."""
    if not config.ledger:
        return
    said = []
    for table in tables:
        known, _ = failing(None, reason_of(error), began, began)
        topics = [source.topic for source in table.topics]
        said += statements(topics, known, cure_of(error, table.name, config_file))
    try:
        with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
            registry = RegistryClient(config.registry_address)
            try:
                now = int(time.time() * 1000)
                Observations(config, None).tell_latest(brokers, registry, _lists(said), now)
            finally:
                registry.close()
    except (ClientError, SchemaError) as other:
        log.warning("the ledger was not told that nothing can be loaded: %s", other)


def _is_told(context: LoadContext) -> bool:
    return context.config.ledger and not context.request.says_nothing_of_loads


def _is_loaded(outcome: TableOutcome) -> bool:
    """Files may differ: all that was new is."""
    error = outcome.error
    return outcome.run is not None or error is None or isinstance(error, FilesDiffer)


def _tell_failure(
    context: LoadContext, table: TableSource, error: Exception, began: int, destination: str
) -> None:
    path = state_path(table.name)
    try:
        data = context.store.read(path)
    except StoreError:
        data = None
    before = None if data is None else from_bytes(data)
    known, is_news = failing(before, reason_of(error), began, context.now())
    if is_news:
        topics = [source.topic for source in table.topics]
        cure = cure_of(error, table.name, context.request.config_file)
        _say_around(context, statements(topics, known, cure), destination)
        context.store.replace(path, msgspec.json.encode(known))


def _say_around(context: LoadContext, said: Sequence[Mapping[str, Any]], destination: str) -> None:
    if said:
        with context.brokers() as brokers:
            tell = context.observations.tell_latest
            tell(brokers, context.registry, _lists(said), context.now(), destination)


def _lists(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"loads": part} for part in divided(said, weight)]
