"""Reads the batches of one partition between two offsets, as a Spark task does for its slice.

Rule 1: a batch belongs to the slice that its base offset lies in. The first slice of a range
        (`from_within`) also has the batch that its first offset lies in, even if that begins
        earlier; it is returned whole, and the caller cuts it.
Rule 2: while the caller processes one answer, the next is in flight. Answers are received into two
        buffers in turn, so a batch's bytes are valid until the answer after the next is requested.
Rule 3: only committed batches are returned: no control batches, no aborted transactions, no batches
        that compaction has emptied. `everything` returns what was seen at their offsets instead, so
        that batches and these together cover all offsets.
Rule 4: planned offsets exist. If they have been deleted, or do not appear within the brokers'
        patience, OffsetsMissing is raised; also if the log is another one: of a recreated topic, or
        with a history that the new leader does not share.
Rule 5: an answer without batches does not prove that there are none: Apache Kafka sends such
        answers when tiered storage is slow. The request is repeated. Only the log of a compacted
        topic may have nothing left up to `end`.

The reader follows a partition to its new leader. It keeps no state that a crash could spoil.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec
from crc32c import crc32c

from client.admin.topics import topic_configs
from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.connection.conversation import LARGEST_USUAL, PendingResponse, fresh_memory
from client.connection.metadata import PartitionMetadata
from client.errors import (
    ClientError,
    ConnectionLost,
    Corrupt,
    ErrorCode,
    OffsetsMissing,
    Refused,
    Unsupported,
    check,
)
from client.producing.delivery import TopicPartition
from client.reading.committed import READ_COMMITTED, Committed
from client.reading.epochs import end_offsets_of_epochs
from client.reading.fetcher import FetchedBatch
from client.reading.plain_batches import PlainBatches, cut
from client.rights import on_topic
from wire.acls import Operation
from wire.errors import BatchError
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.record_batches.batch import CRC_START, MAGIC, BatchHeader, headers

FETCH_BYTES: Final = 8 * 1024 * 1024

_MAX_WAIT_MS: Final = 500
_FRAME_BYTES: Final = 4096  # an answer's overhead around its batches
_LEAST_BYTES: Final = 64 * 1024


class _TwoBuffers:
    """Memory for one answer, and for the one before it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._current, self._other = bytearray(), bytearray()

    def take(self, size: int) -> memoryview:
        """Returns the current buffer, which grows as needed: small at first, then as large as
        requests or batches. Buffers for huge claimed sizes are not kept."""
        if size > LARGEST_USUAL:
            return fresh_memory(size)
        if len(self._current) < size:
            self._current = bytearray(
                _LEAST_BYTES if size <= _LEAST_BYTES else max(size, self._size)
            )
        return memoryview(self._current)[:size]

    def keep(self) -> None:
        """Keeps the last answer: the next one is received into the other buffer."""
        self._current, self._other = self._other, self._current


class _Leader(msgspec.Struct, frozen=True):
    """The leader's connection and epoch, and the answer in flight, if any."""

    connection: BrokerConnection
    epoch: int
    pending: PendingResponse[FetchResponse] | None = None


class Instead(StrEnum):
    """The kinds of content at offsets without committed messages."""

    MARKERS = "markers"  # a control batch
    ABORTED = "aborted"  # a batch of an aborted transaction
    EMPTIED = "emptied"  # a batch without records, as compaction leaves it
    HOLE = "hole"  # no batch, between two or up to the end


class PassedOver(msgspec.Struct, frozen=True):
    """Offsets `first` to `end`, exclusive, without committed messages. `header` is that of the
    batch found there; None for a hole."""

    first: int
    end: int
    what: Instead
    header: BatchHeader | None = None


