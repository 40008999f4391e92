"""A log that follows, as a partition has it: on disk, flushed and truncated by threads."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.storage.config import LogConfig
from broker.storage.log import Log
from tests.broker.storage.log_files import NOW, TOPIC_ID, flush, read_on
from wire.record_batches.batch import BatchHeader


class FollowedLog:
    """What a follower does to a log, and what it has done."""

    def __init__(self, home: Path, topic: str = "t", index: int = 0) -> None:
        self.topic = topic
        self.index = index
        self.log = Log.create(home / f"{topic}-{index}", TOPIC_ID, LogConfig())
        self.said: list[tuple[int, int]] = []
        self.flushes = 0
        self.disk = threading.Event()  # whether it does anything
        self.disk.set()
        self.bug: Exception | None = None
        self.is_in_sync = True
        self.copies_throttled = False

    def copy(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        if self.bug is not None:
            raise self.bug
        at = 0
        for header in headers:
            self.log.append_copy(batches[at : at + header.size], header, now_ms)
            at += header.size
        assert at == len(batches)

    def leader_said(self, high_watermark: int, log_start_offset: int) -> None:
        self.said.append((high_watermark, log_start_offset))
        self.log.replicated(high_watermark)

    async def truncate(self, offset: int) -> None:
        await asyncio.to_thread(self.log.truncate, offset, NOW)

    async def begin_anew(self, offset: int) -> None:
        await asyncio.to_thread(self.log.begin_anew, offset, NOW)

    async def flushed_copy(self) -> None:
        if self.log.flushed_offset == self.log.end_offset:
            return
        await asyncio.to_thread(self.disk.wait, 60)
        await asyncio.to_thread(flush, self.log)
        self.flushes += 1


def contents(followed: FollowedLog) -> list[bytes]:
    """What it has, whether it shows that or not."""
    followed.log.replicated(float("inf"))
    return [data for _, data in read_on(followed.log, followed.log.start_offset)]


def has(followed: FollowedLog, offset: int) -> Callable[[], bool]:
    return lambda: followed.log.flushed_offset == followed.log.end_offset == offset
