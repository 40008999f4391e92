"""Large batches, looked through beside everything else that a broker does.

One at a time, so that at most one is in memory unpacked. It is unpacked and walked over on a
thread, which does not hold the interpreter. Where there is only aiokafka's parser (`NATIVE` is
false), the records are looked through piece by piece on the event loop, in turns with all who wait
for it: a thread that parsed them would hold the interpreter, and so the loop, for longer.
"""

import asyncio
from collections.abc import Coroutine
from typing import Final

from wire.batch import check_batch
from wire.large_batches import LargeBatch, unpack_large, walk_large
from wire.produce import PartitionBatch
from wire.record_check import NATIVE, RecordCheck

UNPACKED_LIMIT: Final = 64 * 1024 * 1024  # what compaction will unpack as well
# What is no larger may lie in the buffer that all connections receive into.
_SHARED_BUFFER: Final = 64 * 1024


def kept(batches: list[PartitionBatch]) -> list[PartitionBatch]:
    """The batches, in memory that is theirs as long as their connection waits for them."""
    return [
        batch._replace(records=memoryview(bytearray(batch.records)))
        if batch.records is not None and len(batch.records) <= _SHARED_BUFFER
        else batch
        for batch in batches
    ]


class LargeChecks:
    """Belongs to the event loop. `at_once` is what looks through small ones."""

    def __init__(self, at_once: RecordCheck) -> None:
        self._at_once = at_once
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Let the rest of a request be worked on."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def check(self, batch: memoryview, *, keyed: bool) -> None:
        """Raise `BatchError` if the batch's records are not what they must be."""
        header = check_batch(batch)
        async with self._one:
            if NATIVE:
                await asyncio.to_thread(walk_large, batch, header, UNPACKED_LIMIT, keyed=keyed)
                return
            plain = await asyncio.to_thread(unpack_large, batch, header, UNPACKED_LIMIT)
            large = LargeBatch(plain, header, keyed=keyed, allows=self._at_once.allows)
            for _ in large.check():
                await asyncio.sleep(0)
