"""The copies as the ledger of the target knows them, and as they lie there: read by a client.

One thread. Nobody is asked before it is needed, and connections are kept until something fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from client.brokers import Brokers
from client.errors import ClientError
from client.fetcher import FetchedBatch
from client.partition_reader import PartitionReader
from ledger.counting.journal import PartitionKey
from ledger.counting.tail import LedgerTail
from mirror.config import Target
from mirror.counted import Spread
from mirror.telling import Lying
from wire.batch import Buffer
from wire.errors import BatchError
from wire.records import records

_FETCH_BYTES: Final = 256 * 1024
_MOST_READ: Final = 256 * 1024 * 1024  # bytes of a partition that are read again
_PATIENCE_S: Final = 10.0


class CopiesThere:
    """See the module."""

    def __init__(self, target: Target, *, client_id: str, kind: str) -> None:
        self._target = target
        self._client_id = client_id
        self._tail = LedgerTail(
            target.bootstrap, target.registry_address, client_id=client_id, kind=kind
        )
        self._brokers: Brokers | None = None

    def times(self, key: PartitionKey, batch: Spread) -> Sequence[int]:
        with suppress(ClientError):
            for each in self._reader(key, batch.first, batch.end):
                if each.header.base_offset == batch.first:
                    return _times(each.data)
        return ()

    def told(self, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        return self._tail.copied(set(keys))

    def lying(self, key: PartitionKey, first: int, end: int) -> Iterator[Lying]:
        """Up to 256 MiB of them."""
        reader, left = self._reader(key, first, end), _MOST_READ
        try:
            for each in reader.everything():
                if each.header is None:
                    continue
                data = each.data if isinstance(each, FetchedBatch) else b""
                yield Lying(each.header, partial(_times, data) if data else tuple)
                left -= each.header.size
                if left <= 0:
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
