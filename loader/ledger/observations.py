"""A loader's reports beside those of its runs: files that differ from their commit, damaged
batches, and results of loads.

Rule 1: each load has a journal of its own for this, shared by all tables.
Rule 2: if it is unknown whether an entry arrived, it is neither written again under its number, nor
        is the number skipped: further entries go to a new journal.
Rule 3: of repeated reports, the one with the latest time counts. Clocks of hosts differ, and may be
        set back; so a report's time is always later than that of earlier ones, whatever the clock
        shows. The last time is stored beside the commit log before the report is written:

            {root}/_penstock/~told.json

        If that file is lost or inaccessible, only the clock counts.

Nothing else is kept: an observation that could not be reported is made again by the next load.
"""

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from client.connection.brokers import Brokers
from ground.known_types import known_type
from ground.signatures.keys import SigningKey
from ledger.names import VERSION
from ledger.proofs import Chain
from ledger.publishing import write_entries
from loader.config import LoaderConfig
from loader.errors import StoreError
from loader.ledger.entries import APP, MOST_BYTES
from loader.store.store import PENSTOCK, Store
from schemas.registry_client import RegistryClient

KEPT_VERSION: Final = 1
TOLD: Final = f"{PENSTOCK}/~told.json"  # not a possible name of a table

Json = dict[str, Any]

_SECOND: Final = 1000

log = logging.getLogger(__name__)


class LastTold(msgspec.Struct, frozen=True):
    """The time of the last report, in milliseconds."""

    version: int
    time: int


class Observations:
    """Writes observations to the ledger. May be used by any thread."""

    def __init__(
        self, config: LoaderConfig, store: Store | None, key: SigningKey | None = None
    ) -> None:
        """Without a store, if it is unreachable, only the clock counts. Without a key, entries have
        no proofs."""
        self._config = config
        self._store = store
        self._told = 0
        self._host = socket.gethostname()
        self._lock = threading.Lock()
        self._key = key
        self._begin_journal()

    def _begin_journal(self) -> None:
        self._source = f"loader-check-{uuid.uuid4().hex}"
        self._seq = 0
        self._chain = None if self._key is None else Chain(self._key)

    def tell(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        lists: Sequence[Mapping[str, Any]],
        now: int,
        destination: str = "",
    ) -> None:
        """Writes entries with the content of `lists`, about the root or its name in the ledger.
        Returns when `_audit` has all of them. Raises ClientError or SchemaError."""
        if lists:
            with self._lock:
                self._write(brokers, registry, self._entries(lists, now, destination), now)

    def tell_latest(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        lists: Sequence[Mapping[str, Any]],
        now: int,
        destination: str = "",
    ) -> None:
        """Like `tell`, for reports that replace earlier ones on the same subject."""
        if lists:
            with self._lock:
                entries = self._entries(lists, self._later_time(now), destination)
                self._write(brokers, registry, entries, now)

    def _later_time(self, now: int) -> int:
        """The current time, or the millisecond after the last report if that is later."""
        try:
            if self._store is not None:
                self._told = max(self._told, _time_of(self._store.read(TOLD)))
        except StoreError as error:
            log.warning("cannot read the time of the last report to the ledger: %s", error)
        self._told = max(now, self._told + 1)
        try:
            if self._store is not None:
                self._store.replace(TOLD, msgspec.json.encode(LastTold(KEPT_VERSION, self._told)))
        except StoreError as error:
            log.warning("cannot store the time of this report to the ledger: %s", error)
        return self._told

    def _entries(
        self, lists: Sequence[Mapping[str, Any]], time: int, destination: str
    ) -> list[Json]:
        named_destination = destination or self._config.root
        return [
            self._entry(part, self._seq + index, time, named_destination)
            for index, part in enumerate(lists)
        ]

    def _write(
        self, brokers: Brokers, registry: RegistryClient, entries: Sequence[Json], now: int
    ) -> None:
        source, seq, chain = self._source, self._seq + len(entries), self._chain
        self._begin_journal()
        write_entries(brokers, registry, entries, timestamp=now, chain=chain)
        self._source, self._seq, self._chain = source, seq, chain

    def _entry(self, lists: Mapping[str, Any], seq: int, time: int, destination: str) -> Json:
        header = {
            "time": time,
            "host": self._host,
            "app": APP,
            "source": self._source,
            "seq": seq,
            "position": 0,
        }
        return {
            "header": header,
            "version": VERSION,
            "tier": "hdfs",
            "cluster": self._config.cluster,
            "destination": destination,
            "window_millis": self._config.window * _SECOND,
            **lists,
        }


def divided(
    statements: Iterable[Mapping[str, Any]], weight: Callable[[Mapping[str, Any]], int]
) -> Iterator[list[Mapping[str, Any]]]:
    """Divides statements into entries by their size."""
    part: list[Mapping[str, Any]] = []
    filled_bytes = 0
    for statement in statements:
        size = weight(statement)
        if part and filled_bytes + size > MOST_BYTES:
            yield part
            part, filled_bytes = [], 0
        part.append(statement)
        filled_bytes += size
    if part:
        yield part


def _time_of(data: bytes | None) -> int:
    """0 if the data is missing, damaged, or of another version."""
    try:
        last_told = msgspec.json.decode(data or b"", type=known_type(LastTold))
    except msgspec.DecodeError:
        return 0
    return last_told.time if last_told.version == KEPT_VERSION else 0
