"""The end of `_audit`, read backwards until it is known how far partitions were counted.

For whoever begins to lead a partition that others have led. Who led it last has told of it lately,
unless nothing was written: so the last minutes are read first, and more only for partitions of
which nothing was found there. Only entries of brokers are decoded.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeVar

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import Corrupt, NotAllowed
from client.offsets import AtTime, Beginning, End, Start, start_offsets
from client.partition_reader import PartitionReader
from ledger.counting.journal import PartitionKey
from ledger.counting.told import History, Json, Told, furthest, furthest_copied
from ledger.lookup import lookup_at
from ledger.names import LEDGER_TOPIC
from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from wire.acls import Operation
from wire.errors import BatchError
from wire.records import records

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 10.0
_MINUTE: Final = 60_000  # milliseconds
_SPANS: Final = (15 * _MINUTE, 120 * _MINUTE, 1440 * _MINUTE)  # back from now; then all there is


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class _Stretch(NamedTuple):
    """Of `_audit`."""

    partition: int
    first: int
    end: int


class LedgerTail:
    """One thread. Nobody is asked yet."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        registry: RegistryAddress,
        *,
        client_id: str,
        kind: str,
        now_millis: Callable[[], int] = _now_millis,
    ) -> None:
        """`kind` begins the names of journals that count."""
        self._bootstrap = bootstrap
        self._registry = registry
        self._client_id = client_id
        self._mark = f"{kind}-".encode()
        self._now_millis = now_millis

    def told(self, histories: Mapping[PartitionKey, History]) -> dict[PartitionKey, Told]:
        """Of those of these partitions of which it says anything. Nothing, if it may not be read.
        Raises ClientError and SchemaError."""

        def of(entries: Iterable[Json], left: Collection[PartitionKey]) -> dict[PartitionKey, Told]:
            return furthest(entries, {key: histories[key] for key in left})

        return self._found(histories, of)

    def copied(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, int]:
        """Up to where mirrors have said that these were copied, as far as they have said anything
        within a day."""
        return self._found(keys, furthest_copied, all_of_it=False)

    def _found(
        self,
        keys: Collection[PartitionKey],
        of: Callable[[Iterable[Json], Collection[PartitionKey]], dict[PartitionKey, T]],
        *,
        all_of_it: bool = True,
    ) -> dict[PartitionKey, T]:
        found: dict[PartitionKey, T] = {}
        with ExitStack() as ends:
            registry = ends.enter_context(
                RegistryClient(
                    self._registry, patience_seconds=_PATIENCE_SECONDS, first_contact_seconds=0
                )
            )
            decoder = Decoder(lookup_at(registry), built_in(LEDGER))
            brokers = ends.enter_context(
                Brokers(
                    self._bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_SECONDS
                )
            )
            starts: list[Start] = [AtTime(self._now_millis() - span) for span in _SPANS]
            if all_of_it:
                starts.append(Beginning())
            try:
                for part in self._backwards(brokers, starts):
                    left = [key for key in keys if key not in found]
                    if not left:
                        break
                    batches = self._batches(brokers, part)
                    entries = (each for some in batches for each in self._of(some, decoder))
                    found |= of(entries, left)
            except NotAllowed:
                return {}
        return found

    def _backwards(self, brokers: Brokers, starts: Iterable[Start]) -> Iterator[list[_Stretch]]:
        """Each part lies before the one that came last."""
        known = brokers.refresh([LEDGER_TOPIC])
        if not known.has(LEDGER_TOPIC):
            return
        partitions = [each.index for each in known.topic(LEDGER_TOPIC, Operation.READ).partitions]
        ends = start_offsets(brokers, LEDGER_TOPIC, partitions, End())
        for start in starts:
            begins = start_offsets(brokers, LEDGER_TOPIC, partitions, start)
            yield [_Stretch(each, begins[each], ends[each]) for each in partitions]
            ends = {each: min(begins[each], ends[each]) for each in partitions}

    @staticmethod
    def _batches(brokers: Brokers, part: Iterable[_Stretch]) -> Iterator[bytes]:
        for partition, first, end in part:
            reached = first
            while reached < end:
                reader = PartitionReader(
                    brokers, LEDGER_TOPIC, partition, reached, end, from_within=True
                )
                try:
                    for batch in reader:
                        yield bytes(batch.data)
                    reached = end
                except Corrupt as error:
                    if error.first < 0 or not error.count:
                        raise
                    reached = max(reader.next_offset, error.first + error.count)

    def _of(self, batch: bytes, decoder: Decoder) -> Iterator[Json]:
        """What cannot be read is passed over: then more is counted once more than need be."""
        try:
            for record in records(batch):
                if record.value is not None and self._mark in record.value:
                    yield decoder.decode(record.value)
        except (BatchError, BadMessage):
            return
