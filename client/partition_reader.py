"""The batches of one partition between two offsets: what a task reads that was given a slice.

Rule 1: a batch belongs to the slice in which its base offset lies. The first slice of a stretch
        (`from_within`) has the batch that its first offset lies in, too, wherever that begins: it
        is handed out whole, and the caller cuts it.
Rule 2: while the caller works on one answer, the next is under way. Answers are received into two
        buffers, in turn: a batch's bytes are good until the next but one is asked for.
Rule 3: only what is committed is handed out as a batch: no control batches, nothing of aborted
        transactions, no batches that compaction has emptied. What was seen at those offsets
        instead, `everything` says: between it and the batches no offset is left out.
Rule 4: what was planned exists. Offsets that are not there any more, or do not appear within the
        brokers' patience, are OffsetsMissing, and so is a log that is not the one that was meant:
        another topic of this name, or a history that a new leader does not share.
Rule 5: an answer without batches does not say that there are none: Apache Kafka gives one when
        tiered storage is slow. It is asked again. Only the log of a topic that is compacted may
        have nothing left up to `end`.

A partition that moves is followed to its new leader. Nothing is kept that a crash could spoil.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec
from crc32c import crc32c

from client.admin import topic_configs
from client.brokers import Brokers
from client.committed import READ_COMMITTED, Committed
from client.connection import BrokerConnection
from client.conversation import LARGEST_USUAL, PendingResponse, fresh_memory
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
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
from client.fetcher import FetchedBatch
from client.metadata import PartitionMetadata
from client.plain_batches import PlainBatches, cut
from client.rights import on_topic
from wire.acls import Operation
from wire.batch import CRC_START, MAGIC, BatchHeader, headers
from wire.errors import BatchError
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.slices import FileSlice

FETCH_BYTES: Final = 8 * 1024 * 1024

_MAX_WAIT_MS: Final = 500
_FRAME_BYTES: Final = 4096  # what an answer has around its batches
_LEAST_BYTES: Final = 64 * 1024


class _TwoBuffers:
    """Memory for one answer, and for the one before it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._current, self._other = bytearray(), bytearray()

    def take(self, size: int) -> memoryview:
        """The current buffer, which grows: for little at first, for all that is asked for, and for
        a batch that is larger still. What claims to be huge is not kept."""
        if size > LARGEST_USUAL:
            return fresh_memory(size)
        if len(self._current) < size:
            self._current = bytearray(
                _LEAST_BYTES if size <= _LEAST_BYTES else max(size, self._size)
            )
        return memoryview(self._current)[:size]

    def keep(self) -> None:
        """What was received last stays as it is for now: the next goes into the other one."""
        self._current, self._other = self._other, self._current


class _Leader(msgspec.Struct, frozen=True):
    """Who is asked, in which epoch, and the answer that is under way, if one is."""

    connection: BrokerConnection
    epoch: int
    pending: PendingResponse[FetchResponse] | None = None


class Instead(StrEnum):
    """What was seen at offsets that hold no message of anybody's."""

    MARKERS = "markers"  # a control batch
    ABORTED = "aborted"  # what a transaction wrote that was aborted
    EMPTIED = "emptied"  # a batch without records, as compaction leaves it
    HOLE = "hole"  # no batch at all, between two, or up to the end


class PassedOver(msgspec.Struct, frozen=True):
    """The offsets from `first` on, below `end`. `header` is that of the batch that was seen there;
    of a hole, None."""

    first: int
    end: int
    what: Instead
    header: BatchHeader | None = None


