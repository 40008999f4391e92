"""Copies one partition from its leader, whichever broker that is.

When a leader is asked, the log is flushed to its end: appended batches are flushed first, and only
then are more requested. The log does one thing at a time: appending and flushing, or truncating.
That is completed before the next leader is asked.

A failed operation is retried after a pause; its reason is logged once, and again when it changes.

Specified in docs/replication-spec.md: `SendFetch`, `ReceiveAnswer` (R2, R8).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Protocol

from broker.errors import ApiError
from broker.replication.copied_batches import BadCopy, Overlaps, checked_runs
from broker.storage.directory.checkpoints import Key
from broker.storage.errors import StorageError
from broker.storage.log import Log
from client.patience import Pauses
from client.reading.fetch_session import FetchPosition
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.messages.fetch import EpochEndOffset, PartitionData
from wire.record_batches.batch import BatchHeader

log = logging.getLogger(__name__)

_PASSING_SECONDS: Final = 5.0
_USUAL_SETBACKS: Final = 8  # differing epochs in a row, after which it pauses between attempts


class FollowedPartition(Protocol):
    """The operations of a follower on its log."""

    @property
    def topic(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def log(self) -> Log: ...

    @property
    def is_in_sync(self) -> bool:
        """Whether the map lists this replica as in sync."""
        ...

    @property
    def copies_throttled(self) -> bool:
        """Whether the replica's copying counts against the throttle for moved replicas."""
        ...

    def copy(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Appends consecutive checked batches of the leader."""

    def leader_said(self, high_watermark: int, log_start_offset: int) -> None:
        """Applies the committed offset and start offset of the leader's answer."""

    async def truncate(self, offset: int) -> None:
        """Removes everything from this offset on."""

    async def begin_anew(self, offset: int) -> None:
        """Removes everything; the next record has this offset."""

    async def flushed_copy(self) -> None:
        """Waits until everything appended is on disk; raises if flushing fails."""


class NotCopied(Exception):
    """Raised when a partition cannot be copied at the moment, with the reason."""


class Refused(NotCopied):
    """Raised when the leader rejects a request, usually because one of the two brokers does not
    know a new leader yet."""


class CopiedPartition:
    """A partition that this broker copies from its leader. Belongs to the event loop."""

    __slots__ = (
        "_ill_since", "_loop", "_pause", "_pauses", "_resumed", "_said", "_setbacks", "_work",
        "bytes_at_work", "bytes_copied", "high_watermark", "hungry", "key", "leader_epoch",
        "partition", "trouble",
    )  # fmt: skip

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.key: Key = partition.topic, partition.index
        self.leader_epoch = -1
        self.high_watermark = -1  # the leader's
        self.bytes_copied = 0
        self.bytes_at_work = 0  # bytes of an answer, until they are flushed
        self.hungry = True  # the last answer had about as many bytes as requested
        self.trouble = ""  # why it is not copied
        self._said = ""  # the reason that was logged
        self._ill_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[None] | None = None
        self._pauses = Pauses()
        self._setbacks = 0  # without anything between them
        self._pause: asyncio.TimerHandle | None = None
        self._resumed: Callable[[], None] | None = None

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - self.partition.log.flushed_offset)

    # Called by the link

    def follow(self, leader_epoch: int, resumed: Callable[[], None]) -> None:
        """Copies from the leader of this epoch. Calls `resumed` when the leader may be asked
        again."""
        self.leave()
        self.leader_epoch = leader_epoch
        self._resumed = resumed
        self._pauses.reset()
        if self._work is None:
            self._begin(self.partition.flushed_copy())

    def leave(self) -> None:
        """Stops copying, after the operation in progress."""
        self.leader_epoch = -1
        self._resumed = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def rest(self, seconds: float) -> None:
        """Pauses requests for the partition, unless another broker becomes the leader."""
        if self._resumed is not None:
            self._pause = self._loop.call_later(seconds, self._resumed)

    async def idle(self) -> None:
        while self._work is not None:
            await asyncio.wait([self._work])

    @property
    def is_at_work(self) -> bool:
        return self._work is not None

    def wanted(self, max_bytes: int) -> FetchPosition:
        partition_log = self.partition.log
        end = partition_log.flushed_offset
        epoch = partition_log.epochs.epoch_for(end - 1) if end > partition_log.start_offset else -1
        return FetchPosition(self.leader_epoch, end, epoch, partition_log.start_offset, max_bytes)

    # The leader's answer

    async def take(self, data: PartitionData, asked: FetchPosition) -> bool:
        """Processes the leader's answer. Returns whether an operation began, which calls `resumed`
        at its end. The answer's bytes are not needed after the return."""
        if asked.offset != self.partition.log.end_offset:
            self._begin(self.partition.flushed_copy())
        elif data.error_code is ErrorCode.offset_out_of_range:
            self._begin(self._align_with_leader(data))
        elif data.error_code is not ErrorCode.none:
            code = data.error_code.name.replace("_", " ")
            self._begin(_fail(Refused(f"the leader answered {code}")))
        elif data.diverging_epoch.end_offset >= 0:
            self._begin(self._truncate_to_common(data.diverging_epoch))
        else:
            return await self._extend(data, asked)
        return True

    async def _extend(self, data: PartitionData, asked: FetchPosition) -> bool:
        assert not isinstance(data.records, FileSlice)  # those only end the copying
        records = memoryview(data.records or b"")
        self.high_watermark = data.high_watermark
        self.hungry = 2 * len(records) >= asked.max_bytes
        try:
            self.partition.leader_said(data.high_watermark, data.log_start_offset)
        except (StorageError, ApiError) as error:
            self._begin(_fail(error))
            return True
        if not records:
            self._note_success()
            return False
        self.bytes_at_work = len(records)
        append_event = asyncio.Event()
        self._begin(self._append_and_flush(records, asked, append_event))
        await append_event.wait()
        return True

    async def _append_and_flush(
        self, records: memoryview, asked: FetchPosition, appended: asyncio.Event
    ) -> None:
        """Batches appended before an error are flushed all the same."""
        problem: Exception | None = None
        try:
            try:
                await self._append(records, asked)
            except Overlaps as overlap:
                await self._go_back(overlap.base, str(overlap))
                await self._append(records, self.wanted(asked.max_bytes))
        except Exception as error:  # noqa: BLE001 it is raised when that is on disk
            problem = error
        finally:
            appended.set()
        await self.partition.flushed_copy()
        if problem is not None:
            raise problem
        self._note_success()

    async def _append(self, records: memoryview, asked: FetchPosition) -> None:
        now_ms = time.time_ns() // 1_000_000
        for run in checked_runs(records, asked.offset, asked.last_epoch, asked.leader_epoch):
            if self.leader_epoch != asked.leader_epoch:
                return
            self.partition.copy(run.data, run.headers, now_ms)
            self.bytes_copied += len(run.data)
            await asyncio.sleep(0)

    # Truncating

    async def _truncate_to_common(self, theirs: EpochEndOffset) -> None:
        """The histories differ: truncate to the end of the last epoch that both have."""
        partition_log = self.partition.log
        _, own_end = partition_log.epochs.end_offset_for(theirs.epoch, partition_log.end_offset)
        offset = theirs.end_offset if own_end < 0 else min(theirs.end_offset, own_end)
        await self._go_back(
            offset, f"epoch {theirs.epoch} ends at {theirs.end_offset} at the leader"
        )

    async def _align_with_leader(self, data: PartitionData) -> None:
        """The leader's log does not include this one's end: begin at the leader's start, or
        truncate to what is committed."""
        partition_log, start = self.partition.log, data.log_start_offset
        if start < 0:
            raise NotCopied(
                f"the leader does not have offset {partition_log.end_offset}, and gave no start "
                "offset"
            )
        if (
            partition_log.start_offset < partition_log.end_offset
            and start <= partition_log.end_offset
        ):
            await self._go_back(
                max(start, data.high_watermark),
                f"the leader has no offset {partition_log.end_offset}",
            )
        elif start != partition_log.end_offset:
            log.warning(
                "log emptied topic=%s partition=%d offset=%d reason=%r",
                *self.key, start, f"the leader has no offset {partition_log.end_offset}",
            )  # fmt: skip
            self._check_epoch()
            self._setbacks += 1
            await self.partition.begin_anew(start)
        else:
            raise NotCopied(
                f"the leader's log starts at offset {start}, and lacks the requested offset"
            )

    async def _go_back(self, offset: int, why: str) -> None:
        partition_log = self.partition.log
        end, exposed_offset = partition_log.end_offset, partition_log.exposed_offset
        self._check_epoch()
        if offset >= end:
            raise NotCopied(f"{why}, but this broker's log ends at {end}")
        self._setbacks += 1
        if partition_log.start_offset == end:
            await self.partition.begin_anew(offset)
        else:
            await self.partition.truncate(offset)
        log.warning(
            "log truncated topic=%s partition=%d from=%d to=%d exposed=%d reason=%r",
            *self.key, end, partition_log.end_offset, exposed_offset, why,
        )  # fmt: skip

    def _check_epoch(self) -> None:
        """Truncate nothing for a leader that has been succeeded: that one is behind."""
        own_epoch = self.partition.log.epochs.latest
        if own_epoch > self.leader_epoch:
            raise NotCopied(
                f"the log has batches of epoch {own_epoch}, which is later than the leader's"
            )

    # One thing at a time

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        assert self._work is None, f"{self.key}: two operations at a time"
        self._work = self._loop.create_task(self._run_once(work))

    async def _run_once(self, work: Coroutine[None, None, None]) -> None:
        pause = 0.0
        try:
            await work
            if self._setbacks > _USUAL_SETBACKS:
                pause = self._pauses.next()
        except (BadCopy, NotCopied, StorageError, ApiError, OSError) as error:
            pause = self._note_trouble(str(error), passing=isinstance(error, Refused))
        except Exception as error:  # a bug of ours: the other partitions are copied all the same
            log.exception("not copied topic=%s partition=%d", *self.key)
            pause = self._note_trouble(repr(error), passing=False)
        finally:
            self._work = None
            self.bytes_at_work = 0
        if self._resumed is None:
            return
        if pause:
            self._pause = self._loop.call_later(pause, self._try_again)
        else:
            self._resumed()

    def _try_again(self) -> None:
        """Nothing is fetched while the log cannot be written to."""
        self._begin(self.partition.flushed_copy())

    def _note_trouble(self, reason: str, *, passing: bool) -> float:
        """The pause before the next attempt. Passing problems are logged only if they last."""
        now = self._loop.time()
        if not self.trouble:
            self._ill_since = now
        self.trouble = reason
        if reason != self._said and not (passing and now - self._ill_since < _PASSING_SECONDS):
            self._said = reason
            log.warning("cannot copy topic=%s partition=%d reason=%r", *self.key, reason)
        return self._pauses.next()

    def _note_success(self) -> None:
        if self._said:
            log.info("copying resumed topic=%s partition=%d", *self.key)
        self.trouble = self._said = ""
        self._setbacks = 0
        self._pauses.reset()


async def _fail(error: Exception) -> None:
    raise error
