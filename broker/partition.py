"""A partition that this broker leads: its log, when that is flushed, and who waits for it.

Invariants: consumers are shown nothing above `log.exposed_offset`, which only a finished flush
moves. A producer that asked for it is answered only when its batch, or the original of its
duplicate, has been flushed. A flush that failed takes the partition offline until the broker is
started again: what the kernel did with those pages cannot be known, so it is never retried.
Everyone who waits is answered, whatever becomes of the partition. A `client` is told from others by
its value: whose the files are, and whose turn it is to have them flushed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from broker.errors import ApiError
from broker.flusher import Flusher
from broker.metrics import BrokerMetrics, TopicTraffic
from broker.open_files import OpenLogs
from broker.storage.errors import DiskFull
from broker.storage.flush import FlushTicket
from broker.storage.log import Appended, Log
from broker.storage.timestamps import TimestampedOffset
from broker.topic_config import TopicConfig
from wire.batch import BatchHeader
from wire.errors import ErrorCode
from wire.slices import FileSlice

log = logging.getLogger(__name__)

_LONGEST_FLUSH_TIMER = 1e6  # seconds; Kafka writes "never" as 2⁶³−1
_GLANCE_SECONDS = 0.005

Flushed = Callable[[ErrorCode], None]
Exposed = Callable[[], None]


class Partition:
    """One replica, and since it is the only one, the leader. Belongs to the event loop.

    `unavailable` is why it is not served: `(code for clients, reason for people)`, or None.
    """

    __slots__ = (
        "_awaiting_exposure", "_awaiting_flush", "_ended", "_flush_messages", "_flush_seconds",
        "_flush_soon", "_flush_timer", "_flusher", "_flushing", "_loop", "_metrics",
        "_open_logs", "_rests", "_unflushed", "_written_for", "compacts", "config", "index",
        "leader_epoch", "log", "max_message_bytes", "min_insync_replicas", "read_only",
        "stamps_append_time", "timestamp_after_max_ms", "timestamp_before_max_ms", "topic",
        "traffic", "unavailable", "used",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        partition_log: Log,
        config: TopicConfig,
        leader_epoch: int,
        *,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher,
        metrics: BrokerMetrics,
        open_logs: OpenLogs,
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called once, when it is served no more."""
        self.topic = topic
        self.index = index
        self.log = partition_log
        self.configure(config)
        self.leader_epoch = leader_epoch
        self.unavailable: tuple[ErrorCode, str] | None = None
        self.read_only = False
        self.traffic: TopicTraffic = metrics.topic(topic)
        self._loop = loop
        self._flusher = flusher
        self._metrics = metrics
        self._open_logs = open_logs
        self._ended = ended
        self._rests = True  # the log has no file open
        self.used = False  # read or appended to, since `open_logs` has last looked
        self._flushing = False
        self._flush_soon = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._unflushed = 0  # records
        self._written_for: Hashable = None  # the client who did so last
        self._awaiting_flush: deque[tuple[int, Flushed]] = deque()  # of which offset
        self._awaiting_exposure: set[Exposed] = set()

    def configure(self, config: TopicConfig) -> None:
        """Go by `config` from now on. What every append asks for is read out of it once."""
        self.config = config
        self.compacts = config.compacts
        self.max_message_bytes = config.max_message_bytes
        self.min_insync_replicas = config.min_insync_replicas
        self.stamps_append_time = config.stamps_append_time
        self.timestamp_before_max_ms = config.timestamp_before_max_ms
        self.timestamp_after_max_ms = config.timestamp_after_max_ms
        self._flush_messages = config.number("flush.messages")
        self._flush_seconds = min(config.number("flush.ms") / 1000, _LONGEST_FLUSH_TIMER)
        self.log.reconfigure(config.log_config())

    # Whether it is served

    @property
    def offline_reason(self) -> str:
        """Why it is not served; empty if it is."""
        return "" if self.unavailable is None else self.unavailable[1]

    def check_available(self) -> None:
        """Raise unless the partition is served."""
        if self.unavailable is not None:
            raise ApiError(*self.unavailable)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker may answer for the partition, at the epoch the client knows."""
        self.check_available()
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            code = (
                ErrorCode.fenced_leader_epoch
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )
            raise ApiError(code, f"the leader epoch is {self.leader_epoch}")

    @contextmanager
    def noticing_failure(self) -> Iterator[Log]:
        """The log, for whatever may fail it; if it did, the partition is taken offline."""
        try:
            yield self.log
        finally:
            if self.log.offline:
                self.take_offline(self.log.offline)

    def take_offline(self, reason: str) -> None:
        """Serve this partition no more; whoever waits for it is told."""
        if self.unavailable is None:
            log.error(
                "partition offline topic=%s partition=%d reason=%r", self.topic, self.index, reason
            )
            self.log.fail(reason)
            self._end(
                ErrorCode.kafka_storage_error, f"{self.topic}-{self.index} is offline: {reason}"
            )

    def close(self) -> None:
        """Stop serving because the partition is no more to be here, or the broker stops."""
        if self.unavailable is None:
            self._end(
                ErrorCode.not_leader_or_follower, f"{self.topic}-{self.index} is served no more"
            )

    def _end(self, code: ErrorCode, reason: str) -> None:
        self.unavailable = code, reason
        self._open_logs.forget(self)
        self._ended()
        self._cancel_timer()
        waiting, self._awaiting_flush = self._awaiting_flush, deque()
        for _, callback in waiting:
            callback(code)
        self._wake_watchers()

    # Appending

    def append(
        self, batch: memoryview, header: BatchHeader, now_ms: int, client: Hashable
    ) -> Appended:
        """Write one checked batch of a client's. It is on disk only when `when_flushed` says so."""
        self.used = True
        if self._rests:
            self._wake(client)
        try:
            appended = self.log.append(batch, header, self.leader_epoch, now_ms)
        except DiskFull:
            if not self.read_only:
                self.read_only = True
                log.error("disk full, read-only topic=%s partition=%d", self.topic, self.index)
            raise
        finally:
            if self.log.offline:
                self.take_offline(self.log.offline)
        if self.read_only:
            self.read_only = False
            log.warning("writable again topic=%s partition=%d", self.topic, self.index)
        if not appended.duplicate:
            self.traffic.bytes_in += len(batch)
            self.traffic.messages_in += header.record_count
            self._unflushed += header.record_count
            self._written_for = client
            if self._unflushed >= self._flush_messages:
                self.flush()
            elif self._flush_timer is None and not self._flush_soon:
                self._flush_timer = self._loop.call_later(self._flush_seconds, self._flush_now)
        return appended

    def when_flushed(self, end_offset: int, callback: Flushed) -> None:
        """Call back when everything before `end_offset` is on disk, or never will be."""
        if self.unavailable is not None:
            callback(self.unavailable[0])
        elif end_offset <= self.log.flushed_offset:
            callback(ErrorCode.none)
        else:
            self._awaiting_flush.append((end_offset, callback))
            self.flush()

    # Flushing

    def flush(self) -> None:
        """Flush when this turn of the event loop is over, with all that arrives in it."""
        if not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush_now)

    async def flushed(self) -> None:
        """Return when no flush is under way."""
        while self._flushing:  # noqa: ASYNC110  # once, when the partition is closed
            await asyncio.sleep(_GLANCE_SECONDS)

    def _flush_now(self) -> None:
        self._flush_soon = False
        self._cancel_timer()
        if self._flushing or self.unavailable is not None:
            return
        with self.noticing_failure():
            ticket = self.log.begin_flush()
        if ticket is None:
            return
        self._flushing = True
        self._unflushed = 0
        self._flusher.start(
            ticket, lambda seconds: self._flush_ended(ticket, seconds), self._written_for
        )

    def _flush_ended(self, ticket: FlushTicket, seconds: float) -> None:
        self._flushing = False
        self._metrics.flush(seconds)
        with self.noticing_failure():
            self.log.complete_flush(ticket)
        if self.unavailable is not None:
            return
        flushed, waiting = self.log.flushed_offset, self._awaiting_flush
        while waiting and waiting[0][0] <= flushed:
            waiting.popleft()[1](ErrorCode.none)
        self._wake_watchers()
        # What came while this flush was under way waits for the next.
        if waiting or self._unflushed >= self._flush_messages:
            self._flush_now()
        elif self._unflushed and self._flush_timer is None:
            self._flush_timer = self._loop.call_later(self._flush_seconds, self._flush_now)

    def _cancel_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # Files

    def _wake(self, client: Hashable, *, to_read: bool = False) -> None:
        """Before the log opens files that it has not open."""
        self._open_logs.admit(self, client, to_read=to_read)
        self._rests = False

    def rest(self) -> bool:
        """Close all files until they are needed; whether that could be done."""
        self._rests = not self._flushing and self.log.rest()
        return self._rests

    # Reading

    def read(self, offset: int, max_bytes: int, client: Hashable) -> FileSlice | None:
        """Exposed batches from `offset` on, as `Log.read` gives them."""
        self.used = True
        if self._rests or (self._open_logs.is_full and not self.log.is_in_active(offset)):
            self._wake(client, to_read=True)
        return self.log.read(offset, max_bytes)

    def offset_for_timestamp(self, timestamp: int, client: Hashable) -> TimestampedOffset | None:
        """As `Log.offset_for_timestamp` finds it."""
        self.used = True
        self._wake(client, to_read=True)
        return self.log.offset_for_timestamp(timestamp)

    def latest_timestamp(self, client: Hashable) -> TimestampedOffset | None:
        """As `Log.latest_timestamp` finds it."""
        self.used = True
        self._wake(client, to_read=True)
        return self.log.latest_timestamp()

    def watch(self, callback: Exposed) -> None:
        """Call back whenever more is exposed, or the partition is served no more."""
        self._awaiting_exposure.add(callback)

    def unwatch(self, callback: Exposed) -> None:
        self._awaiting_exposure.discard(callback)

    def _wake_watchers(self) -> None:
        for callback in tuple(self._awaiting_exposure):
            callback()
