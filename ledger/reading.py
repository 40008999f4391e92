"""A cluster's `_audit`, read to its present end from where it was read to before.

What is read comes in chunks, each with the positions up to which everything has been handed out:
who folds a chunk and keeps its positions in one transaction has every entry once, whatever is
killed. Where nothing is new nothing is handed out, and two small questions were asked.

`_audit` may be another one than was read before: it was deleted and made again, or was lost with
its brokers, or the cluster is another. Then it is read from its beginning, and the first chunk says
so: `restarted`. Entries may be gone before they were read here: then the first chunk says `gap`.
A batch that is damaged is passed over, and its entries are counted among those left out. Every
entry of a journal that is read twice so is the same entry; whoever folds must not mind.

Partitions are read side by side, none far ahead of the others in time, so that what several tiers
say of the same events comes close together.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from statistics import median_low
from typing import Final

import msgspec
import pyarrow as pa

from client.brokers import Brokers
from client.errors import Corrupt
from client.fetcher import Batch
from client.metadata import Topic
from client.offsets import offsets_at
from client.partition_reader import PartitionReader
from client.plain_batches import PlainBatches
from ledger.columns import no_entries
from ledger.entries import LedgerEntries, Lookup
from ledger.names import LEDGER_TOPIC
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient
from wire.messages.list_offsets import EARLIEST, LATEST

# Its batches are small, and so many at once that Python's garbage collector has work with them.
_FETCH_BYTES: Final = 1024 * 1024
_TURN_BYTES: Final = 768 * 1024  # one answer
_NOT_BEGUN: Final = -(2**63)

CHUNK_BYTES: Final = 160 * 1024 * 1024  # about 200,000 small entries: each takes less time


class LedgerPositions(msgspec.Struct, frozen=True):
    """Up to where which `_audit` was read. The topic's id is empty where there are none, and where
    nothing was read yet."""

    cluster_id: str = ""
    topic_id: str = ""
    offsets: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries as `ledger.columns.LEDGER_TYPE`, maybe none, and where they end."""

    body: pa.StructArray
    positions: LedgerPositions
    left_out: int = 0  # entries that could not be read
    restarted: bool = False  # `positions` are of another `_audit` than those that were given
    gap: bool = False  # entries between the positions that were given and these are gone
    to_come: int = 0  # how many offsets are left up to where `_audit` ended when reading began


def lookup_at(registry: RegistryClient) -> Lookup:
    """The schema of an id; none if it is not there, or not Avro."""

    def lookup(schema_id: int) -> AvroSchema | None:
        try:
            return registry.schema(schema_id)
        except InvalidSchema:
            return None
        except RegistryRefused as error:
            if error.code == SCHEMA_NOT_FOUND:
                return None
            raise

    return lookup


def id_of(topic: Topic) -> str:
    return "" if topic.id is None else str(topic.id)


