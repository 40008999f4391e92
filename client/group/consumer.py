"""Reads topics as a member of a group of the paper's kind: each message is some member's.

Rule 1: a message is handed out only while its partition is certainly this member's (member.py).
Rule 2: what was handed out counts as done when the next message is asked for. `commit` writes down
        what is done, for whoever owns the partition next; so each message is handed out at least
        once, to one or another.
Rule 3: where to begin in a partition without an offset is decided once, by its first owner, who
        commits it before he reads. In partitions that came after the group began to read a topic
        that is their beginning: with `End`, too, nothing that was written to them is left out.
Rule 4: if the log no longer has what would be next, reading goes on where the log begins, and the
        program's log says what is missing.

One thread. ZooKeeper and the brokers are other people's: neither is closed here.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from client.brokers import Brokers
from client.errors import Corrupt, ErrorCode, Refused
from client.fetcher import FetchedBatch, Fetcher
from client.group.member import Member
from client.offsets import Beginning, End, Start, offsets_at, start_offsets
from cluster.errors import Fenced, Unavailable
from cluster.group_offsets import read_offsets
from cluster.session import Session
from cluster.values import NO_EPOCH, CommittedOffset, TopicPartition
from wire.acls import Operation
from wire.errors import BatchError
from wire.messages import list_offsets
from wire.records import Record, records

_SLICE_S: Final = 0.1  # that brokers are waited for, before somebody looks after the group
_UNHEARD_S: Final = 0.2  # until brokers are asked again for what they did not know

log = logging.getLogger(__name__)


class GroupRecord(NamedTuple):
    """A record and where it is."""

    topic: str
    partition: int
    record: Record


class _Position(NamedTuple):
    """The next offset of a partition; the epoch is that of the record before."""

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
        """`start` is for partitions of which the group has no offset. `before_release` is called
        before partitions are given up: who then commits what is done leaves nothing to be read
        twice. `session` must be no other member's."""
        self._brokers = brokers
        self._session = session
        self._start = start
        self._before_release = before_release
        self._fetchers = {topic: Fetcher(brokers, topic, {}) for topic in topics}
        self._unplaced: set[TopicPartition] = set()  # gained, and nobody knows yet where to begin
        self._place_at = 0.0  # monotonic: not before
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
        """What is this member's to read."""
        return frozenset(self.member.claims)

    def close(self) -> None:
        """Leave the group: the others share at once what was this member's."""
        try:
            self.member.leave()
        finally:
            for fetcher in self._fetchers.values():
                fetcher.close()

    def poll(self, seconds: float) -> Iterator[GroupRecord]:
        """The messages that come next; none if that takes longer than `seconds`.

        Raises ClientError, ClusterError.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._tend()
            has_any = False
            for message in self._messages():
                has_any = True
                yield message
            left = deadline - time.monotonic()
            if has_any or left <= 0:
                return
            self._fetch(min(_SLICE_S, left))

    def commit(self) -> None:
        """Write down how far was read. Raises Fenced, if that is another member's affair by now;
        Unavailable."""
        now_ms = time.time_ns() // 1_000_000
        due = {
            each: CommittedOffset(
                offset=position.offset, leader_epoch=position.leader_epoch, committed_ms=now_ms
            )
            for each, position in self._positions.items()
            if self._committed.get(each) != position.offset
        }
        if due:
            self.member.commit(due)
            self._committed |= {each: offset.offset for each, offset in due.items()}

    # What the member says

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        self._unplaced |= set(partitions)

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        if self._before_release is not None:
            self._before_release()
        self._forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for each in partitions:
            self._unplaced.discard(each)
            self._positions.pop(each, None)
            self._committed.pop(each, None)
            self._fetchers[each.topic].forget(each.partition)
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
            except Fenced:  # the member knows, and what was gained is lost
                return
            except Unavailable as error:
                log.warning("offsets of a group cannot be read error=%r", str(error))
            except Refused as error:
                self._check_unheard(error)
                self._place_at = time.monotonic() + _UNHEARD_S

    def _place(self) -> None:
        """Find out where to begin in what was gained."""
        committed = read_offsets(self._session, self.member.group, sorted(self._unplaced))
        found = {
            each: _Position(offset.offset, offset.leader_epoch)
            for each, offset in committed.items()
        }
        chosen = self._chosen(self._unplaced - committed.keys())
        if chosen:
            now_ms = time.time_ns() // 1_000_000
            self.member.commit(
                {
                    each: CommittedOffset(offset=position.offset, committed_ms=now_ms)
                    for each, position in chosen.items()
                }
            )
        for each, position in (found | chosen).items():
            self._positions[each] = position
            self._committed[each] = position.offset
            self._fetchers[each.topic].begin(each.partition, position.offset)
        self._unplaced.clear()

    def _chosen(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Position]:
        chosen: dict[TopicPartition, _Position] = {}
        for topic in sorted({each.topic for each in partitions}):
            self._brokers.topic(topic, Operation.READ)
            first = self.member.first_partitions(topic)
            numbers = sorted(each.partition for each in partitions if each.topic == topic)
            for those, start in (
                ([each for each in numbers if each < first], self._start),
                ([each for each in numbers if each >= first], Beginning()),
            ):
                offsets = start_offsets(self._brokers, topic, those, start) if those else {}
                chosen |= {
                    TopicPartition(topic, number): _Position(offset)
                    for number, offset in offsets.items()
                }
        return chosen

    def _fetch(self, seconds: float) -> None:
        reading = [each for each in self._fetchers.values() if each.positions]
        if not reading or self._waiting or not self.member.may_read:
            time.sleep(min(seconds, 0.02))
            return
        for fetcher in reading:
            try:
                batches = fetcher.poll(seconds / len(reading))
            except Refused as error:
                if error.code is ErrorCode.offset_out_of_range:
                    self._begin_again(fetcher, error)
                    continue
                self._check_unheard(error)
                time.sleep(min(seconds, _UNHEARD_S))  # the next poll asks brokers what there is
            else:
                self._waiting += [(fetcher.topic, batch) for batch in batches]

    def _check_unheard(self, error: Refused) -> None:
        """Members hear of new partitions by themselves: before the brokers do, it may be, and after
        these were asked last. Raises the error if it is another one."""
        if error.code is not ErrorCode.invalid_partitions:
            raise error
        log.info("a new partition is not known yet error=%r", str(error))

    def _begin_again(self, fetcher: Fetcher, error: Refused) -> None:
        """Where the log still has something. Raises the error if it has what was asked for."""
        numbers = sorted(fetcher.positions)
        first = offsets_at(self._brokers, fetcher.topic, numbers, list_offsets.EARLIEST)
        end = offsets_at(self._brokers, fetcher.topic, numbers, list_offsets.LATEST)
        moved = False
        for number in numbers:
            wanted = fetcher.positions[number]
            nearest = max(first[number], min(wanted, end[number]))
            if nearest != wanted:
                log.warning(
                    "messages missing group=%r partition=%s-%d first=%d next=%d",
                    *(self.member.group, fetcher.topic, number, wanted, nearest),
                )
                # Nothing of it waits to be handed out: that comes before more is fetched.
                fetcher.begin(number, nearest)
                self._positions[TopicPartition(fetcher.topic, number)] = _Position(nearest)
                moved = True
        if not moved:
            raise error

    def _messages(self) -> Iterator[GroupRecord]:
        while self._waiting:
            topic, batch = self._waiting[0]
            where = TopicPartition(topic, batch.partition)
            for record in self._records(topic, batch):
                position = self._positions.get(where)
                if position is None or record.offset < position.offset:
                    continue
                if not self.member.may_read or self.member.has_news:
                    return  # `tend` has something to do, and what is left here may be another's
                yield GroupRecord(topic, batch.partition, record)
                # Who asks for the next one may have spent any time on this one.
                if where in self._positions:
                    self._positions[where] = _Position(record.offset + 1, batch.header.leader_epoch)
            if self._waiting and self._waiting[0][1] is batch:  # else: its partition is given up
                self._waiting.popleft()
            if where in self._positions:
                self._positions[where] = _Position(
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
