"""Reads a cluster's `_audit` from the last positions to its current end.

Entries are returned in chunks, each with the positions after it: a caller that stores a chunk and
its positions in one transaction gets every entry once, even if it is killed. If nothing is new, no
chunk is returned, at the cost of two small requests.

The log may be a different one than before: `_audit` was deleted and created again, or lost with its
brokers, or the cluster is another one. Or the log was truncated, and other entries have the offsets
that were read, which leader epochs show. Then it is read from the beginning, and the first chunk
has `restarted`. If entries were deleted before they were read, the first chunk has `gap`. A damaged
batch is skipped, and its entries count as left out. So entries may be returned twice, unchanged:
the caller must tolerate that.

Partitions are read in parallel, none far ahead of the others in time, so that entries of several
tiers about the same events come close together.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from heapq import heappop, heappush
from statistics import median_low
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from client.connection.brokers import Brokers
from client.connection.metadata import TopicMetadata
from client.errors import Corrupt
from client.producing.delivery import TopicPartition
from client.reading.epochs import end_offsets_of_epochs
from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_at
from client.reading.partition_reader import PartitionReader
from client.reading.plain_batches import PlainBatches
from ledger.columns import no_entries
from ledger.entries import LedgerEntries, LedgerRows
from ledger.lookup import Lookup
from ledger.names import LEDGER_TOPIC
from wire.acls import Operation
from wire.messages.list_offsets import EARLIEST, LATEST

# The batches are small: a larger fetch has so many that Python's garbage collector becomes busy.
_FETCH_BYTES: Final = 1024 * 1024
_TURN_BYTES: Final = 768 * 1024  # one answer
_NOT_BEGUN: Final = -(2**63)

CHUNK_BYTES: Final = 160 * 1024 * 1024  # about 200,000 small entries: each takes less time


class LedgerPositions(msgspec.Struct, frozen=True):
    """The offsets up to which an `_audit` topic was read.

    The topic id is empty if the cluster has none, or nothing was read yet. `epochs` has, where it
    is known, a leader epoch in which the partition's log had everything that was read.
    """

    cluster_id: str = ""
    topic_id: str = ""
    offsets: dict[int, int] = {}
    epochs: dict[int, int] = {}


class LedgerChunk(msgspec.Struct, frozen=True):
    """Entries as `ledger.columns.LEDGER_TYPE`, possibly none, and the positions after them.
    `proofs` has as many rows, as `ledger.proof_columns.PROOF_TYPE`; None if there are none."""

    body: pa.StructArray
    positions: LedgerPositions
    proofs: pa.StructArray | None = None
    left_out: int = 0  # entries that could not be read
    restarted: bool = False  # `positions` are of another `_audit` than the caller's
    gap: bool = False  # entries between the caller's positions and these are gone
    to_come: int = 0  # offsets left up to where `_audit` ended when reading began


class _Reached(msgspec.Struct, frozen=True):
    """The offset up to which each partition has been read, with a leader epoch in which that offset
    is valid."""

    topic_id: str
    offsets: dict[int, int]
    epochs: dict[int, int]

    def note(self, partition: int, reader: PartitionReader) -> None:
        self.offsets[partition] = reader.next_offset
        self.epochs[partition] = max(self.epochs[partition], reader.leader_epoch)


def id_of(topic: TopicMetadata) -> str:
    return "" if topic.id is None else str(topic.id)


class LedgerReader:
    """Reads one cluster's `_audit` repeatedly. For one thread."""

    def __init__(self, brokers: Brokers, lookup: Lookup, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """`lookup` returns the schema of an id: see `lookup_at`. The columns of a chunk are not
        much larger than `chunk_bytes`."""
        self._brokers = brokers
        self._chunk_bytes = chunk_bytes
        self._entries = LedgerEntries(lookup)

    def read(self, positions: LedgerPositions) -> Iterator[LedgerChunk]:
        """Yields the entries after `positions`. Raises ClientError and SchemaError; the chunks
        before the error stay valid, and reading can continue from their positions."""
        self._entries.forget()
        metadata = self._brokers.refresh([LEDGER_TOPIC])
        if not metadata.has(LEDGER_TOPIC):
            return
        topic = metadata.topic(LEDGER_TOPIC, Operation.READ)
        partitions = [partition.index for partition in topic.partitions]
        ends = offsets_at(self._brokers, LEDGER_TOPIC, partitions, LATEST)
        base = _valid_positions(self._brokers, positions, metadata.cluster_id or "", topic, ends)
        epochs = {
            partition.index: max(partition.leader_epoch, base.epochs.get(partition.index, -1))
            for partition in topic.partitions
        }
        offsets = {index: base.offsets.get(index, 0) for index in partitions}
        indexes = [index for index in partitions if offsets[index] < ends[index]]
        begins = offsets_at(self._brokers, LEDGER_TOPIC, indexes, EARLIEST) if indexes else {}
        chunk = LedgerChunk(
            no_entries(),
            base,
            restarted=base.offsets != positions.offsets,
            gap=any(first > offsets[index] for index, first in begins.items()),
        )
        offsets |= {index: max(first, offsets[index]) for index, first in begins.items()}
        left_out = self._entries.left_out
        reached = _Reached(base.topic_id, offsets, epochs)
        for rows in self._rows(reached, {index: ends[index] for index in indexes}):
            yield replace(
                chunk,
                body=rows.body,
                proofs=rows.proofs,
                positions=LedgerPositions(
                    base.cluster_id, base.topic_id, dict(offsets), dict(epochs)
                ),
                left_out=self._entries.left_out - left_out,
                to_come=sum(max(0, end - offsets[index]) for index, end in ends.items()),
            )
            chunk = replace(chunk, restarted=False, gap=False)
            left_out = self._entries.left_out
        if chunk.restarted:
            yield chunk

    def _rows(self, reached: _Reached, ends: Mapping[int, int]) -> Iterator[LedgerRows]:
        """The entries of each chunk; `reached` is then behind it. The last may be empty."""
        parts: list[LedgerRows] = []
        for batches in self._by_time(reached, ends):
            if isinstance(batches, PlainBatches):
                rows = self._entries.add_all(batches)
            else:
                rows = self._entries.add(batches)
            if rows is None:
                continue
            parts.append(rows)
            if sum(part.nbytes for part in parts) >= self._chunk_bytes:
                yield LedgerRows.joined(parts)
                parts.clear()
        if ends:
            yield LedgerRows.joined([*parts, self._entries.take()])

    def _by_time(
        self, reached: _Reached, ends: Mapping[int, int]
    ) -> Iterator[PlainBatches | FetchedBatch]:
        """The batches of all partitions: each turn reads the partition that is furthest back. Its
        time is the median of its last batches, because some hosts have wrong clocks."""
        with ExitStack() as stack:
            turns: list[tuple[int, int, Iterator[PlainBatches | FetchedBatch]]] = []
            for partition, end in ends.items():
                all_batches = closing(self._batches(reached, partition, end))
                turns.append((_NOT_BEGUN, partition, stack.enter_context(all_batches)))
            while turns:
                _, partition, batches = heappop(turns)
                times: list[int] = []
                size = 0
                for fetched_batch in batches:
                    yield fetched_batch
                    if isinstance(fetched_batch, PlainBatches):
                        times += fetched_batch.times
                        size += fetched_batch.size
                    else:
                        times.append(fetched_batch.header.max_timestamp)
                        size += fetched_batch.header.size
                    if size >= _TURN_BYTES:
                        heappush(turns, (median_low(times), partition, batches))
                        break

    def _batches(
        self, reached: _Reached, partition: int, end: int
    ) -> Generator[PlainBatches | FetchedBatch, None, None]:
        """The batches of one partition; when one is yielded, `reached` is behind it."""
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
                for fetched_batch in reader.together():
                    reached.note(partition, reader)
                    yield fetched_batch
            except Corrupt as error:
                if error.first < 0 or not error.count:
                    raise
                self._entries.leave_out(error.count, str(error))
                reached.note(partition, reader)
                offsets[partition] = max(offsets[partition], error.first + error.count)
            else:
                reached.note(partition, reader)


def positions_since(brokers: Brokers, millis: int) -> LedgerPositions:
    """Returns the positions of the first entries since a time, by the times of the records."""
    metadata = brokers.refresh([LEDGER_TOPIC])
    if not metadata.has(LEDGER_TOPIC):
        return LedgerPositions()
    topic = metadata.topic(LEDGER_TOPIC, Operation.READ)
    partitions = [partition.index for partition in topic.partitions]
    end_offsets = offsets_at(brokers, LEDGER_TOPIC, partitions, LATEST)
    offsets = offsets_at(brokers, LEDGER_TOPIC, partitions, millis)
    return LedgerPositions(
        metadata.cluster_id or "",
        id_of(topic),
        {index: offset if offset >= 0 else end_offsets[index] for index, offset in offsets.items()},
    )


def _valid_positions(
    brokers: Brokers,
    positions: LedgerPositions,
    cluster_id: str,
    topic: TopicMetadata,
    ends: Mapping[int, int],
) -> LedgerPositions:
    """The positions if this log has everything up to them; otherwise its beginning."""
    topic_id = id_of(topic)
    is_same_topic = (positions.cluster_id, positions.topic_id) == (cluster_id, topic_id)
    in_log = is_same_topic and all(
        ends.get(index, -1) >= offset for index, offset in positions.offsets.items()
    )
    if in_log and not _is_cut(brokers, positions, topic):
        return positions
    return LedgerPositions(cluster_id, topic_id)


def _is_cut(brokers: Brokers, positions: LedgerPositions, topic: TopicMetadata) -> bool:
    """Whether the log was truncated below the positions. Truncation begins a new leader epoch, so
    only partitions with a new epoch are asked for."""
    epochs = {
        TopicPartition(topic.name, partition.index): positions.epochs[partition.index]
        for partition in topic.partitions
        if positions.epochs.get(partition.index, -1) not in {-1, partition.leader_epoch}
    }
    epoch_ends = end_offsets_of_epochs(brokers, epochs)
    offsets = positions.offsets
    return any(0 <= end < offsets.get(key.partition, 0) for key, end in epoch_ends.items())