class PartitionReader:
    """`for batch in PartitionReader(…)`, once. `next_offset` is behind the last batch handed out,
    and at least `end` when there are no more. `leader_epoch` belongs to it: the epoch in which the
    log before it was written, or a newer one; -1 while nothing is known."""

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
        """`topic_id` is which topic of that name is meant, and `leader_epoch` the one that belongs
        to `first`, if they are known. With `from_within` the batch that `first` lies in is handed
        out, although it begins before it."""
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
        self._is_compacted: bool | None = None  # until it is asked

    def __iter__(self) -> Iterator[FetchedBatch]:
        return (each for each in self.everything() if isinstance(each, FetchedBatch))

    def everything(self) -> Iterator[FetchedBatch | PassedOver]:
        """The batches, and what was seen at all other offsets. Only the batch that a slice begins
        within is not there, if it belongs to the slice before."""
        try:
            while self.next_offset < self._end:
                yield from self._next_answer()
            # Fetch does not say of which topic it answers.
            self._brokers.persist(self._current_partition)
        finally:
            self.close()

    def together(self) -> Iterator[PlainBatches | FetchedBatch]:
        """As `for` does, but what is plain in an answer is handed out together, and copied: faster
        where batches are small. `next_offset` is behind all of what was handed out."""
        try:
            while self.next_offset < self._end:
                yield from self._next_answer_together()
            self._brokers.persist(self._current_partition)
        finally:
            self.close()

    def is_compacted(self) -> bool:
        """Whether records may be missing within the log. No, where brokers do not tell."""
        if self._is_compacted is None:
            try:
                configs = {each.name: each for each in topic_configs(self._brokers, self._topic)}
            except (Refused, Unsupported):
                configs = {}
            policy = configs.get("cleanup.policy")
            self._is_compacted = policy is not None and "compact" in (policy.value or "")
        return self._is_compacted

    def close(self) -> None:
        """Leaves the leader, with whatever is under way."""
        if self._leader is not None:
            self._leader.connection.close()
            self._leader = None

    def _next_answer(self) -> Iterator[FetchedBatch | PassedOver]:
        reached = self.next_offset
        data, view = self._next_data()
        if view:
            found = list(headers(view))
            self._go_on(view, max((header.next_offset for _, header in found), default=-1))
            yield from self._careful(data, view, found)
        elif self.next_offset > reached:
            yield PassedOver(reached, self.next_offset, Instead.HOLE)

    def _next_answer_together(self) -> Iterator[PlainBatches | FetchedBatch]:
        data, view = self._next_data()
        if not view:
            return
        # Where transactions were aborted, each batch must be looked at.
        some = b"" if data.aborted_transactions else bytes(view)
        plain = cut(some, self.next_offset, self._end)
        rest = list(headers(view, plain.size))
        behind = max((header.next_offset for _, header in rest), default=-1)
        self._go_on(view, max(behind, plain.next_offset))
        if plain.batches:
            self._passed(plain.next_offset, plain.leader_epoch)
            yield plain
        yield from (
            each for each in self._careful(data, view, rest) if isinstance(each, FetchedBatch)
        )

    def _next_data(self) -> tuple[PartitionData, memoryview]:
        """And its batches: nothing, if there are none."""
        data = self._answer()
        assert not isinstance(data.records, FileSlice)  # those only leave
        view = memoryview(data.records or b"")
        if not view:
            self._nothing(data)
        return data, view

    def _go_on(self, view: memoryview, behind: int) -> None:
        """What comes next is under way while the caller works on these, which end there."""
        if behind <= self.next_offset:
            text = f"{self._name}, offset {self.next_offset}: no whole record batch"
            raise Corrupt(text, first=self.next_offset)
        self._memory.keep()
        self._bytes += len(view)
        if behind < self._end:
            self._ask_ahead(behind)

    def _careful(
        self, data: PartitionData, view: memoryview, found: list[tuple[int, BatchHeader]]
    ) -> Iterator[FetchedBatch | PassedOver]:
        committed = Committed(data.aborted_transactions)
        for start, header in found:
            reached, behind = self.next_offset, min(header.base_offset, self._end)
            if behind > reached:
                self._passed(behind, header.leader_epoch)
                yield PassedOver(reached, behind, Instead.HOLE)
            if header.base_offset >= self._end:
                return
            batch = view[start : start + header.size]
            self._check(header, batch)
            fresh = header.next_offset > reached and header.base_offset >= self._first
            instead = self._instead(committed, header, batch)
            self._passed(max(self.next_offset, header.next_offset), header.leader_epoch)
            if not fresh:
                continue
            if instead is None:
                yield FetchedBatch(self._partition, header, batch)
            else:
                first = max(reached, header.base_offset)
                yield PassedOver(first, header.next_offset, instead, header)
        # However long the caller took, what goes wrong next is the first thing that does.
        self._patience.reset()

    def _passed(self, offset: int, epoch: int) -> None:
        self.next_offset, self.leader_epoch = offset, max(self.leader_epoch, epoch)

    def _nothing(self, data: PartitionData) -> None:
        """No batch was sent: that of a compacted log may be right, any other is asked again."""
        known = data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark
        if known < self._end:
            self._patience.wait(self._missing(f"the log ends at {known}", retriable=True))
        elif self.is_compacted():
            # Whatever was written there was written before this epoch ended.
            self._passed(self._end, -1 if self._leader is None else self._leader.epoch)
        else:
            why = f"the log ends at {known}, and brokers send nothing of it"
            self._patience.wait(self._missing(why, retriable=True))

    def _check(self, header: BatchHeader, batch: memoryview) -> None:
        if header.magic != MAGIC:
            raise self._corrupt(header, f"format {header.magic}")
        if crc32c(batch[CRC_START:]) != header.crc:
            raise self._corrupt(header, "the CRC does not match")

    def _instead(
        self, committed: Committed, header: BatchHeader, batch: memoryview
    ) -> Instead | None:
        """Why the batch is not handed out; None if it is."""
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
        """What the partition's leader says next, whoever that is by then."""
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
            self.close()  # asked again when it is needed, with patience

    def _ask(self, offset: int) -> None:
        leader = self._leader or self._find_leader()
        wanted = FetchPartition(
            partition=self._partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=self._worthwhile(offset),
        )
        request = FetchRequest(
            max_wait=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=wanted.partition_max_bytes,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=self._topic, partitions=(wanted,)),),
        )
        pending = leader.connection.send(fetch.API, request)
        self._leader = _Leader(leader.connection, leader.epoch, pending)

    def _worthwhile(self, offset: int) -> int:
        """So many bytes as may still be before the slice's end, judged by what came so far."""
        had = offset - self._begins
        if not self._bytes or had <= 0:
            return self._fetch_bytes
        expected = self._bytes * (self._end - offset) // had
        return min(self._fetch_bytes, expected * 5 // 4 + _LEAST_BYTES)

    def _find_leader(self) -> _Leader:
        led = self._current_partition()
        if self.leader_epoch >= 0 and led.leader_epoch != self.leader_epoch:
            self._check_history()
        connection = self._brokers.connect(led.leader, memory=self._memory.take)
        self._leader = _Leader(connection, led.leader_epoch)
        return self._leader

    def _received(self) -> PartitionData:
        leader = self._leader
        assert leader is not None
        assert leader.pending is not None
        self._leader = _Leader(leader.connection, leader.epoch)
        answer = leader.connection.receive(leader.pending)
        check(answer.error_code, f"fetch from {leader.connection.address}")
        for topic in answer.responses:
            for data in topic.partitions:
                if data.error_code is ErrorCode.offset_out_of_range:
                    raise self._missing("they are not there (any more)")
                needs = on_topic(self._brokers.who, self._topic, Operation.READ)
                check(data.error_code, self._name, needs=needs)
                return data
        # A broker that throttles its clients says nothing at all.
        raise ConnectionLost(f"{leader.connection.address}: no answer for {self._name}")

    def _current_partition(self) -> PartitionMetadata:
        """As the brokers know it now, of the topic that is meant."""
        topic = self._brokers.refresh([self._topic]).topic(self._topic, Operation.READ)
        if self._topic_id and topic.id is not None and str(topic.id) != self._topic_id:
            raise self._missing(f"the topic was made anew, {topic.id} after {self._topic_id}")
        return topic.partition(self._partition)

    def _check_history(self) -> None:
        """A leader that took over may know less than the one whose batches were read."""
        target = TopicPartition(self._topic, self._partition)
        ended = end_offsets_of_epochs(self._brokers, {target: self.leader_epoch})[target]
        if 0 <= ended < self.next_offset:
            why = f"the new leader's log parts at {ended} from the one that was read"
            raise self._missing(why)

    def _missing(self, why: str, *, retriable: bool = False) -> OffsetsMissing:
        return OffsetsMissing(self._name, self.next_offset, self._end, why, retriable=retriable)
