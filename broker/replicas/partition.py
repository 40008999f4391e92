"""A replica of a partition: its log, its flushes, and the requests that wait for them.

One of the replicas leads, as the map says; the others follow it (replication/copying.py). A leader
appends batches of clients, and what all in-sync replicas have flushed is committed. A follower
appends its leader's batches unchanged, and truncates its log where that differs.

Invariants: consumers see nothing above `log.exposed_offset`: what this broker knows to be
committed, and has flushed itself. A producer with acks=all is answered only when its batch, or the
original of its duplicate, is committed. A failed flush takes the partition offline until the broker
restarts: it cannot be known what the kernel did with those pages, so it is never retried. Every
waiting request is answered, whatever becomes of the partition. A `client` is compared by its value:
it determines who is charged for files, and whose turn it is to flush.

Specified in docs/replication-spec.md: `Produce`, `Learn` (R3, R4, R9).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from uuid import UUID

from broker.configs.topic_config import TopicConfig
from broker.configs.topic_config_table import FOLLOWER_REPLICAS, LEADER_REPLICAS
from broker.errors import ApiError
from broker.monitoring.metrics import BrokerMetrics, TopicTraffic
from broker.replicas.flush_timing import FlushTiming
from broker.replicas.flusher import Flusher
from broker.replicas.open_files import OpenLogs
from broker.replication.followers import Followers
from broker.replication.in_sync_changes import InSyncChanges
from broker.storage.errors import DiskFull
from broker.storage.flush import FlushTicket
from broker.storage.log import Log
from broker.storage.mirrored_batches import append_kept
from broker.storage.segments.batches import Appended
from broker.storage.segments.timestamps import TimestampedOffset
from cluster.values import NO_LEADER, PartitionInfo
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.record_batches.batch import BatchHeader

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.005
_REPLICATION = "replication"  # the client to which followers' files are charged
_MUCH_COPIED = 1024 * 1024  # bytes; smaller flushes run beside others

Committed = Callable[[ErrorCode], None]
Moved = Callable[[], None]


class Partition:
    """One replica. Belongs to the event loop.

    `unavailable` is why it is not served: `(code for clients, reason for people)`, or None.
    `followers` is what a leader knows of the others; None for a follower and for a single replica.
    """

    __slots__ = (
        "_awaiting_append", "_awaiting_commit", "_awaiting_exposure", "_awaiting_flush",
        "_begins_at", "_copied", "_copies_throttled", "_ended", "_flusher", "_flushing",
        "_going_back", "_in_sync_changes", "_loop", "_metrics", "_open_logs", "_rests",
        "_sends_throttled", "_timing", "_written_for", "acknowledged", "broker_id", "compacts",
        "config", "followers", "index", "info", "leader_epoch", "leads", "log",
        "max_message_bytes", "min_insync_replicas", "mirror_of", "read_only", "stamps_append_time",
        "timestamp_after_max_ms", "timestamp_before_max_ms", "topic", "traffic", "unavailable",
        "used",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        partition_log: Log,
        config: TopicConfig,
        info: PartitionInfo,
        *,
        broker_id: int,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher[FlushTicket],
        metrics: BrokerMetrics,
        open_logs: OpenLogs,
        in_sync_changes: InSyncChanges,
        ended: Callable[[], None],
    ) -> None:
        """Without a role at first. `ended` is called once, when it stops being served."""
        self.topic = topic
        self.index = index
        self.broker_id = broker_id
        self.log = partition_log
        self.info = info
        self._timing = FlushTiming(loop, flusher, self._flush_now)
        self.configure(config)
        self.leader_epoch = info.leader_epoch
        self.leads = False
        self.followers: Followers | None = None
        self.unavailable: tuple[ErrorCode, str] | None = None
        self.read_only = False
        self.traffic: TopicTraffic = metrics.topic(topic)
        self._loop = loop
        self._flusher = flusher
        self._metrics = metrics
        self._open_logs = open_logs
        self._in_sync_changes = in_sync_changes
        self._ended = ended
        self._rests = True  # the log has no open files
        self.used = False  # read or appended to since `open_logs` last looked
        self._flushing = False
        self._copied = 0  # bytes since the last flush
        self._written_for: Hashable = None  # the client that appended last
        self.acknowledged = 0  # the end of the last batch that was acknowledged before its flush
        self._begins_at = 0  # the log's end when this broker began to lead
        self._going_back: asyncio.Future[None] | None = None
        self._awaiting_commit: deque[tuple[int, Committed]] = deque()  # by end offset
        self._awaiting_exposure: set[Moved] = set()
        self._awaiting_append: set[Moved] = set()
        self._awaiting_flush: list[asyncio.Future[None]] = []

    def configure(self, config: TopicConfig) -> None:
        """Applies `config`, and caches the values that every append needs."""
        self.config = config
        self.compacts = config.compacts
        self.mirror_of = config.mirror_of
        self.max_message_bytes = config.max_message_bytes
        self.min_insync_replicas = config.min_insync_replicas
        self.stamps_append_time = config.stamps_append_time
        self.timestamp_before_max_ms = config.timestamp_before_max_ms
        self.timestamp_after_max_ms = config.timestamp_after_max_ms
        own_key = self.index, self.broker_id
        self._copies_throttled = config.throttles(FOLLOWER_REPLICAS, *own_key)
        self._sends_throttled = config.throttles(LEADER_REPLICAS, *own_key)
        self._timing.configure(config.number("flush.messages"), config.number("flush.ms"))
        self.log.reconfigure(config.log_config())

    # Availability

    @property
    def offline_reason(self) -> str:
        """Why the partition is not served; empty if it is, or will be shortly."""
        if self.unavailable is None or self._going_back is not None:
            return ""
        return self.unavailable[1]

    def check_available(self) -> None:
        """Raises ApiError unless the partition is served."""
        if self.unavailable is not None:
            raise ApiError(*self.unavailable)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raises ApiError unless this broker leads the partition, at the client's leader epoch."""
        self.check_available()
        if not self.leads:
            raise self._not_leader()
        self.check_epoch(current_leader_epoch)

    def _not_leader(self) -> ApiError:
        leader = self.info.leader
        leadership = "it has no leader" if leader == NO_LEADER else f"it is led by broker {leader}"
        return ApiError(
            ErrorCode.not_leader_or_follower, f"{self.topic}-{self.index}: {leadership}"
        )

    def check_isolation(self, isolation_level: int) -> None:
        """Raises ApiError if the log holds transactions and the client asks for committed messages
        only."""
        if isolation_level and self.log.holds_transactions:
            reason = (
                f"{self.topic}-{self.index} holds transactions: isolation.level=read_uncommitted"
            )
            raise ApiError(ErrorCode.unsupported_version, reason)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises ApiError if the client states a leader epoch other than the one known here."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            code = (
                ErrorCode.fenced_leader_epoch
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )
            raise ApiError(code, f"the current leader epoch is {self.leader_epoch}")

    @contextmanager
    def noticing_failure(self) -> Iterator[Log]:
        """A context manager for work on the log, which it returns; takes the partition offline if
        the work makes the log fail."""
        try:
            yield self.log
        finally:
            if self.log.offline:
                self.take_offline(self.log.offline)

    def take_offline(self, reason: str) -> None:
        """Stops serving this partition, and answers all waiting requests."""
        if self.unavailable is None:
            log.error(
                "partition offline topic=%s partition=%d reason=%r", self.topic, self.index, reason
            )
            self.log.fail(reason)
            self._end(
                ErrorCode.kafka_storage_error, f"{self.topic}-{self.index} is offline: {reason}"
            )

    def close(self) -> None:
        """Stops serving, because the partition is removed from here or the broker stops."""
        if self.unavailable is None:
            self._end(
                ErrorCode.not_leader_or_follower,
                f"{self.topic}-{self.index} is no longer on this broker",
            )

    def _end(self, code: ErrorCode, reason: str) -> None:
        self.unavailable = code, reason
        self._open_logs.forget(self)
        self._ended()
        self._timing.cancel()
        self._turn_away(code)

    def _turn_away(self, code: ErrorCode) -> None:
        """Answer waiting requests, or have them look again."""
        self._copies_flushed()
        waiters, self._awaiting_commit = self._awaiting_commit, deque()
        for _, callback in waiters:
            callback(code)
        for waiter in (*self._awaiting_exposure, *self._awaiting_append):
            waiter()

    # Roles

    @property
    def topic_id(self) -> UUID:
        return self.log.topic_id

    def lead(self, info: PartitionInfo) -> None:
        """Leads the partition as the map says. Another call with the same epoch changes only the
        in-sync set."""
        if self.leads and info.leader_epoch == self.leader_epoch:
            self.follow_in_sync(info)
            return
        self._count_in_sync(info)
        self._change_epoch(info)
        self.leads, self._begins_at = True, self.log.end_offset
        if info.is_replicated:
            self.followers = Followers(info, self._begins_at, self._loop.time())
        self._commit()

    def follow_in_sync(self, info: PartitionInfo) -> None:
        """Applies new replicas or a new in-sync set under the same leader."""
        if not self.leads or info.version < self.info.version or info == self.info:
            return
        self._count_in_sync(info)
        self.info = info
        if self.followers is not None:
            self.followers.follow(info)
        elif info.is_replicated:
            self.followers = Followers(info, self._begins_at, self._loop.time())
        self._commit()

    def _count_in_sync(self, info: PartitionInfo) -> None:
        old_isr, now = set(self.info.isr), set(info.isr)
        self._metrics.replicas.left += len(old_isr - now)
        self._metrics.replicas.joined += len(now - old_isr)

    def follow_leader(self, info: PartitionInfo) -> None:
        """Follows the leader in the cluster's map: another broker, or none."""
        if self.leads or info.leader_epoch != self.leader_epoch:
            self._change_epoch(info)
        self.info = info

    def _change_epoch(self, info: PartitionInfo) -> None:
        self.info, self.leader_epoch = info, info.leader_epoch
        self.leads, self.followers = False, None
        # The known committed offset stays; only the next leader knows of more.
        self.log.replicated(self.log.exposed_offset)
        self._turn_away(ErrorCode.not_leader_or_follower)

    @property
    def knows_committed(self) -> bool:
        """Whether everything that an earlier leader may have exposed is exposed."""
        return self.log.exposed_offset >= self._begins_at

    @property
    def in_sync(self) -> int:
        """The number of in-sync replicas."""
        return 1 if self.followers is None else len(self.followers.in_sync)

    def follower_fetched(self, broker_id: int, offset: int) -> None:
        """Notes that a follower has flushed everything before this offset. Raises `ApiError`."""
        followers, log_ = self.followers, self.log
        if followers is None or not followers.knows(broker_id):
            raise ApiError(
                ErrorCode.not_leader_or_follower,
                f"broker {broker_id} has no replica of {self.topic}-{self.index}",
            )
        followers.fetched(broker_id, offset, log_.end_offset, self._loop.time())
        self._commit()
        if followers.may_join(broker_id, log_.exposed_offset):
            self._in_sync_changes.propose(self, followers.in_sync | {broker_id})

    def sends_throttled_to(self, broker_id: int) -> bool:
        """Returns whether the follower's fetches count against this leader's throttle."""
        followers = self.followers
        return (
            self._sends_throttled and followers is not None and broker_id not in followers.in_sync
        )

    def drop_lagging(self, patience: float) -> None:
        """Proposes to remove in-sync replicas that have not caught up for this long."""
        if self.followers is not None and self.unavailable is None:
            now = self._loop.time()
            lagging_replicas = self.followers.lagging(self.log.end_offset, now, patience)
            if lagging_replicas:
                self._in_sync_changes.propose(self, self.followers.in_sync - lagging_replicas)

    def _commit(self) -> None:
        """Advance the committed offset to where the other replicas are."""
        old_offset = self.log.exposed_offset
        self.log.replicated(inf if self.followers is None else self.followers.committed)
        if self.log.exposed_offset > old_offset:
            self._committed()

    def _committed(self) -> None:
        """More is exposed than before."""
        exposed_offset, waiters = self.log.exposed_offset, self._awaiting_commit
        while waiters and waiters[0][0] <= exposed_offset:
            waiters.popleft()[1](self._after_append)
        self._wake_watchers()

    @property
    def _after_append(self) -> ErrorCode:
        if self.min_insync_replicas > self.in_sync:
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none

    # Following

    @property
    def is_in_sync(self) -> bool:
        """Whether the map lists this replica as in sync: the leader then waits for its flushes."""
        return self.broker_id in self.info.isr

    @property
    def copies_throttled(self) -> bool:
        """Whether this replica's copying counts against this broker's throttle."""
        return self._copies_throttled and not self.is_in_sync

    def copy(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Appends checked batches of the leader unchanged. `flushed_copy` waits for their flush."""
        self.used = True
        if self._rests:
            self._wake(_REPLICATION)
        self._written_for = _REPLICATION
        self._copied += len(batches)
        batch_start = 0
        try:
            for header in headers:
                end = batch_start + header.size
                self.log.append_copy(batches[batch_start:end], header, now_ms)
                self._timing.records += header.record_count
                batch_start = end
        except DiskFull:
            self._note_full_disk()
            raise
        finally:
            if self.log.offline:
                self.take_offline(self.log.offline)
        self._note_space()

    def leader_said(self, high_watermark: int, log_start_offset: int) -> None:
        """Applies the committed offset and start offset of the leader's answer."""
        log_ = self.log
        old_offset = log_.exposed_offset
        log_.replicated(high_watermark)
        if log_.exposed_offset > old_offset:
            self._committed()
        if log_start_offset > log_.start_offset:
            log_.delete_before(min(log_start_offset, log_.exposed_offset))

    def _copies_flushed(self) -> None:
        """Copies are flushed, or never will be: wake those that wait."""
        futures, self._awaiting_flush = self._awaiting_flush, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    async def flushed_copy(self) -> None:
        """Waits until all copied batches are on disk. Raises `ApiError` if they cannot be
        flushed."""
        end_offset = self.log.end_offset
        while self.unavailable is None and self.log.flushed_offset < end_offset:
            future = self._loop.create_future()
            self._awaiting_flush.append(future)
            self._flush_now()
            await future
        self.check_available()

    async def truncate(self, offset: int) -> None:
        """Removes records that the leader does not have."""
        await self._go_back(lambda now_ms: self.log.truncate(offset, now_ms))

    async def begin_anew(self, offset: int) -> None:
        """Removes everything: the leader's log begins at this offset."""
        await self._go_back(lambda now_ms: self.log.begin_anew(offset, now_ms))

    async def _go_back(self, act: Callable[[int], None]) -> None:
        """Runs on a thread, while the partition is unavailable: nothing else uses the log."""
        self.check_available()
        code = ErrorCode.not_leader_or_follower
        self.unavailable = code, f"{self.topic}-{self.index} is being truncated to match its leader"
        self._going_back = future = self._loop.create_future()
        self._timing.cancel()
        try:
            await self.flushed()
            await asyncio.to_thread(act, time.time_ns() // 1_000_000)
        finally:
            self.unavailable = self._going_back = None
            self._timing.records = 0
            future.set_result(None)
            if self.log.offline:
                self.take_offline(self.log.offline)

    @property
    def goes_back(self) -> bool:
        """Whether the log is being truncated, during which files may be missing."""
        return self._going_back is not None

    async def gone_back(self) -> None:
        """Waits until the log is not being truncated."""
        while self._going_back is not None:
            await asyncio.shield(self._going_back)

    # Appending

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        now_ms: int,
        client: Hashable,
        *,
        keeps_offset: bool = False,
    ) -> Appended:
        """Appends one checked batch of a client. `when_committed` reports its commit."""
        self.used = True
        if self._rests:
            self._wake(client)
        try:
            if keeps_offset:
                appended_batch = append_kept(self.log, batch, header, self.leader_epoch, now_ms)
            else:
                appended_batch = self.log.append(batch, header, self.leader_epoch, now_ms)
        except DiskFull:
            self._note_full_disk()
            raise
        finally:
            if self.log.offline:
                self.take_offline(self.log.offline)
        if self.read_only:
            self._note_space()
        if not appended_batch.duplicate:
            self.traffic.bytes_in += len(batch)
            self.traffic.messages_in += header.record_count
            self._written_for = client
            self._timing.appended(header.record_count)
            for waiter in tuple(self._awaiting_append):
                waiter()
        return appended_batch

    @property
    def acknowledged_end(self) -> int:
        """The end of the acknowledged records, as far as this broker knows."""
        return max(self.log.exposed_offset, min(self.acknowledged, self.log.end_offset))

    def _note_full_disk(self) -> None:
        if not self.read_only:
            self.read_only = True
            log.error(
                "disk full, partition is read-only topic=%s partition=%d", self.topic, self.index
            )

    def _note_space(self) -> None:
        if self.read_only:
            self.read_only = False
            log.warning("partition is writable again topic=%s partition=%d", self.topic, self.index)

    def when_committed(self, end_offset: int, callback: Committed) -> None:
        """Calls back when everything before `end_offset` is committed, or can no longer be."""
        if self.unavailable is not None:
            callback(self.unavailable[0])
        elif not self.leads:
            callback(ErrorCode.not_leader_or_follower)
        elif end_offset <= self.log.exposed_offset:
            callback(self._after_append)
        else:
            self._awaiting_commit.append((end_offset, callback))
            self._timing.soon()

    # Flushing

    def flush(self) -> None:
        """Flushes at the end of this turn of the event loop, with everything that arrives in it."""
        self._timing.soon()

    async def flushed(self) -> None:
        """Waits until no flush is in progress."""
        while self._flushing:  # noqa: ASYNC110  # once, when the partition is closed
            await asyncio.sleep(_GLANCE_SECONDS)

    def _flush_now(self) -> None:
        self._timing.reached()
        if self._flushing or self.unavailable is not None:
            return
        with self.noticing_failure():
            ticket = self.log.begin_flush()
        if ticket is None:
            return
        is_catching_up = self._copied >= _MUCH_COPIED and not self.is_in_sync
        self._flushing = True
        self._timing.records = self._copied = 0
        self._flusher.start(
            ticket,
            lambda seconds: self._flush_ended(ticket, seconds),
            self._written_for,
            catches_up=is_catching_up,
        )

    def _flush_ended(self, ticket: FlushTicket, seconds: float) -> None:
        self._flushing = False
        self._metrics.flush(seconds)
        with self.noticing_failure():
            self.log.complete_flush(ticket)
        self._copies_flushed()
        if self.unavailable is not None:
            return
        self._committed()
        # What came during this flush waits for the next.
        is_awaited = self._awaiting_commit and self.log.flushed_offset < self.log.end_offset
        if is_awaited or self._timing.is_due:
            self._flush_now()
        elif self._timing.records:
            self._timing.later()

    # Files

    def _wake(self, client: Hashable, *, to_read: bool = False) -> None:
        """Called before the log opens files that are closed."""
        self._open_logs.admit(self, client, to_read=to_read)
        self._rests = False

    def rest(self) -> bool:
        """Closes all files until they are needed; returns whether that was possible."""
        self._rests = not self._flushing and self.log.rest()
        return self._rests

    # Reading

    def read(self, offset: int, max_bytes: int, client: Hashable) -> FileSlice | None:
        """Returns exposed batches from `offset` on, or None, as `Log.read` does."""
        self.used = True
        if self._rests or (self._open_logs.is_full and not self.log.is_in_active(offset)):
            self._wake(client, to_read=True)
        return self.log.read(offset, max_bytes)

    def read_for_follower(self, offset: int, max_bytes: int, client: Hashable) -> FileSlice | None:
        """Returns batches from `offset` on, flushed or not; None at the end of the log."""
        self.used = True
        if self._rests or (self._open_logs.is_full and not self.log.is_in_active(offset)):
            self._wake(client, to_read=True)
        return self.log.read(offset, max_bytes, committed=False)

    def watch_end(self, callback: Moved) -> None:
        """Calls back whenever something was appended, or this broker stops leading."""
        self._awaiting_append.add(callback)

    def unwatch_end(self, callback: Moved) -> None:
        self._awaiting_append.discard(callback)

    def offset_for_timestamp(self, timestamp: int, client: Hashable) -> TimestampedOffset | None:
        """Returns the first exposed record with this timestamp or a later one; None if there is
        none."""
        self.used = True
        self._wake(client, to_read=True)
        return self.log.offset_for_timestamp(timestamp)

    def latest_timestamp(self, client: Hashable) -> TimestampedOffset | None:
        """Returns the exposed record with the highest timestamp; None if there is no record."""
        self.used = True
        self._wake(client, to_read=True)
        return self.log.latest_timestamp()

    def watch(self, callback: Moved, *, reads: bool = False) -> None:
        """Calls back whenever more is exposed, or the partition stops being served. With `reads`,
        written records are exposed as soon as possible."""
        self._awaiting_exposure.add(callback)
        if reads:
            self._timing.reads(callback)

    def unwatch(self, callback: Moved) -> None:
        self._awaiting_exposure.discard(callback)
        self._timing.reads_no_more(callback)

    def _wake_watchers(self) -> None:
        for callback in tuple(self._awaiting_exposure):
            callback()
