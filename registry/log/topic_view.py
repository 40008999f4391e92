"""The readers' view: the contents up to the offset that was read, and tasks waiting for more.

Belongs to the event loop. Contents change only between two awaits, and by whole batches.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from registry.log.topic_follower import ReadBatch
from registry.schemas_topic.contents import RegistryContents

_GLANCE_SECONDS: Final = 0.1


class TopicView:
    """The contents as this registry's readers see them. The follower's thread calls `take` and
    `close`; the rest belongs to the loop."""

    def __init__(self, contents: RegistryContents, offset: int, mirrored: str = "") -> None:
        """`mirrored`: the subjects' prefix, if they belong to another cluster."""
        self.contents = contents
        self.offset = offset  # the next to be read
        self._apply_record = (
            partial(contents.apply_mirrored, mirrored) if mirrored else contents.apply
        )
        self._observe: Callable[[ReadBatch], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Callable[[], None], int] = {}
        self._closed = False

    def take(self, batches: Sequence[ReadBatch]) -> None:
        """Applies batches on the loop, and returns when that is done. Called on the follower's
        thread."""
        applied_future: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._apply, batches, applied_future)
        while not (applied_future.done() or self._closed):
            with contextlib.suppress(TimeoutError):
                applied_future.result(_GLANCE_SECONDS)
        if applied_future.done():
            applied_future.result()

    def close(self) -> None:
        """Takes no more batches."""
        self._closed = True

    def watch(self, observe: Callable[[ReadBatch], None] | None) -> None:
        """Calls `observe` with each batch from now on, right after its records were applied."""
        self._observe = observe

    def when_at(self, offset: int, act: Callable[[], None]) -> None:
        """Calls `act` once everything below `offset` is read, at once if it already is."""
        if offset <= self.offset:
            act()
        else:
            self._waiting[act] = offset

    async def reach(self, offset: int) -> None:
        """Waits until everything below `offset` is read."""
        reached_event = asyncio.Event()
        self.when_at(offset, reached_event.set)
        try:
            await reached_event.wait()
        finally:
            self._waiting.pop(reached_event.set, None)

    def _apply(self, batches: Sequence[ReadBatch], applied_future: "Future[None]") -> None:
        try:
            for batch in batches:
                self._apply_batch(batch)
        except Exception as error:  # noqa: BLE001  # the follower reports it, and ends
            applied_future.set_exception(error)
        else:
            applied_future.set_result(None)

    def _apply_batch(self, batch: ReadBatch) -> None:
        for offset, record in batch.records:
            self._apply_record(offset, record)
        self.offset = batch.next_offset
        if self._observe is not None:
            self._observe(batch)
        for act in [
            act for act, task_offset in self._waiting.items() if task_offset <= self.offset
        ]:
            del self._waiting[act]
            act()