class LedgerReader:
    """Reads one cluster's `_audit`, again and again. One thread."""

    def __init__(self, brokers: Brokers, lookup: Lookup, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """`lookup` says which schema has an id: see `lookup_at`. A chunk has not many more bytes
        than `chunk_bytes`, as columns."""
        self._brokers = brokers
        self._chunk_bytes = chunk_bytes
        self._entries = LedgerEntries(lookup)

    def read(self, positions: LedgerPositions) -> Iterator[Chunk]:
        """What is new since then. Raises ClientError and SchemaError: what was handed out until
        then is good, and reading goes on from its positions."""
        self._entries.forget()
        known = self._brokers.refresh([LEDGER_TOPIC])
        if not known.has(LEDGER_TOPIC):
            return
        topic = known.topic(LEDGER_TOPIC)
        partitions = [each.index for each in topic.partitions]
        ends = offsets_at(self._brokers, LEDGER_TOPIC, partitions, LATEST)
        begun = _going_on(positions, known.cluster_id or "", topic, ends)
        offsets = {each: begun.offsets.get(each, 0) for each in partitions}
        new = [each for each in partitions if offsets[each] < ends[each]]
        earliest = offsets_at(self._brokers, LEDGER_TOPIC, new, EARLIEST) if new else {}
        chunk = Chunk(
            no_entries(),
            begun,
            restarted=begun.offsets != positions.offsets,
            gap=any(first > offsets[each] for each, first in earliest.items()),
        )
        offsets |= {each: max(first, offsets[each]) for each, first in earliest.items()}
        left_out = self._entries.left_out
        for body in self._bodies(begun.topic_id, offsets, {each: ends[each] for each in new}):
            yield replace(
                chunk,
                body=body,
                positions=LedgerPositions(begun.cluster_id, begun.topic_id, dict(offsets)),
                left_out=self._entries.left_out - left_out,
                to_come=sum(max(0, end - offsets[each]) for each, end in ends.items()),
            )
            chunk = replace(chunk, restarted=False, gap=False)
            left_out = self._entries.left_out
        if chunk.restarted:
            yield chunk

    def _bodies(
        self, topic_id: str, offsets: dict[int, int], ends: Mapping[int, int]
    ) -> Iterator[pa.StructArray]:
        """With each, `offsets` are behind it. The last one is handed out even if it is empty."""
        bodies: list[pa.StructArray] = []
        for each in self._by_time(topic_id, offsets, ends):
            if isinstance(each, PlainBatches):
                body = self._entries.add_all(each)
            else:
                body = self._entries.add(each)
            if body is None:
                continue
            bodies.append(body)
            if sum(each.nbytes for each in bodies) >= self._chunk_bytes:
                yield pa.concat_arrays(bodies)
                bodies.clear()
        if ends:
            yield pa.concat_arrays([*bodies, self._entries.take()])

    def _by_time(
        self, topic_id: str, offsets: dict[int, int], ends: Mapping[int, int]
    ) -> Iterator[PlainBatches | Batch]:
        """Turn by turn, with the partition that is furthest back. What most of its last batches say
        is when it is: a few hosts have clocks that are wrong."""
        with ExitStack() as stack:
            turns: list[tuple[int, int, Iterator[PlainBatches | Batch]]] = []
            for partition, end in ends.items():
                mine = closing(self._batches(topic_id, partition, offsets, end))
                turns.append((_NOT_BEGUN, partition, stack.enter_context(mine)))
            while turns:
                _, partition, batches = heappop(turns)
                times: list[int] = []
                size = 0
                for each in batches:
                    yield each
                    if isinstance(each, PlainBatches):
                        times += each.times
                        size += each.size
                    else:
                        times.append(each.header.max_timestamp)
                        size += each.header.size
                    if size >= _TURN_BYTES:
                        heappush(turns, (median_low(times), partition, batches))
                        break

    def _batches(
        self, topic_id: str, partition: int, offsets: dict[int, int], end: int
    ) -> Generator[PlainBatches | Batch, None, None]:
        """With each, the partition's offset is behind it."""
        while offsets[partition] < end:
            reader = PartitionReader(
                self._brokers,
                LEDGER_TOPIC,
                partition,
                offsets[partition],
                end,
                topic_id=topic_id,
                from_within=True,
                fetch_bytes=_FETCH_BYTES,
            )
            try:
                for each in reader.together():
                    offsets[partition] = reader.next_offset
                    yield each
            except Corrupt as error:
                if error.first < 0 or not error.count:
                    raise
                self._entries.leave_out(error.count, str(error))
                offsets[partition] = max(reader.next_offset, error.first + error.count)
            else:
                offsets[partition] = reader.next_offset


def _going_on(
    positions: LedgerPositions, cluster_id: str, topic: Topic, ends: Mapping[int, int]
) -> LedgerPositions:
    """The positions, or the beginning if they are not of this log, which has all of them."""
    topic_id = id_of(topic)
    same = (positions.cluster_id, positions.topic_id) == (cluster_id, topic_id)
    if same and all(ends.get(each, -1) >= at for each, at in positions.offsets.items()):
        return positions
    return LedgerPositions(cluster_id, topic_id)
