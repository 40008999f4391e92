"""The ledger told how loads of tables end (loader/ledger/loads.py).

Nothing here makes a load fail: what the ledger does not take is a warning, and said by the next.
Where the root cannot be read or written, it is said by each load, as nobody knows since when.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from client.brokers import Brokers
from client.errors import ClientError
from loader.config import LoaderConfig
from loader.cures import cure_of, reason_of
from loader.errors import FilesDiffer, Interrupted, LoaderError, RunTaken, StoreError
from loader.ledger.loads import (
    divided,
    failing,
    from_bytes,
    recovered,
    state_path,
    statements,
)
from loader.ledger.observations import Observations
from loader.outcomes import TableOutcome
from loader.surroundings import Surroundings
from loader.tables import TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_NO_END: Final = (Interrupted, RunTaken)  # says nothing of the table

log = logging.getLogger(__name__)


def tell_if_it_failed(
    around: Surroundings, table: TableSource, outcome: TableOutcome, began: int
) -> None:
    """After a load of this table that was begun then."""
    error = outcome.error
    if not _is_told(around) or error is None or isinstance(error, _NO_END) or _is_loaded(outcome):
        return
    try:
        _tell_failure(around, table, error, began, outcome.destination)
    except (ClientError, SchemaError, LoaderError) as other:
        text = f"the ledger was not told how the load of this table ended: {other}"
        outcome.warnings.append(text)
        around.watcher.warned(table.name, text)


def tell_which_succeeded(
    around: Surroundings,
    tables: Sequence[TableSource],
    outcomes: Sequence[TableOutcome],
    began: int,
) -> None:
    """After a load of these tables, whatever was said before: a load that could not reach the root
    left nothing there that says so."""
    if not _is_told(around):
        return
    loaded: dict[str, set[str]] = defaultdict(set)  # topics, by destination
    try:
        for table, outcome in zip(tables, outcomes, strict=True):
            if _is_loaded(outcome) and not isinstance(outcome.error, _NO_END):
                # First: what is forgotten and not told, the next load tells.
                around.store.delete(state_path(table.name))
                loaded[outcome.destination] |= {source.topic for source in table.topics}
        for destination, topics in sorted(loaded.items()):
            _say_around(around, recovered(sorted(topics), began), destination)
    except (ClientError, SchemaError, LoaderError) as error:
        log.warning("the ledger was not told which tables are loaded: %s", error)


def tell_that_none_began(
    config: LoaderConfig, tables: Sequence[TableSource], error: Exception, began: int
) -> None:
    """What kept a load from beginning with any table."""
    if not config.ledger:
        return
    said = []
    for table in tables:
        known, _ = failing(None, reason_of(error), began, began)
        topics = [source.topic for source in table.topics]
        said += statements(topics, known, cure_of(error, table.name))
    try:
        with Brokers(config.bootstrap, client_id="penstock-loader") as brokers:
            registry = RegistryClient(config.registry)
            try:
                now = int(time.time() * 1000)
                Observations(config, None).tell_latest(brokers, registry, _lists(said), now)
            finally:
                registry.close()
    except (ClientError, SchemaError) as other:
        log.warning("the ledger was not told that nothing can be loaded: %s", other)


def _is_told(around: Surroundings) -> bool:
    return around.config.ledger and not around.request.says_nothing_of_loads


def _is_loaded(outcome: TableOutcome) -> bool:
    """Files may differ: all that was new is."""
    error = outcome.error
    return outcome.run is not None or error is None or isinstance(error, FilesDiffer)


def _tell_failure(
    around: Surroundings, table: TableSource, error: Exception, began: int, destination: str
) -> None:
    path = state_path(table.name)
    try:
        data = around.store.read(path)
    except StoreError:
        data = None
    before = None if data is None else from_bytes(data)
    known, is_news = failing(before, reason_of(error), began, around.now())
    if is_news:
        topics = [source.topic for source in table.topics]
        _say_around(around, statements(topics, known, cure_of(error, table.name)), destination)
        around.store.replace(path, msgspec.json.encode(known))


def _say_around(around: Surroundings, said: Sequence[Mapping[str, Any]], destination: str) -> None:
    if said:
        with around.brokers() as brokers:
            tell = around.observations.tell_latest
            tell(brokers, around.registry, _lists(said), around.now(), destination)


def _lists(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"loads": part} for part in divided(said)]
