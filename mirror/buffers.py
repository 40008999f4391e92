"""Memory for what is under way from the source to the target: so much, and no more.

An answer is received into a buffer, and its bytes are what the target is sent. The buffer is free
again when the target has answered. A batch that is larger than a buffer gets memory of its own for
as long as it is under way.
"""

import asyncio
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final, NamedTuple

_USUAL: Final = 4  # buffers of a lane
_FEW: Final = 2  # one is received into while the other is on its way
_SMALL: Final = 256 * 1024  # below which a few are better than many
_LEAST: Final = 8 * 1024
_LARGEST: Final = 4 * 1024 * 1024
_ASIDE: Final = 4  # lanes for partitions that held up others have that part of all


class Portion(NamedTuple):
    """What one lane gets."""

    buffers: int
    size: int


def portion(memory_bytes: int, ways: int, *, aside: bool) -> Portion:
    """Of so much for so many pairs of brokers, each of which may have two lanes. All together have
    no more, as long as there is `_LEAST` for each buffer. Pure."""
    of_aside = memory_bytes // _ASIDE
    room = (of_aside if aside else memory_bytes - of_aside) // max(1, ways)
    buffers = _USUAL if room >= _USUAL * _SMALL else _FEW
    largest = _LARGEST // (_ASIDE if aside else 1)
    return Portion(buffers, min(largest, max(_LEAST, room // buffers)))


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
        if buffer in self._free:  # and two answers would share it
            raise ValueError("this buffer has been given back")
        self._free.append(buffer)
        self._returned.set()

    @property
    def in_use(self) -> int:
        return self._count - len(self._free)
