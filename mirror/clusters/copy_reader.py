"""Reads the copies at the target, and their state in the target's ledger.

One thread. Connections are opened when needed, and kept until one fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from client.connection.brokers import Brokers
from client.errors import ClientError
from client.reading.fetcher import FetchedBatch
from client.reading.partition_reader import PartitionReader
from ledger.counting.journal import PartitionKey
from ledger.counting.tail import LedgerTail
from mirror.config import Target
from mirror.ledger_reporter import StoredBatch
from mirror.partitions.copied_count import Spread
from wire.errors import BatchError
from wire.record_batches.batch import Buffer
from wire.record_batches.records import records

_FETCH_BYTES: Final = 256 * 1024
_MOST_READ: Final = 256 * 1024 * 1024  # bytes of a partition that are read again at most
_PATIENCE_S: Final = 10.0


class CopyReader:
    """Reads batches of the copies, on one thread."""

    def __init__(self, target: Target, *, client_id: str, kind: str) -> None:
        self._target = target
        self._client_id = client_id
        self._tail = LedgerTail(
            target.bootstrap, target.registry_address, client_id=client_id, kind=kind
        )
        self._brokers: Brokers | None = None

    def times(self, key: PartitionKey, batch: Spread) -> Sequence[int]:
        with suppress(ClientError):
            for fetched_batch in self._reader(key, batch.first, batch.end):
                if fetched_batch.header.base_offset == batch.first:
                    return _times(fetched_batch.data)
        return ()

    def reported_ends(self, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        return self._tail.copied(set(keys))

    def batches(self, key: PartitionKey, first: int, end: int) -> Iterator[StoredBatch]:
        """The batches between these offsets; at most 256 MiB."""
        reader, budget = self._reader(key, first, end), _MOST_READ
        try:
            for item in reader.everything():
                if item.header is None:
                    continue
                data = item.data if isinstance(item, FetchedBatch) else b""
                yield StoredBatch(item.header, partial(_times, data) if data else tuple)
                budget -= item.header.size
                if budget <= 0:
                    return
        finally:
            reader.close()

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _reader(self, key: PartitionKey, first: int, end: int) -> PartitionReader:
        if self._brokers is None:
            self._brokers = Brokers(
                self._target.bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_S
            )
        return PartitionReader(
            self._brokers,
            key.topic,
            key.partition,
            first,
            end,
            fetch_bytes=_FETCH_BYTES,
            from_within=True,
        )


def _times(batch: Buffer) -> Sequence[int]:
    try:
        return [record.timestamp for record in records(batch)]
    except BatchError:
        return ()
