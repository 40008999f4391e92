"""A cluster's `_audit`, read to its present end from where it was read to before.

What is read comes in chunks, each with the positions up to which everything has been handed out:
who folds a chunk and keeps its positions in one transaction has every entry once, whatever is
killed. Where nothing is new nothing is handed out, and two small questions were asked.

`_audit` may be another one than was read before: it was deleted and made again, or was lost with
its brokers, or the cluster is another. Or it has lost its end, and other entries have the offsets
that were read: leader epochs tell, however long it is by now. Then it is read from its beginning,
and the first chunk says so: `restarted`. Entries may be gone before they were read here: then the
first chunk says `gap`. A batch that is damaged is passed over, and its entries are counted among
those left out. Every entry of a journal that is read twice so is the same entry; whoever folds must
not mind.

Partitions are read side by side, none far ahead of the others in time, so that what several tiers
say of the same events comes close together.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from heapq import heappop, heappush
from statistics import median_low
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
from client.errors import Corrupt
from client.fetcher import FetchedBatch
from client.metadata import TopicMetadata
from client.offsets import offsets_at
from client.partition_reader import PartitionReader
from client.plain_batches import PlainBatches
from ledger.columns import no_entries
from ledger.entries import LedgerEntries
from ledger.lookup import Lookup
from ledger.names import LEDGER_TOPIC
from wire.acls import Operation
from wire.messages.list_offsets import EARLIEST, LATEST

# Its batches are small, and so many at once that Python's garbage collector has work with them.
_FETCH_BYTES: Final = 1024 * 1024
_TURN_BYTES: Final = 768 * 1024  # one answer
_NOT_BEGUN: Final = -(2**63)

CHUNK_BYTES: Final = 160 * 1024 * 1024  # about 200,000 small entries: each takes less time


class LedgerPositions(msgspec.Struct, frozen=True):
    """Up to where which `_audit` was read. The topic's id is empty where there are none, and where
    nothing was read yet. `epochs` are leader epochs in which each partition's log was as it was
    read up to there; none where that is not known."""

    cluster_id: str = ""
    topic_id: str = ""
    offsets: dict[int, int] = {}
    epochs: dict[int, int] = {}


class LedgerChunk(msgspec.Struct, frozen=True):
    """Entries as `ledger.columns.LEDGER_TYPE`, maybe none, and where they end."""

    body: pa.StructArray
    positions: LedgerPositions
    left_out: int = 0  # entries that could not be read
    restarted: bool = False  # `positions` are of another `_audit` than those that were given
    gap: bool = False  # entries between the positions that were given and these are gone
    to_come: int = 0  # how many offsets are left up to where `_audit` ended when reading began


class _Reached(msgspec.Struct, frozen=True):
    """Up to where each partition has been read by now, and in which leader epoch that was so."""

    topic_id: str
    offsets: dict[int, int]
    epochs: dict[int, int]

    def note(self, partition: int, reader: PartitionReader) -> None:
        self.offsets[partition] = reader.next_offset
        self.epochs[partition] = max(self.epochs[partition], reader.leader_epoch)


def id_of(topic: TopicMetadata) -> str:
    return "" if topic.id is None else str(topic.id)


class LedgerReader:
    """Reads one cluster's `_audit`, again and again. One thread."""

    def __init__(self, brokers: Brokers, lookup: Lookup, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """`lookup` says which schema has an id: see `lookup_at`. A chunk has not many more bytes
        than `chunk_bytes`, as columns."""
        self._brokers = brokers
        self._chunk_bytes = chunk_bytes
        self._entries = LedgerEntries(lookup)

    def read(self, positions: LedgerPositions) -> Iterator[LedgerChunk]:
        """What is new since then. Raises ClientError and SchemaError: what was handed out until
        then is good, and reading goes on from its positions."""
        self._entries.forget()
        known = self._brokers.refresh([LEDGER_TOPIC])
        if not known.has(LEDGER_TOPIC):
            return
        topic = known.topic(LEDGER_TOPIC, Operation.READ)
        partitions = [each.index for each in topic.partitions]
        ends = offsets_at(self._brokers, LEDGER_TOPIC, partitions, LATEST)
        begun = _going_on(self._brokers, positions, known.cluster_id or "", topic, ends)
        epochs = {
            each.index: max(each.leader_epoch, begun.epochs.get(each.index, -1))
            for each in topic.partitions
        }
        offsets = {each: begun.offsets.get(each, 0) for each in partitions}
        new = [each for each in partitions if offsets[each] < ends[each]]
        earliest = offsets_at(self._brokers, LEDGER_TOPIC, new, EARLIEST) if new else {}
        chunk = LedgerChunk(
            no_entries(),
            begun,
            restarted=begun.offsets != positions.offsets,
            gap=any(first > offsets[each] for each, first in earliest.items()),
        )
        offsets |= {each: max(first, offsets[each]) for each, first in earliest.items()}
        left_out = self._entries.left_out
        reached = _Reached(begun.topic_id, offsets, epochs)
        for body in self._bodies(reached, {each: ends[each] for each in new}):
            yield replace(
                chunk,
                body=body,
                positions=LedgerPositions(
                    begun.cluster_id, begun.topic_id, dict(offsets), dict(epochs)
                ),
                left_out=self._entries.left_out - left_out,
                to_come=sum(max(0, end - offsets[each]) for each, end in ends.items()),
            )
            chunk = replace(chunk, restarted=False, gap=False)
            left_out = self._entries.left_out
        if chunk.restarted:
            yield chunk

    def _bodies(self, reached: _Reached, ends: Mapping[int, int]) -> Iterator[pa.StructArray]:
        """With each, `reached` is behind it. The last one is handed out even if it is empty."""
        bodies: list[pa.StructArray] = []
        for each in self._by_time(reached, ends):
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
        self, reached: _Reached, ends: Mapping[int, int]
    ) -> Iterator[PlainBatches | FetchedBatch]:
        """Turn by turn, with the partition that is furthest back. What most of its last batches say
        is when it is: a few hosts have clocks that are wrong."""
        with ExitStack() as stack:
            turns: list[tuple[int, int, Iterator[PlainBatches | FetchedBatch]]] = []
            for partition, end in ends.items():
                mine = closing(self._batches(reached, partition, end))
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
        self, reached: _Reached, partition: int, end: int
    ) -> Generator[PlainBatches | FetchedBatch, None, None]:
        """With each, what was reached of the partition is behind it."""
        offsets = reached.offsets
        while offsets[partition] < end:
            reader = PartitionReader(
                self._brokers,
                LEDGER_TOPIC,
                partition,
                offsets[partition],
                end,
                topic_id=reached.topic_id,
                leader_epoch=reached.epochs[partition],
                from_within=True,
                fetch_bytes=_FETCH_BYTES,
            )
            try:
                for each in reader.together():
                    reached.note(partition, reader)
                    yield each
            except Corrupt as error:
                if error.first < 0 or not error.count:
                    raise
                self._entries.leave_out(error.count, str(error))
                reached.note(partition, reader)
                offsets[partition] = max(offsets[partition], error.first + error.count)
            else:
                reached.note(partition, reader)


def _going_on(
    brokers: Brokers,
    positions: LedgerPositions,
    cluster_id: str,
    topic: TopicMetadata,
    ends: Mapping[int, int],
) -> LedgerPositions:
    """The positions, or the beginning if they are not of this log, which has all of them."""
    topic_id = id_of(topic)
    same = (positions.cluster_id, positions.topic_id) == (cluster_id, topic_id)
    there = same and all(ends.get(each, -1) >= at for each, at in positions.offsets.items())
    if there and not _is_cut(brokers, positions, topic):
        return positions
    return LedgerPositions(cluster_id, topic_id)


def _is_cut(brokers: Brokers, positions: LedgerPositions, topic: TopicMetadata) -> bool:
    """Whether other entries have offsets that were read. Where a log loses something, an epoch
    begins: nobody is asked where none has."""
    asked = {
        TopicPartition(topic.name, each.index): positions.epochs[each.index]
        for each in topic.partitions
        if positions.epochs.get(each.index, -1) not in {-1, each.leader_epoch}
    }
    ended = end_offsets_of_epochs(brokers, asked)
    return any(0 <= end < positions.offsets.get(each.partition, 0) for each, end in ended.items())
