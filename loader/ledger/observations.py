"""What a loader finds beside its runs: files that are not what was committed, damaged batches, how
loads end.

Rule 1: it is said in a journal of its own, one for each load, by whichever table has something.
Rule 2: an entry that may have arrived or not is not written again under its number, nor is its
        number left out: what comes after it is another journal's.
Rule 3: of what is said anew each time, the latest counts, and it is the latest that has the latest
        time. Hosts' clocks differ, and are set back: so that time is never as early as one that was
        told before, whatever the clock says. It is kept beside the commit log before it is told:

            {root}/_penstock/~told.json

        Where that is lost, or cannot be read or written, the clock is all there is.

Nothing else is kept: what could not be said is found again, and said then.
"""

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from client.brokers import Brokers
from ground.known_types import known_type
from ledger.names import VERSION
from ledger.publishing import write_entries
from loader.config import LoaderConfig
from loader.errors import StoreError
from loader.ledger.entries import APP, MOST_BYTES
from loader.store.store import PENSTOCK, Store
from schemas.registry_client import RegistryClient

KEPT_VERSION: Final = 1
TOLD: Final = f"{PENSTOCK}/~told.json"  # no table can have that name

Json = dict[str, Any]

_SECOND: Final = 1000

log = logging.getLogger(__name__)


class LastTold(msgspec.Struct, frozen=True):
    """When something was told last, milliseconds."""

    version: int
    time: int


class Observations:
    """Any thread may use it."""

    def __init__(self, config: LoaderConfig, store: Store | None) -> None:
        """No store: it cannot be reached."""
        self._config = config
        self._store = store
        self._told = 0
        self._host = socket.gethostname()
        self._lock = threading.Lock()
        self._source = _new_source()
        self._seq = 0

    def tell(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        said: Sequence[Mapping[str, Any]],
        now: int,
        destination: str = "",
    ) -> None:
        """Each of them is the lists of an entry; about the root, unless the ledger knows that by
        another name. Returns when `_audit` has them all. Raises ClientError or SchemaError."""
        if said:
            with self._lock:
                self._write(brokers, registry, self._entries(said, now, destination), now)

    def tell_latest(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        said: Sequence[Mapping[str, Any]],
        now: int,
        destination: str = "",
    ) -> None:
        """As `tell`, of what takes the place of all that was said of the same before."""
        if said:
            with self._lock:
                entries = self._entries(said, self._behind_all(now), destination)
                self._write(brokers, registry, entries, now)

    def _behind_all(self, now: int) -> int:
        """The time, or what is just behind all that was told here by whatever clock."""
        try:
            if self._store is not None:
                self._told = max(self._told, _time_of(self._store.read(TOLD)))
        except StoreError as error:
            log.warning("by which clock something was told before is not known: %s", error)
        self._told = max(now, self._told + 1)
        try:
            if self._store is not None:
                self._store.replace(TOLD, msgspec.json.encode(LastTold(KEPT_VERSION, self._told)))
        except StoreError as error:
            log.warning("by which clock this is told cannot be kept: %s", error)
        return self._told

    def _entries(
        self, said: Sequence[Mapping[str, Any]], time: int, destination: str
    ) -> list[Json]:
        where = destination or self._config.root
        return [self._entry(each, self._seq + at, time, where) for at, each in enumerate(said)]

    def _write(
        self, brokers: Brokers, registry: RegistryClient, entries: Sequence[Json], now: int
    ) -> None:
        source, seq = self._source, self._seq + len(entries)
        self._source, self._seq = _new_source(), 0
        write_entries(brokers, registry, entries, timestamp=now)
        self._source, self._seq = source, seq

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
    said: Iterable[Mapping[str, Any]], weight: Callable[[Mapping[str, Any]], int]
) -> Iterator[list[Mapping[str, Any]]]:
    """What goes together into an entry, by how many bytes each takes."""
    part: list[Mapping[str, Any]] = []
    filled = 0
    for each in said:
        more = weight(each)
        if part and filled + more > MOST_BYTES:
            yield part
            part, filled = [], 0
        part.append(each)
        filled += more
    if part:
        yield part


def _time_of(kept: bytes | None) -> int:
    """0 if nothing is kept, or it is damaged, or of another version."""
    try:
        found = msgspec.json.decode(kept or b"", type=known_type(LastTold))
    except msgspec.DecodeError:
        return 0
    return found.time if found.version == KEPT_VERSION else 0


def _new_source() -> str:
    return f"loader-check-{uuid.uuid4().hex}"
