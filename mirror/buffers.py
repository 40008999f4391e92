"""Memory for what is under way from the source to the target: so much, and no more.

An answer is received into a buffer, and its bytes are what the target is sent. The buffer is free
again when the target has answered. A batch that is larger than a buffer gets memory of its own for
as long as it is under way.
"""

import asyncio
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap


class AnswerBuffer:
    """For one answer at a time."""

    def __init__(self, size: int) -> None:
        # Pages that become memory when they are written first.
        self._room = memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))

    def __call__(self, size: int) -> memoryview:
        if size <= len(self._room):
            return self._room[:size]
        return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))


class AnswerBuffers:
    """So many of them. Belongs to the event loop."""

    def __init__(self, count: int, size: int) -> None:
        self._free = [AnswerBuffer(size) for _ in range(count)]
        self._count = count
        self._returned = asyncio.Event()

    async def take(self) -> AnswerBuffer:
        """One that nothing is in."""
        while not self._free:
            self._returned.clear()
            await self._returned.wait()
        return self._free.pop()

    def give_back(self, buffer: AnswerBuffer) -> None:
        self._free.append(buffer)
        self._returned.set()

    @property
    def in_use(self) -> int:
        return self._count - len(self._free)
