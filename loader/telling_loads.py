"""The ledger told how a table's loads end, where that is worth saying (loader/ledger/loads.py).

Nothing here makes a load fail: what the ledger does not take is a warning, and said by the next.
Where the root cannot be read or written, it is said by each load, as nobody knows since when.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client.brokers import Brokers
from client.errors import ClientError
from loader.config import LoaderConfig
from loader.cures import cure_of, reason_of
from loader.errors import FilesDiffer, Interrupted, LoaderError, RunTaken, StoreError
from loader.ledger.loads import failing, from_bytes, recovered, state_path, statements
from loader.ledger.observations import Observations
from loader.outcomes import TableOutcome
from loader.surroundings import Surroundings
from loader.tables import TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

log = logging.getLogger(__name__)


def tell_how_it_ended(
    around: Surroundings, table: TableSource, outcome: TableOutcome, began: int
) -> None:
    """After a load of this table that was begun then."""
    if not around.config.ledger or around.request.says_nothing_of_loads:
        return
    try:
        match outcome.error:
            case Interrupted() | RunTaken():
                pass
            case Exception() as error if outcome.run is None and not isinstance(error, FilesDiffer):
                _tell_failure(around, table, error, began)
            case _:  # files may differ: all that was new is loaded
                _tell_success(around, table, began)
    except (ClientError, SchemaError, LoaderError) as error:
        text = f"the ledger was not told how the load of this table ended: {error}"
        outcome.warnings.append(text)
        around.watcher.warned(table.name, text)


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
                _say(Observations(config), brokers, registry, said, int(time.time() * 1000))
            finally:
                registry.close()
    except (ClientError, SchemaError) as other:
        log.warning("the ledger was not told that nothing can be loaded: %s", other)


def _tell_success(around: Surroundings, table: TableSource, began: int) -> None:
    path = state_path(table.name)
    if around.store.read(path) is None:
        return
    _say_around(around, recovered([source.topic for source in table.topics], began))
    around.store.delete(path)


def _tell_failure(around: Surroundings, table: TableSource, error: Exception, began: int) -> None:
    path = state_path(table.name)
    try:
        data = around.store.read(path)
    except StoreError:
        data = None
    before = None if data is None else from_bytes(data)
    known, is_news = failing(before, reason_of(error), began, around.now())
    if is_news:
        topics = [source.topic for source in table.topics]
        _say_around(around, statements(topics, known, cure_of(error, table.name)))
        around.store.replace(path, msgspec.json.encode(known))


def _say_around(around: Surroundings, said: Sequence[Mapping[str, Any]]) -> None:
    with around.brokers() as brokers:
        _say(around.observations, brokers, around.registry, said, around.now())


def _say(
    observations: Observations,
    brokers: Brokers,
    registry: RegistryClient,
    said: Sequence[Mapping[str, Any]],
    now: int,
) -> None:
    if said:
        observations.tell(brokers, registry, [{"loads": list(said)}], now)
