"""A bounded amount of memory for data in transit from source to target.

A response is received into a buffer, and its bytes are sent to the target from there. The buffer is
free again once the target has answered. A batch larger than a buffer gets its own memory while it
is in transit.
"""

import asyncio
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final, NamedTuple

_USUAL: Final = 4  # buffers per lane
_FEW: Final = 2  # one receives while the other is being sent
_SMALL: Final = 256 * 1024  # below this, fewer and larger buffers are better
_LEAST: Final = 8 * 1024
_LARGEST: Final = 4 * 1024 * 1024
_ASIDE: Final = 4  # lanes for slow partitions get this fraction of the memory


class Portion(NamedTuple):
    """The number and size of the buffers of one lane."""

    buffers: int
    size: int


def portion(memory_bytes: int, ways: int, *, aside: bool) -> Portion:
    """The share of one lane, for this many pairs of brokers with up to two lanes each. The total
    stays within the limit as long as each buffer has `_LEAST`. Pure."""
    aside_bytes = memory_bytes // _ASIDE
    lane_bytes = (aside_bytes if aside else memory_bytes - aside_bytes) // max(1, ways)
    buffers = _USUAL if lane_bytes >= _USUAL * _SMALL else _FEW
    largest_buffer = _LARGEST // (_ASIDE if aside else 1)
    return Portion(buffers, min(largest_buffer, max(_LEAST, lane_bytes // buffers)))


class AnswerBuffer:
    """Memory for one response at a time."""

    def __init__(self, size: int) -> None:
        # Pages become memory when they are first written.
        self._memory = memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))

    def __call__(self, size: int) -> memoryview:
        if size <= len(self._memory):
            return self._memory[:size]
        return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))


class AnswerBuffers:
    """A fixed number of buffers. Belongs to the event loop."""

    def __init__(self, count: int, size: int) -> None:
        self._free = [AnswerBuffer(size) for _ in range(count)]
        self._count = count
        self._returned = asyncio.Event()

    async def take(self) -> AnswerBuffer:
        """Takes a free buffer, waiting for one if necessary."""
        while not self._free:
            self._returned.clear()
            await self._returned.wait()
        return self._free.pop()

    def give_back(self, buffer: AnswerBuffer) -> None:
        if buffer in self._free:  # two responses would share it
            raise ValueError("the buffer was already returned")
        self._free.append(buffer)
        self._returned.set()

    @property
    def in_use(self) -> int:
        return self._count - len(self._free)
