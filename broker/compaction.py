"""Compacts the logs of topics that ask for it, one after the other, each in a process of its own.

Up to where a log was cleaned is written down in the data directory. Losing that costs a cleaning
that need not have been.
"""

import asyncio
import logging

from broker.cleaner_process import clean_in_process
from broker.data_directory import DataDirectory
from broker.partition import Partition
from broker.partitions import Partitions
from broker.storage.compaction import compact
from broker.storage.errors import StorageError

log = logging.getLogger(__name__)


class Compaction:
    """Goes round the partitions whenever it is told to. Belongs to the event loop."""

    def __init__(self, partitions: Partitions, data: DataDirectory) -> None:
        self._partitions = partitions
        self._data = data

    async def run(self, now_ms: int) -> None:
        """Clean every log for which that is due."""
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
        except Exception:  # the others are to be compacted all the same
            log.exception("compaction failed topic=%s partition=%d", *key)
            return
        if cleaning is None:
            return
        log.info("log compacted topic=%s partition=%d counts=%s", *key, cleaning.counts)
        self._data.note_cleaned(key, cleaning.cleaned_to)
        known = {(each.topic, each.index) for each in self._partitions}
        await asyncio.to_thread(self._data.write_cleaned, known)
        if not partition.offline_reason:
            partition.flush()  # unlinks what was replaced
