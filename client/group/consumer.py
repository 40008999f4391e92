"""Reads topics as a member of a group without a coordinator: each message goes to one member.

Rule 1: a message is returned only while its partition certainly belongs to this member (member.py).
Rule 2: a returned message counts as processed when the next one is requested. `commit` records what
        is processed for the partition's next owner, so each message is returned at least once, to
        some member.
Rule 3: the start position in a partition without an offset is decided once, by its first owner, who
        commits it before reading. For partitions added after the group began to read a topic it is
        their beginning: even with `End`, nothing written to them is left out.
Rule 4: if the log no longer has the next message, reading continues where the log begins, and a log
        line says what is missing.

Not thread-safe. ZooKeeper session and brokers belong to the caller: neither is closed here.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from client.connection.brokers import Brokers
from client.errors import Corrupt, ErrorCode, Refused
from client.group.member import Member
from client.reading.fetcher import FetchedBatch, Fetcher
from client.reading.offsets import Beginning, End, Start, offsets_at, start_offsets
from cluster.errors import Fenced, Unavailable
from cluster.groups.offsets import read_offsets
from cluster.session.session import Session
from cluster.values import NO_EPOCH, CommittedOffset, TopicPartition
from wire.acls import Operation
from wire.errors import BatchError
from wire.messages import list_offsets
from wire.record_batches.records import Record, records

_SLICE_S: Final = 0.1  # the longest wait for brokers before the member is tended
_RETRY_S: Final = 0.2  # before brokers are asked again about a partition unknown to them

log = logging.getLogger(__name__)


class GroupRecord(NamedTuple):
    """A record and its partition."""

    topic: str
    partition: int
    record: Record


class _Position(NamedTuple):
    """The next offset of a partition, and the epoch of the record before it."""

    offset: int
    leader_epoch: int = NO_EPOCH


class GroupConsumer:
    """One member of a group. The topics need not exist yet."""

    def __init__(
        self,
        brokers: Brokers,
        session: Session,
        group: str,
        topics: Collection[str],
        *,
        start: Start = End(),  # noqa: B008  # a value
        before_release: Callable[[], None] | None = None,
        name: str = "",
    ) -> None:
        """`start` is for partitions without a committed offset. `before_release` is called before
        partitions are given up: if it commits, no message is read twice. `session` must not be
        shared with another member."""
        self._brokers = brokers
        self._session = session
        self._start = start
        self._before_release = before_release
        self._fetchers = {topic: Fetcher(brokers, topic, {}) for topic in topics}
        self._unplaced: set[TopicPartition] = set()  # gained, but without a start position yet
        self._place_at = 0.0  # monotonic: the earliest time
        self._positions: dict[TopicPartition, _Position] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._waiting: deque[tuple[str, FetchedBatch]] = deque()
        self.member = Member(session, group, topics, self, name=name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that belong to this member."""
        return frozenset(self.member.claims)

    def close(self) -> None:
        """Leaves the group, so that other members take over the partitions at once."""
        try:
            self.member.leave()
        finally:
            for fetcher in self._fetchers.values():
                fetcher.close()

    def poll(self, seconds: float) -> Iterator[GroupRecord]:
        """Yields the next messages; none if none arrives within `seconds`.

        Raises ClientError, ClusterError.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._tend()
            has_records = False
            for message in self._messages():
                has_records = True
                yield message
            remaining_seconds = deadline - time.monotonic()
            if has_records or remaining_seconds <= 0:
                return
            self._fetch(min(_SLICE_S, remaining_seconds))

    def commit(self) -> None:
        """Commits the positions. Raises Fenced if a partition now belongs to another member;
        Unavailable."""
        now_ms = time.time_ns() // 1_000_000
        due_offsets = {
            partition: CommittedOffset(
                offset=position.offset, leader_epoch=position.leader_epoch, committed_ms=now_ms
            )
            for partition, position in self._positions.items()
            if self._committed.get(partition) != position.offset
        }
        if due_offsets:
            self.member.commit(due_offsets)
            self._committed |= {
                partition: offset.offset for partition, offset in due_offsets.items()
            }

    # Called by the member

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        self._unplaced |= set(partitions)

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        if self._before_release is not None:
            self._before_release()
        self._forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._unplaced.discard(partition)
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)
            self._fetchers[partition.topic].forget(partition.partition)
        self._waiting = deque(
            (topic, batch)
            for topic, batch in self._waiting
            if TopicPartition(topic, batch.partition) in self._positions
        )

    def _tend(self) -> None:
        self.member.tend()
        if self._unplaced and self.member.may_read and time.monotonic() >= self._place_at:
            try:
                self._place()
            except Fenced:  # the member has handled it, and the partitions are lost
                return
            except Unavailable as error:
                log.warning("offsets of a group cannot be read error=%r", str(error))
            except Refused as error:
                self._check_unknown_partition(error)
                self._place_at = time.monotonic() + _RETRY_S

    def _place(self) -> None:
        """Determines the start positions in the gained partitions."""
        committed_offsets = read_offsets(self._session, self.member.group, sorted(self._unplaced))
        resumed_partitions = {
            partition: _Position(offset.offset, offset.leader_epoch)
            for partition, offset in committed_offsets.items()
        }
        chosen_offsets = self._chosen(self._unplaced - committed_offsets.keys())
        if chosen_offsets:
            now_ms = time.time_ns() // 1_000_000
            self.member.commit(
                {
                    partition: CommittedOffset(offset=position.offset, committed_ms=now_ms)
                    for partition, position in chosen_offsets.items()
                }
            )
        for partition, position in (resumed_partitions | chosen_offsets).items():
            self._positions[partition] = position
            self._committed[partition] = position.offset
            self._fetchers[partition.topic].begin(partition.partition, position.offset)
        self._unplaced.clear()

    def _chosen(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Position]:
        chosen_positions: dict[TopicPartition, _Position] = {}
        for topic in sorted({partition.topic for partition in partitions}):
            self._brokers.topic(topic, Operation.READ)
            partition_count = self.member.first_partitions(topic)
            partition_ids = sorted(
                target.partition for target in partitions if target.topic == topic
            )
            for part, start in (
                (
                    [
                        partition_id
                        for partition_id in partition_ids
                        if partition_id < partition_count
                    ],
                    self._start,
                ),
                (
                    [
                        partition_id
                        for partition_id in partition_ids
                        if partition_id >= partition_count
                    ],
                    Beginning(),
                ),
            ):
                offsets = start_offsets(self._brokers, topic, part, start) if part else {}
                chosen_positions |= {
                    TopicPartition(topic, partition_id): _Position(offset)
                    for partition_id, offset in offsets.items()
                }
        return chosen_positions

    def _fetch(self, seconds: float) -> None:
        active_fetchers = [fetcher for fetcher in self._fetchers.values() if fetcher.positions]
        if not active_fetchers or self._waiting or not self.member.may_read:
            time.sleep(min(seconds, 0.02))
            return
        for fetcher in active_fetchers:
            try:
                batches = fetcher.poll(seconds / len(active_fetchers))
            except Refused as error:
                if error.code is ErrorCode.offset_out_of_range:
                    self._begin_again(fetcher, error)
                    continue
                self._check_unknown_partition(error)
                time.sleep(min(seconds, _RETRY_S))  # the next poll refreshes the metadata
            else:
                self._waiting += [(fetcher.topic, batch) for batch in batches]

    def _check_unknown_partition(self, error: Refused) -> None:
        """Members may learn of new partitions before brokers do, or after the latest metadata.
        Raises any other error."""
        if error.code is not ErrorCode.invalid_partitions:
            raise error
        log.info("new partition not known yet error=%r", str(error))

    def _begin_again(self, fetcher: Fetcher, error: Refused) -> None:
        """Continues where the log has messages. Raises the error if it has the position."""
        partition_ids = sorted(fetcher.positions)
        first_offsets = offsets_at(
            self._brokers, fetcher.topic, partition_ids, list_offsets.EARLIEST
        )
        end = offsets_at(self._brokers, fetcher.topic, partition_ids, list_offsets.LATEST)
        has_moved = False
        for partition_id in partition_ids:
            position = fetcher.positions[partition_id]
            nearest_offset = max(first_offsets[partition_id], min(position, end[partition_id]))
            if nearest_offset != position:
                log.warning(
                    "messages missing group=%r partition=%s-%d first=%d next=%d",
                    *(self.member.group, fetcher.topic, partition_id, position, nearest_offset),
                )
                # None of its messages are waiting: those are returned before more are fetched.
                fetcher.begin(partition_id, nearest_offset)
                self._positions[TopicPartition(fetcher.topic, partition_id)] = _Position(
                    nearest_offset
                )
                has_moved = True
        if not has_moved:
            raise error

    def _messages(self) -> Iterator[GroupRecord]:
        while self._waiting:
            topic, batch = self._waiting[0]
            target = TopicPartition(topic, batch.partition)
            for record in self._records(topic, batch):
                position = self._positions.get(target)
                if position is None or record.offset < position.offset:
                    continue
                if not self.member.may_read or self.member.has_news:
                    return  # `tend` has work to do, and the rest may be another member's
                yield GroupRecord(topic, batch.partition, record)
                # The caller may have spent any time on this message.
                if target in self._positions:
                    self._positions[target] = _Position(
                        record.offset + 1, batch.header.leader_epoch
                    )
            if self._waiting and self._waiting[0][1] is batch:  # otherwise it was given up
                self._waiting.popleft()
            if target in self._positions:
                self._positions[target] = _Position(
                    batch.header.next_offset, batch.header.leader_epoch
                )

    def _records(self, topic: str, batch: FetchedBatch) -> Iterator[Record]:
        if batch.header.is_control:
            return
        try:
            yield from records(batch.data)
        except BatchError as error:
            name = f"{topic}-{batch.partition}"
            raise Corrupt(f"{name}, offset {batch.header.base_offset}: {error}") from None
