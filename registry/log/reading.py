"""What readers see: the contents as far as the topic was read, and who waits for more of it.

Belongs to the event loop. Contents change between two awaits only, and by whole batches.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from registry.contents import RegistryContents
from registry.log.following import ReadBatch

_GLANCE_SECONDS: Final = 0.1


class TopicReading:
    """`take` and `close` are for the follower's thread, the rest for the loop."""

    def __init__(self, contents: RegistryContents, offset: int, mirrored: str = "") -> None:
        """`mirrored`: the prefix of the topic's subjects, if they are another cluster's."""
        self.contents = contents
        self.offset = offset  # the next to be read
        self._apply_record = (
            partial(contents.apply_mirrored, mirrored) if mirrored else contents.apply
        )
        self._observe: Callable[[ReadBatch], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Callable[[], None], int] = {}
        self._closed = False

    def take(self, stretches: Sequence[ReadBatch]) -> None:
        """Have the loop apply these; called on the follower's thread, returns when it has."""
        taken: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._apply, stretches, taken)
        while not (taken.done() or self._closed):
            with contextlib.suppress(TimeoutError):
                taken.result(_GLANCE_SECONDS)
        if taken.done():
            taken.result()

    def close(self) -> None:
        """Nothing more is taken."""
        self._closed = True

    def watch(self, observe: Callable[[ReadBatch], None] | None) -> None:
        """From now on `observe` sees each batch right after its records were applied."""
        self._observe = observe

    def when_at(self, offset: int, act: Callable[[], None]) -> None:
        """Call `act` once everything below `offset` is read; at once if it is."""
        if offset <= self.offset:
            act()
        else:
            self._waiting[act] = offset

    async def reach(self, offset: int) -> None:
        """Wait until everything below `offset` is read."""
        reached = asyncio.Event()
        self.when_at(offset, reached.set)
        try:
            await reached.wait()
        finally:
            self._waiting.pop(reached.set, None)

    def _apply(self, stretches: Sequence[ReadBatch], taken: "Future[None]") -> None:
        try:
            for stretch in stretches:
                self._apply_one(stretch)
        except Exception as error:  # noqa: BLE001  # the follower's to report, since it ends it
            taken.set_exception(error)
        else:
            taken.set_result(None)

    def _apply_one(self, stretch: ReadBatch) -> None:
        for offset, record in stretch.records:
            self._apply_record(offset, record)
        self.offset = stretch.next_offset
        if self._observe is not None:
            self._observe(stretch)
        for act in [act for act, at in self._waiting.items() if at <= self.offset]:
            del self._waiting[act]
            act()
