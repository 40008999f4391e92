"""Regular work on a broker's logs: writes checkpoints, applies retention, compacts, checks that
files still exist, and closes the files of unused logs.

Each has its interval and its own task, and goes through the partitions one by one, so that clients
are served in between. A failure for one partition is logged and retried at the next interval. A
crash loses nothing but the work since the last checkpoint.

Moving a log's recovery point costs half a dozen flushes: of its indexes, of a snapshot, of names.
So each checkpoint does this for only a part of the logs in turn, and for all that have written much
since their recovery point.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from broker.configs.config import Intervals
from broker.replicas.cleaner_process import clean_in_process
from broker.replicas.data_directory import Checkpoint, DataDirectory
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.storage.compaction import compact
from broker.storage.directory.acknowledged import AcknowledgedFile
from broker.storage.errors import StorageError
from broker.storage.retention import RetentionClock

log = logging.getLogger(__name__)

_REST_SECONDS = 60.0  # in which a log is unused before its files are closed
_TURNS = 12  # each log's turn comes at one of this many checkpoints


class Housekeeping:
    """Runs the regular work, from its creation until `stop`."""

    def __init__(
        self,
        partitions: Partitions,
        data: DataDirectory,
        acknowledged: AcknowledgedFile,
        intervals: Intervals,
        *,
        on_lost: Callable[[str], None],
    ) -> None:
        """`on_lost` is called if the whole data directory is gone."""
        self._partitions = partitions
        self._data = data
        self._acknowledged = acknowledged
        self._on_lost = on_lost
        self._turn = 0
        self._loop = asyncio.get_running_loop()
        # Separate from the threads that wait for ZooKeeper.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._clock = RetentionClock(_wall_ms(), _monotonic_ms(), data.last_alive_ms)
        self._compaction = Compaction(partitions, data)
        self._tasks = [
            asyncio.ensure_future(_every(seconds, action))
            for seconds, action in (
                (intervals.checkpoint, self._checkpoint),
                (intervals.retention, self._retain),
                (intervals.compaction, self._compact),
                (_REST_SECONDS, self._rest),
            )
        ]

    async def stop(self) -> None:
        """Ends all tasks, and abandons a compaction in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown()

    async def _checkpoint(self) -> None:
        if not self._data.is_there():
            self._on_lost(
                f"{self._data.path} was removed or replaced while the broker ran: its writes "
                "would be lost. Is its disk still mounted?"
            )
            return
        await self._partitions.look_for_removed()
        self._data.note_alive()
        now_ms = _wall_ms()
        checkpoints = {}
        self._turn = (self._turn + 1) % _TURNS
        for partition in self._partitions:
            if partition.log.offline:
                partition.take_offline(partition.log.offline)
            if partition.unavailable is None:
                key, log_ = (partition.topic, partition.index), partition.log
                is_turn = hash(key) % _TURNS == self._turn
                checkpoint = log_.checkpoint(now_ms, is_turn=is_turn)
                checkpoints[key] = Checkpoint(*checkpoint, log_.exposed_offset)
                partition.flush()  # moves the recovery point that the next checkpoint writes
                await asyncio.sleep(0)
        for key in self._partitions.offline:
            checkpoints[key] = self._data.checkpoint(key)
        await self._loop.run_in_executor(self._thread, self._data.write_checkpoints, checkpoints)
        await self._loop.run_in_executor(self._thread, self._acknowledged.sync)

    async def _retain(self) -> None:
        hold_reason = self._clock.hold(_wall_ms(), _monotonic_ms())
        now_ms = 0 if hold_reason else _wall_ms()  # at time 0 nothing is old, and size still counts
        for partition in self._partitions:
            if partition.unavailable is not None:
                continue
            try:
                with partition.noticing_failure() as log_:
                    removed_bases = log_.expire(now_ms)
            except StorageError as error:
                log.warning(
                    "retention failed topic=%s partition=%d error=%r",
                    partition.topic,
                    partition.index,
                    str(error),
                )
                continue
            if removed_bases:
                log.info(
                    "segments expired topic=%s partition=%d count=%d start_offset=%d",
                    partition.topic,
                    partition.index,
                    len(removed_bases),
                    partition.log.start_offset,
                )
                partition.flush()  # unlinks them
            await asyncio.sleep(0)

    async def _rest(self) -> None:
        self._partitions.rest_unused()

    async def _compact(self) -> None:
        if not self._clock.hold(_wall_ms(), _monotonic_ms()):  # tombstones are removed by their age
            await self._compaction.run(_wall_ms())


class Compaction:
    """Compacts the logs of topics whose configs demand it, one after the other, each in a separate
    process. Belongs to the event loop.

    The data directory records up to where a log was cleaned. Losing that costs an unnecessary
    cleaning.
    """

    def __init__(self, partitions: Partitions, data: DataDirectory) -> None:
        self._partitions = partitions
        self._data = data

    async def run(self, now_ms: int) -> None:
        for partition in self._partitions:
            if partition.compacts and not partition.offline_reason:
                await self._clean(partition, now_ms)

    async def _clean(self, partition: Partition, now_ms: int) -> None:
        key = partition.topic, partition.index
        try:
            first_dirty = self._data.cleaned(key)
            with partition.noticing_failure() as log_:
                cleaning = await compact(log_, first_dirty, now_ms, clean_in_process)
        except (StorageError, OSError) as error:
            log.warning(
                "compaction failed topic=%s partition=%d error=%r", *key, str(error) or error
            )
            return
        except Exception:  # the others are compacted all the same
            log.exception("compaction failed topic=%s partition=%d", *key)
            return
        if cleaning is None:
            return
        log.info("log compacted topic=%s partition=%d counts=%s", *key, cleaning.counts)
        self._data.note_cleaned(key, cleaning.cleaned_to)
        current_keys = {(partition.topic, partition.index) for partition in self._partitions}
        await asyncio.to_thread(self._data.write_cleaned, current_keys)
        if not partition.offline_reason:
            partition.flush()  # unlinks what was replaced


async def _every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await act()
        except OSError as error:  # such as a full disk
            log.error("housekeeping failed, retrying later error=%r", str(error))
        except Exception:
            log.exception("housekeeping failed, retrying later")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
