"""Reads `_audit` backwards to find the offset up to which each partition is counted.

A broker needs this when it begins to lead a partition. The previous leader reported it recently,
unless nothing was written: so the last minutes are read first, and earlier entries only for
partitions that are not found there. Only entries of counters of the given kind are decoded.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeVar

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Corrupt, NotAllowed
from client.reading.offsets import AtTime, Beginning, End, Start, start_offsets
from client.reading.partition_reader import PartitionReader
from ledger.counting.counted_offsets import (
    CountedUpTo,
    History,
    Json,
    furthest,
    furthest_copied,
)
from ledger.counting.journal import PartitionKey
from ledger.lookup import lookup_at
from ledger.names import LEDGER_TOPIC
from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from wire.acls import Operation
from wire.errors import BatchError
from wire.record_batches.records import records

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 10.0
_MINUTE: Final = 60_000  # milliseconds
_SPANS: Final = (15 * _MINUTE, 120 * _MINUTE, 1440 * _MINUTE)  # back from now; then everything


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class _Stretch(NamedTuple):
    """A range of offsets of one partition of `_audit`."""

    partition: int
    first: int
    end: int


class LedgerTail:
    """Finds the latest entries about partitions. For one thread. The constructor opens no
    connection."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        registry: RegistryAddress,
        *,
        client_id: str,
        kind: str,
        now_millis: Callable[[], int] = _now_millis,
    ) -> None:
        """The sources of the wanted entries begin with `kind`."""
        self._bootstrap = bootstrap
        self._registry = registry
        self._client_id = client_id
        self._mark = f"{kind}-".encode()
        self._now_millis = now_millis

    def ends(self, histories: Mapping[PartitionKey, History]) -> dict[PartitionKey, CountedUpTo]:
        """Returns the offsets up to which these partitions are counted; partitions that are not in
        the ledger are left out. Empty if access to the ledger is denied. Raises ClientError and
        SchemaError."""

        def of(
            entries: Iterable[Json], wanted: Collection[PartitionKey]
        ) -> dict[PartitionKey, CountedUpTo]:
            return furthest(entries, {key: histories[key] for key in wanted})

        return self._search(histories, of)

    def copied(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, int]:
        """Returns the offsets up to which mirrors copied these partitions, according to entries of
        the last day."""
        return self._search(keys, furthest_copied, all_of_it=False)

    def _search(
        self,
        keys: Collection[PartitionKey],
        of: Callable[[Iterable[Json], Collection[PartitionKey]], dict[PartitionKey, T]],
        *,
        all_of_it: bool = True,
    ) -> dict[PartitionKey, T]:
        results: dict[PartitionKey, T] = {}
        with ExitStack() as stack:
            registry = stack.enter_context(
                RegistryClient(
                    self._registry, patience_seconds=_PATIENCE_SECONDS, first_contact_seconds=0
                )
            )
            decoder = Decoder(lookup_at(registry), built_in(LEDGER))
            brokers = stack.enter_context(
                Brokers(
                    self._bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_SECONDS
                )
            )
            starts: list[Start] = [AtTime(self._now_millis() - span) for span in _SPANS]
            if all_of_it:
                starts.append(Beginning())
            try:
                for stretches in self._backwards(brokers, starts):
                    missing_keys = [key for key in keys if key not in results]
                    if not missing_keys:
                        break
                    batches = self._batches(brokers, stretches)
                    entries = (
                        entry for batch in batches for entry in self._entries_of(batch, decoder)
                    )
                    results |= of(entries, missing_keys)
            except NotAllowed:
                return {}
        return results

    def _backwards(self, brokers: Brokers, starts: Iterable[Start]) -> Iterator[list[_Stretch]]:
        """The parts of the log, from the end backwards."""
        metadata = brokers.refresh([LEDGER_TOPIC])
        if not metadata.has(LEDGER_TOPIC):
            return
        partitions = [
            partition.index for partition in metadata.topic(LEDGER_TOPIC, Operation.READ).partitions
        ]
        ends = start_offsets(brokers, LEDGER_TOPIC, partitions, End())
        for start in starts:
            begins = start_offsets(brokers, LEDGER_TOPIC, partitions, start)
            yield [_Stretch(index, begins[index], ends[index]) for index in partitions]
            ends = {index: min(begins[index], ends[index]) for index in partitions}

    @staticmethod
    def _batches(brokers: Brokers, part: Iterable[_Stretch]) -> Iterator[bytes]:
        for partition, first, end in part:
            next_offset = first
            while next_offset < end:
                reader = PartitionReader(
                    brokers, LEDGER_TOPIC, partition, next_offset, end, from_within=True
                )
                try:
                    for batch in reader:
                        yield bytes(batch.data)
                    next_offset = end
                except Corrupt as error:
                    if error.first < 0 or not error.count:
                        raise
                    next_offset = max(reader.next_offset, error.first + error.count)

    def _entries_of(self, batch: bytes, decoder: Decoder) -> Iterator[Json]:
        """Skips what cannot be read: then more than necessary is counted again."""
        try:
            for record in records(batch):
                if record.value is not None and self._mark in record.value:
                    yield decoder.decode(record.value)
        except (BatchError, BadMessage):
            return
