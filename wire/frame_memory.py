"""Memory for requests that have not arrived whole: bounded over all connections, shared fairly.

    buffers    `limit` bytes, for frames whose beginning has come; and one frame beyond that
    kept       a quarter of it, for what was received before there was a buffer for it
    pool       buffers that are used again, 16 MiB at most

Rule 1: bytes are counted that have come, or for which there is room; announcing costs nothing.
        Large frames are received into mappings of their own: of these only what has been received
        takes memory, and what is not pooled goes back to the system with the frame.
Rule 2: one address has at most half of it, and frames above a megabyte three quarters of that and
        of all, so that the frames of others, and the usual ones, still find room.
Rule 3: when there is no room, one frame at a time may go beyond the limit until it is whole, so
        frames never wait for each other; what it has beyond is not taken from the others' room.
        The others wait; each address in turn.
Rule 4: who has no room is closed where even what must be kept has come to its bound.
"""

from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Protocol

from wire.errors import ProtocolError

Buffer = bytearray | mmap

SHARED_BUFFER = 64 * 1024  # that all connections receive into: no larger frame lies in there
SMALLEST_BUFFER = 16 * 1024
LARGEST_WHOLE = 2 * 1024 * 1024  # above it, a frame has a mapping, of which it takes what it needs
_LARGEST_POOLED = 8 * 1024 * 1024
_USUAL_FRAME = 1100 * 1024  # a batch of a megabyte, and what is around it
_POOL_BYTES = 16 * 1024 * 1024
_TRIED_AT_ONCE = 16


class MemoryHolder(Protocol):
    """Who asks for memory."""

    @property
    def address(self) -> str:
        """Who sends it: those of one address share what one may have."""

    @property
    def wanted(self) -> int:
        """How large the frame will be."""


class FrameMemory:
    """All memory for unfinished frames. `retry` functions return whether they need not wait."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.beyond = 0  # by who is favoured
        self.kept = 0
        self._used_by: dict[str, int] = {}
        self._kept_by: dict[str, int] = {}
        self._favoured: object = None  # who may exceed the limit
        self._waiting: dict[tuple[str, bool], deque[Callable[[], bool]]] = {}
        self._pool: dict[int, list[Buffer]] = {}
        self._pooled = 0

    def most_at_once(self, address: str, usual: int) -> int:
        """How much to receive at a time from there: little, while that might have to be kept."""
        if not self.used and not self.kept:
            return usual
        if self.kept * 8 > self.limit or self._kept_by.get(address, 0) * 16 > self.limit:
            return min(usual, SMALLEST_BUFFER // 4)
        its_own = self._used_by.get(address, 0)
        scarce = self.used * 8 > self.limit * 5 or its_own * 8 > self.limit * 3
        return min(usual, SMALLEST_BUFFER) if scarce else usual

    @property
    def contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    # Buffers

    def reserve(self, size: int, who: MemoryHolder) -> bool:
        """Room for `size` bytes more, unless too much is taken."""
        most = self.limit * 3 // 4 if who.wanted > _USUAL_FRAME else self.limit
        its_own = self._used_by.get(who.address, 0)
        if self.used + size > most or (its_own + size) * 2 > most:
            if self._favoured not in (None, who):
                return False
            self._favoured = who
            self.beyond += size
        else:
            self.used += size
            self._used_by[who.address] = its_own + size
        return True

    def release(self, size: int, who: MemoryHolder) -> None:
        """Room is needed no more."""
        if self._favoured is who:
            beyond = min(size, self.beyond)
            self.beyond -= beyond
            size -= beyond
        self.used -= size
        _take_from(self._used_by, who.address, size)

    def buffer(self, size: int) -> Buffer:
        """What `size` bytes fit into, for which there is room."""
        size = capacity(size)
        if pooled := self._pool.get(size):
            self._pooled -= size
            return pooled.pop()
        if size > LARGEST_WHOLE:
            return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        return bytearray(size)

    def give_back(self, buffer: Buffer) -> None:
        size = len(buffer)
        if size <= _LARGEST_POOLED and self._pooled + size <= _POOL_BYTES:
            self._pooled += size
            self._pool.setdefault(size, []).append(buffer)

    # What was received and has no buffer

    def keep(self, size: int, address: str) -> None:
        """Count bytes that were received already. Raises `ProtocolError` if that is too much, and
        has not counted them."""
        its_own = self._kept_by.get(address, 0) + size
        if self.kept + size > self.limit // 4 or its_own > self.limit // 8:
            raise ProtocolError("there is no memory for more requests (requests_in_memory_bytes)")
        self.kept += size
        self._kept_by[address] = its_own

    def keep_no_more(self, size: int, address: str) -> None:
        self.kept -= size
        _take_from(self._kept_by, address, size)

    # Waiting

    def done(self, who: MemoryHolder) -> None:
        """`who` holds nothing any more: let those who wait try again, each address in turn."""
        if self._favoured is who:
            self._favoured = None
        for _ in range(min(len(self._waiting), _TRIED_AT_ONCE)):
            key = next(iter(self._waiting))
            queue = self._waiting.pop(key)
            while queue and queue[0]():
                queue.popleft()
            if queue:
                queue.extend(self._waiting.pop(key, ()))  # who has begun to wait meanwhile
                self._waiting[key] = queue

    def wait(self, retry: Callable[[], bool], who: MemoryHolder) -> None:
        """Call `retry` when memory was given back, until it returns True."""
        key = (who.address, who.wanted > _USUAL_FRAME)
        self._waiting.setdefault(key, deque()).append(retry)

    def forget(self, retry: Callable[[], bool]) -> None:
        for key, queue in tuple(self._waiting.items()):
            if retry in queue:
                queue.remove(retry)
                if not queue:
                    del self._waiting[key]


def capacity(size: int) -> int:
    """Sizes that are pooled are powers of two; larger ones are what they are."""
    if size > _LARGEST_POOLED:
        return size
    return max(SMALLEST_BUFFER, 1 << (size - 1).bit_length())


def _take_from(counts: dict[str, int], address: str, size: int) -> None:
    left = counts.get(address, 0) - size
    if left > 0:
        counts[address] = left
    else:
        counts.pop(address, None)