class PartitionReader:
    """Iterates over a partition's batches, once. `next_offset` is the offset after the last
    returned batch, and at least `end` once all are returned. `leader_epoch` is the epoch in which
    the log before `next_offset` was written, or a newer one; -1 while unknown."""

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        partition: int,
        first: int,
        end: int,
        *,
        topic_id: str = "",
        leader_epoch: int = -1,
        fetch_bytes: int = FETCH_BYTES,
        from_within: bool = False,
    ) -> None:
        """`topic_id` identifies the topic among those of that name, and `leader_epoch` belongs to
        `first`; both if known. With `from_within`, the batch that `first` lies in is returned even
        if it begins earlier."""
        self.next_offset = first
        self.leader_epoch = leader_epoch
        self._name = f"{topic}-{partition}"
        self._brokers = brokers
        self._topic = topic
        self._partition = partition
        self._first = -1 if from_within else first
        self._begins = first
        self._end = end
        self._topic_id = topic_id
        self._fetch_bytes = fetch_bytes
        self._memory = _TwoBuffers(fetch_bytes + _FRAME_BYTES)
        self._patience = brokers.patience()
        self._leader: _Leader | None = None
        self._bytes = 0
        self._is_compacted: bool | None = None  # None until queried

    def __iter__(self) -> Iterator[FetchedBatch]:
        return (item for item in self.everything() if isinstance(item, FetchedBatch))

    def everything(self) -> Iterator[FetchedBatch | PassedOver]:
        """Yields the batches, and the content of all other offsets. Leaves out a batch across the
        beginning of a slice if it belongs to the previous slice."""
        try:
            while self.next_offset < self._end:
                yield from self._next_answer()
            # A Fetch response does not say which topic (by id) it is from.
            self._brokers.persist(self._current_partition)
        finally:
            self.close()

    def together(self) -> Iterator[PlainBatches | FetchedBatch]:
        """Yields the same as iterating, but copies the plain batches of an answer and yields them
        together, which is faster for small batches. `next_offset` follows everything that was
        yielded."""
        try:
            while self.next_offset < self._end:
                yield from self._next_answer_together()
            self._brokers.persist(self._current_partition)
        finally:
            self.close()

    def is_compacted(self) -> bool:
        """Returns whether records may be missing within the log; False if brokers do not disclose
        that."""
        if self._is_compacted is None:
            try:
                configs = {
                    config.name: config for config in topic_configs(self._brokers, self._topic)
                }
            except (Refused, Unsupported):
                configs = {}
            policy = configs.get("cleanup.policy")
            self._is_compacted = policy is not None and "compact" in (policy.value or "")
        return self._is_compacted

    def close(self) -> None:
        """Closes the connection, even with a request in flight."""
        if self._leader is not None:
            self._leader.connection.close()
            self._leader = None

    def _next_answer(self) -> Iterator[FetchedBatch | PassedOver]:
        reached_offset = self.next_offset
        data, view = self._next_data()
        if view:
            batch_headers = list(headers(view))
            self._go_on(view, max((header.next_offset for _, header in batch_headers), default=-1))
            yield from self._one_by_one(data, view, batch_headers)
        elif self.next_offset > reached_offset:
            yield PassedOver(reached_offset, self.next_offset, Instead.HOLE)

    def _next_answer_together(self) -> Iterator[PlainBatches | FetchedBatch]:
        data, view = self._next_data()
        if not view:
            return
        # With aborted transactions, every batch must be examined.
        answer = b"" if data.aborted_transactions else bytes(view)
        plain_batches = cut(answer, self.next_offset, self._end)
        other_headers = list(headers(view, plain_batches.size))
        end = max((header.next_offset for _, header in other_headers), default=-1)
        self._go_on(view, max(end, plain_batches.next_offset))
        if plain_batches.batches:
            self._passed(plain_batches.next_offset, plain_batches.leader_epoch)
            yield plain_batches
        yield from (
            item
            for item in self._one_by_one(data, view, other_headers)
            if isinstance(item, FetchedBatch)
        )

    def _next_data(self) -> tuple[PartitionData, memoryview]:
        """Returns the next answer and a view of its batches, empty if there are none."""
        data = self._answer()
        assert not isinstance(data.records, FileSlice)  # only the broker sends these
        view = memoryview(data.records or b"")
        if not view:
            self._handle_empty(data)
        return data, view

    def _go_on(self, view: memoryview, next_offset: int) -> None:
        """Requests what follows these batches, from `next_offset` on."""
        if next_offset <= self.next_offset:
            text = f"{self._name}, offset {self.next_offset}: no complete record batch"
            raise Corrupt(text, first=self.next_offset)
        self._memory.keep()
        self._bytes += len(view)
        if next_offset < self._end:
            self._ask_ahead(next_offset)

    def _one_by_one(
        self, data: PartitionData, view: memoryview, batch_headers: list[tuple[int, BatchHeader]]
    ) -> Iterator[FetchedBatch | PassedOver]:
        committed_filter = Committed(data.aborted_transactions)
        for start, header in batch_headers:
            reached_offset, hole_end = self.next_offset, min(header.base_offset, self._end)
            if hole_end > reached_offset:
                self._passed(hole_end, header.leader_epoch)
                yield PassedOver(reached_offset, hole_end, Instead.HOLE)
            if header.base_offset >= self._end:
                return
            batch = view[start : start + header.size]
            self._check(header, batch)
            is_new = header.next_offset > reached_offset and header.base_offset >= self._first
            replacement = self._instead(committed_filter, header, batch)
            self._passed(max(self.next_offset, header.next_offset), header.leader_epoch)
            if not is_new:
                continue
            if replacement is None:
                yield FetchedBatch(self._partition, header, batch)
            else:
                first_offset = max(reached_offset, header.base_offset)
                yield PassedOver(first_offset, header.next_offset, replacement, header)
        # The caller's time does not count: the next error is the first of a new series.
        self._patience.reset()

    def _passed(self, offset: int, epoch: int) -> None:
        self.next_offset, self.leader_epoch = offset, max(self.leader_epoch, epoch)

    def _handle_empty(self, data: PartitionData) -> None:
        """Repeats the request, unless the log is compacted, where no batch may be left."""
        log_end = data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark
        if log_end < self._end:
            self._patience.wait(self._missing(f"the log ends at {log_end}", retriable=True))
        elif self.is_compacted():
            # Everything there was written in this epoch or before.
            self._passed(self._end, -1 if self._leader is None else self._leader.epoch)
        else:
            reason = f"the log ends at {log_end}, but brokers send no batches"
            self._patience.wait(self._missing(reason, retriable=True))

    def _check(self, header: BatchHeader, batch: memoryview) -> None:
        if header.magic != MAGIC:
            raise self._corrupt(header, f"record format {header.magic}")
        if crc32c(batch[CRC_START:]) != header.crc:
            raise self._corrupt(header, "the CRC does not match")

    def _instead(
        self, committed: Committed, header: BatchHeader, batch: memoryview
    ) -> Instead | None:
        """Returns why the batch is not yielded; None if it is."""
        try:
            if committed.counts(header, batch):
                return None
        except BatchError as error:
            raise self._corrupt(header, str(error)) from None
        if header.is_control:
            return Instead.MARKERS
        return Instead.ABORTED if header.record_count > 0 else Instead.EMPTIED

    def _corrupt(self, header: BatchHeader, why: str) -> Corrupt:
        return Corrupt(
            f"{self._name}, offset {header.base_offset}: {why}",
            first=header.base_offset,
            count=max(0, header.next_offset - header.base_offset),
        )

    def _answer(self) -> PartitionData:
        """Returns the leader's next answer, following the partition to new leaders."""
        while True:
            try:
                if self._leader is None or self._leader.pending is None:
                    self._ask(self.next_offset)
                return self._received()
            except ClientError as error:
                self.close()
                self._patience.wait(error)

    def _ask_ahead(self, offset: int) -> None:
        try:
            self._ask(offset)
        except ClientError:
            self.close()  # requested again, with retries, when it is needed

    def _ask(self, offset: int) -> None:
        leader = self._leader or self._find_leader()
        fetch_partition = FetchPartition(
            partition=self._partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=self._bytes_to_fetch(offset),
        )
        request = FetchRequest(
            max_wait=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=fetch_partition.partition_max_bytes,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=self._topic, partitions=(fetch_partition,)),),
        )
        pending_response = leader.connection.send(fetch.API, request)
        self._leader = _Leader(leader.connection, leader.epoch, pending_response)

    def _bytes_to_fetch(self, offset: int) -> int:
        """Estimates the bytes up to the slice's end from those received so far."""
        offsets_read = offset - self._begins
        if not self._bytes or offsets_read <= 0:
            return self._fetch_bytes
        expected_bytes = self._bytes * (self._end - offset) // offsets_read
        return min(self._fetch_bytes, expected_bytes * 5 // 4 + _LEAST_BYTES)

    def _find_leader(self) -> _Leader:
        partition = self._current_partition()
        if self.leader_epoch >= 0 and partition.leader_epoch != self.leader_epoch:
            self._check_history()
        connection = self._brokers.connect(partition.leader, memory=self._memory.take)
        self._leader = _Leader(connection, partition.leader_epoch)
        return self._leader

    def _received(self) -> PartitionData:
        leader = self._leader
        assert leader is not None
        assert leader.pending is not None
        self._leader = _Leader(leader.connection, leader.epoch)
        response = leader.connection.receive(leader.pending)
        check(response.error_code, f"fetch from {leader.connection.address}")
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code is ErrorCode.offset_out_of_range:
                    raise self._missing("not, or no longer, in the log")
                needs = on_topic(self._brokers.who, self._topic, Operation.READ)
                check(data.error_code, self._name, needs=needs)
                return data
        # From a broker that throttles its clients.
        raise ConnectionLost(f"{leader.connection.address}: no answer for {self._name}")

    def _current_partition(self) -> PartitionMetadata:
        """Returns the partition's current metadata, if the topic is still the same."""
        topic = self._brokers.refresh([self._topic]).topic(self._topic, Operation.READ)
        if self._topic_id and topic.id is not None and str(topic.id) != self._topic_id:
            raise self._missing(f"the topic was recreated: id {topic.id}, before {self._topic_id}")
        return topic.partition(self._partition)

    def _check_history(self) -> None:
        """Raises if the new leader's log diverges before the position."""
        target = TopicPartition(self._topic, self._partition)
        end_offset = end_offsets_of_epochs(self._brokers, {target: self.leader_epoch})[target]
        if 0 <= end_offset < self.next_offset:
            reason = f"the new leader's log diverges at {end_offset} from the one that was read"
            raise self._missing(reason)

    def _missing(self, why: str, *, retriable: bool = False) -> OffsetsMissing:
        return OffsetsMissing(self._name, self.next_offset, self._end, why, retriable=retriable)
