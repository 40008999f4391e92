"""Keeps the batches that loads of a table have read before an agent's signed digest of them:

    {root}/_penstock/{table}/~waiting-batches

An agent states what it has shipped some seconds later, so these are the last batches of a load. The
file is written before the run that reads them is committed: if that fails, the next load reads the
batches again, and what it reads replaces them here.

The file is bounded: batches that wait for longer than a day, and the oldest of too many, are
dropped, and not compared. So it is if the file is lost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ground.intervals import Interval
from ground.known_types import known_type
from loader.commit.layout import table_state
from loader.digests.comparison import Log
from loader.store.store import Store
from loader.values.batch_digests import PACKED_BYTES, PackedBatches, ReadBatch, packed, unpacked

MOST_BATCHES: Final = 100_000
MOST_MILLIS: Final = 86_400_000
_VERSION: Final = 1


class ReadGroup(msgspec.Struct, frozen=True, array_like=True):
    """Batches of one log that a load has read at one time, in milliseconds."""

    log: Log
    read_at: int
    batches: PackedBatches


class _File(msgspec.Struct, frozen=True):
    version: int
    groups: list[ReadGroup]


def path_of(table: str) -> str:
    return f"{table_state(table)}/~waiting-batches"


class WaitingBatches:
    """The waiting batches of one table, with the time at which they were read."""

    def __init__(self, store: Store, table: str) -> None:
        """Reads the file. Raises StoreError. A damaged one counts as empty."""
        self._store = store
        self._path = path_of(table)
        self._data = store.read(self._path) or b""
        self._by_log: dict[Log, dict[ReadBatch, int]] = {}
        for group in _groups_of(self._data):
            read_batches = dict.fromkeys(unpacked(group.batches), group.read_at)
            self._by_log.setdefault(group.log, {}).update(read_batches)

    def of(self, log: Log) -> Iterable[ReadBatch]:
        return self._by_log.get(log, ())

    def read(self, log: Log, offsets: Interval, batches: Iterable[ReadBatch], now: int) -> None:
        """Replaces what is known of these offsets."""
        known_batches = self._by_log.get(log, {})
        self._by_log[log] = {
            batch: read_at
            for batch, read_at in known_batches.items()
            if batch.end <= offsets[0] or batch.first >= offsets[1]
        } | dict.fromkeys(batches, now)

    def everything(self) -> dict[Log, list[ReadBatch]]:
        return {log: list(batches) for log, batches in self._by_log.items()}

    def keep(self, waiting: Mapping[Log, Sequence[ReadBatch]], now: int) -> int:
        """Writes the file with these of the batches, if that changes it, and returns the number of
        batches that are dropped. Raises StoreError."""
        times = {
            (log, batch): self._by_log[log][batch]
            for log, part in waiting.items()
            for batch in part
        }
        kept = sorted(
            (read_at, log, batch)
            for (log, batch), read_at in times.items()
            if now - read_at <= MOST_MILLIS
        )[-MOST_BATCHES:]
        groups: dict[tuple[Log, int], bytearray] = {}
        for read_at, log, batch in kept:
            groups.setdefault((log, read_at), bytearray()).extend(packed(batch))
        data = b""
        if groups:
            file = _File(
                _VERSION,
                [
                    ReadGroup(log, read_at, PackedBatches(bytes(batches)))
                    for (log, read_at), batches in groups.items()
                ],
            )
            data = msgspec.msgpack.encode(file)
        if data != self._data:
            if data:
                self._store.replace(self._path, data)
            else:
                self._store.delete(self._path)
            self._data = data
        return len(times) - len(kept)


def _groups_of(data: bytes) -> Iterator[ReadGroup]:
    try:
        file = msgspec.msgpack.decode(data, type=known_type(_File)) if data else None
    except msgspec.DecodeError:
        return
    for group in file.groups if file is not None and file.version == _VERSION else ():
        if len(group.batches) % PACKED_BYTES == 0:
            yield group
