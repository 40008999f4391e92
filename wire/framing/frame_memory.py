"""Memory for incomplete requests: bounded over all connections, shared fairly.

  buffers    `limit` bytes, for frames that have begun to arrive; and one frame beyond that
  kept       a quarter of it, for bytes received before there was a buffer for them
  pool       reused buffers, at most 16 MiB

Rule 1: memory counts for bytes received, and for buffers granted; announced sizes count nothing.
        Large frames are received into their own mappings: only the received part takes memory, and
        unless pooled it is returned to the system with the frame.
Rule 2: an address gets at most half of the limit, and frames above a megabyte three quarters of
        that and of the whole, so that other addresses and ordinary frames still find room.
Rule 3: when there is no room, one frame at a time may exceed the limit until it is complete, so
        frames never wait for each other; its excess is not taken from the others' room. The other
        frames wait; addresses take turns.
Rule 4: a connection without room is closed if even the bytes to be kept reach their bound.
"""

from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Protocol

from wire.errors import ProtocolError

Buffer = bytearray | mmap

SHARED_BUFFER = 64 * 1024  # all connections receive into it; no larger frame fits
SMALLEST_BUFFER = 16 * 1024
LARGEST_WHOLE = 2 * 1024 * 1024  # larger frames get a mapping, which takes memory as needed
_LARGEST_POOLED = 8 * 1024 * 1024
_USUAL_FRAME = 1100 * 1024  # a batch of a megabyte and its overhead
_POOL_BYTES = 16 * 1024 * 1024
_TRIED_AT_ONCE = 16


class MemoryHolder(Protocol):
    """The part of a connection's frame reader that `FrameMemory` uses."""

    @property
    def address(self) -> str:
        """The sender's address; frames from one address share its limit."""

    @property
    def wanted(self) -> int:
        """The size of the frame."""


class FrameMemory:
    """All memory for incomplete frames. `retry` functions return whether their wait is over."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.beyond = 0  # excess of the favoured frame
        self.kept = 0
        self._used_by: dict[str, int] = {}
        self._kept_by: dict[str, int] = {}
        self._favoured: object = None  # the holder that may exceed the limit
        self._waiting: dict[tuple[str, bool], deque[Callable[[], bool]]] = {}
        self._pool: dict[int, list[Buffer]] = {}
        self._pooled = 0

    def most_at_once(self, address: str, usual: int) -> int:
        """Returns the number of bytes to receive at once: `usual`, or less while memory is
        scarce."""
        if not self.used and not self.kept:
            return usual
        if self.kept * 8 > self.limit or self._kept_by.get(address, 0) * 16 > self.limit:
            return min(usual, SMALLEST_BUFFER // 4)
        address_bytes = self._used_by.get(address, 0)
        is_scarce = self.used * 8 > self.limit * 5 or address_bytes * 8 > self.limit * 3
        return min(usual, SMALLEST_BUFFER) if is_scarce else usual

    @property
    def contended(self) -> bool:
        """Whether a frame is waiting."""
        return bool(self._waiting)

    # Buffers

    def reserve(self, size: int, who: MemoryHolder) -> bool:
        """Reserves `size` more bytes; returns False if too much is in use."""
        limit = self.limit * 3 // 4 if who.wanted > _USUAL_FRAME else self.limit
        address_bytes = self._used_by.get(who.address, 0)
        if self.used + size > limit or (address_bytes + size) * 2 > limit:
            if self._favoured not in (None, who):
                return False
            self._favoured = who
            self.beyond += size
        else:
            self.used += size
            self._used_by[who.address] = address_bytes + size
        return True

    def release(self, size: int, who: MemoryHolder) -> None:
        """Releases reserved bytes."""
        if self._favoured is who:
            excess = min(size, self.beyond)
            self.beyond -= excess
            size -= excess
        self.used -= size
        _take_from(self._used_by, who.address, size)

    def buffer(self, size: int) -> Buffer:
        """Returns a buffer for `size` bytes, which must be reserved."""
        size = capacity(size)
        if buffers := self._pool.get(size):
            self._pooled -= size
            return buffers.pop()
        if size > LARGEST_WHOLE:
            return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        return bytearray(size)

    def give_back(self, buffer: Buffer) -> None:
        size = len(buffer)
        if size <= _LARGEST_POOLED and self._pooled + size <= _POOL_BYTES:
            self._pooled += size
            self._pool.setdefault(size, []).append(buffer)

    # Received bytes without a buffer

    def keep(self, size: int, address: str) -> None:
        """Counts bytes that were received already. Raises `ProtocolError`, and counts nothing, if
        the limit is exceeded."""
        address_bytes = self._kept_by.get(address, 0) + size
        if self.kept + size > self.limit // 4 or address_bytes > self.limit // 8:
            raise ProtocolError("no memory for more requests (requests_in_memory_bytes)")
        self.kept += size
        self._kept_by[address] = address_bytes

    def keep_no_more(self, size: int, address: str) -> None:
        self.kept -= size
        _take_from(self._kept_by, address, size)

    # Waiting

    def done(self, who: MemoryHolder) -> None:
        """Lets waiting frames try again after `who` has released its memory, addresses taking
        turns."""
        if self._favoured is who:
            self._favoured = None
        for _ in range(min(len(self._waiting), _TRIED_AT_ONCE)):
            key = next(iter(self._waiting))
            queue = self._waiting.pop(key)
            while queue and queue[0]():
                queue.popleft()
            if queue:
                queue.extend(self._waiting.pop(key, ()))  # frames that have begun to wait meanwhile
                self._waiting[key] = queue

    def wait(self, retry: Callable[[], bool], who: MemoryHolder) -> None:
        """Calls `retry` whenever memory is released, until it returns True."""
        key = (who.address, who.wanted > _USUAL_FRAME)
        self._waiting.setdefault(key, deque()).append(retry)

    def forget(self, retry: Callable[[], bool]) -> None:
        for key, queue in tuple(self._waiting.items()):
            if retry in queue:
                queue.remove(retry)
                if not queue:
                    del self._waiting[key]


def capacity(size: int) -> int:
    """Returns the size of the buffer to allocate: a power of two if it is pooled, else `size`
    itself."""
    if size > _LARGEST_POOLED:
        return size
    return max(SMALLEST_BUFFER, 1 << (size - 1).bit_length())


def _take_from(counts: dict[str, int], address: str, size: int) -> None:
    remaining_bytes = counts.get(address, 0) - size
    if remaining_bytes > 0:
        counts[address] = remaining_bytes
    else:
        counts.pop(address, None)
