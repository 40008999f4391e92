"""A connection's bytes, cut into frames: four bytes of size, then that many bytes.

The reader does no I/O. It says where the next bytes should go (`targets`), is told how many came
(`received`), and yields the frames that are whole. Small frames are seen where they arrived, in a
buffer that all connections share; a frame that did not fit gets memory of its own, and the rest of
it is received right into that.

Rule 1: a size is believed only up to the limit for the kind of request that follows it, and memory
        is granted for bytes that have come, not for bytes that were announced.
Rule 2: when memory runs out, one frame at a time may go beyond the limit until it is whole, so
        frames never wait for each other. While memory is scarce, little is received at a time,
        and that little is kept in any case.
Rule 3: a frame is valid until the next one is asked for. Who cannot take the next one yet calls
        `suspend`, and goes on with the same generator later.
"""

import struct
from collections import deque
from collections.abc import Callable, Generator

from wire.errors import ProtocolError

_SIZE = struct.Struct(">i")
_SIZE_AND_KEY = struct.Struct(">ih")
_SMALLEST_FRAME = 8  # api key, version, correlation id
_SMALLEST_BUFFER = 16 * 1024
_GROWTH = 4
_LARGEST_POOLED = 2 * 1024 * 1024
_POOL_BYTES = 16 * 1024 * 1024

# The largest frame of an API, or of any while the key is not known.
SizeLimit = Callable[[int | None], int]


class FrameMemory:
    """Memory for unfinished frames: `limit` bytes and one frame, for all connections.

    Beyond that go only the few kilobytes of a connection that were received while it was scarce.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._favoured: object = None  # who may exceed the limit
        self._waiting: deque[Callable[[], bool]] = deque()
        self._pool: dict[int, list[bytearray]] = {}
        self._pooled = 0

    @property
    def scarce(self) -> bool:
        return self.used * 4 > self.limit * 3

    def take(self, size: int, who: object) -> bytearray | None:
        """A buffer of at least `size` bytes, or None while too much is taken by others."""
        capacity = _capacity(size)
        if self.used + capacity > self.limit:
            if self._favoured not in (None, who):
                return None
            self._favoured = who
        return self.take_anyway(size)

    def take_anyway(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, for what has been received already."""
        capacity = _capacity(size)
        self.used += capacity
        if pooled := self._pool.get(capacity):
            self._pooled -= capacity
            return pooled.pop()
        return bytearray(capacity)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back."""
        capacity = len(buffer)
        self.used -= capacity
        if capacity <= _LARGEST_POOLED and self._pooled + capacity <= _POOL_BYTES:
            self._pooled += capacity
            self._pool.setdefault(capacity, []).append(buffer)

    def done(self, who: object) -> None:
        """`who` holds nothing any more: let those who wait try again, in their order."""
        if self._favoured is who:
            self._favoured = None
        while self._waiting and self._waiting[0]():
            self._waiting.popleft()

    def wait(self, retry: Callable[[], bool]) -> None:
        """Call `retry` when memory was given back, until it returns True."""
        self._waiting.append(retry)

    def forget(self, retry: Callable[[], bool]) -> None:
        if retry in self._waiting:
            self._waiting.remove(retry)


def _capacity(size: int) -> int:
    """Sizes that are pooled are powers of two; larger ones are what they are."""
    if size > _LARGEST_POOLED:
        return size
    return max(_SMALLEST_BUFFER, 1 << (size - 1).bit_length())


class FrameReader:
    """The receiving half of one connection."""

    __slots__ = (
        "_buffer", "_data", "_end", "_filled", "_limit", "_memory", "_rest", "_scratch", "_start",
        "_view", "wanted",
    )  # fmt: skip

    def __init__(self, scratch: memoryview, memory: FrameMemory, limit: SizeLimit) -> None:
        self._scratch = scratch
        self._memory = memory
        self._limit = limit
        self._data, self._start, self._end = scratch, 0, 0  # received, and not cut yet
        self._rest = b""  # begun, and too short to be judged, or waiting for its first memory
        self._buffer: bytearray | None = None  # what the frame on its way was granted
        self._view = scratch[:0]  # of it, as far as the frame may reach
        self._filled = 0
        self.wanted = 0  # size of the frame on its way, with its prefix; 0 while not known

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self.wanted or self._rest)

    @property
    def held(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return self._filled or len(self._rest)

    @property
    def starved(self) -> bool:
        """Whether a frame waits for memory: receive nothing until `grant` succeeds."""
        return bool(self.wanted) and self._filled == len(self._view)

    def targets(self) -> list[memoryview]:
        """Where the next bytes go, in this order. Receive right away: the buffer is shared."""
        scratch = self._scratch[:_SMALLEST_BUFFER] if self._memory.scarce else self._scratch
        if self._buffer is not None:
            rest = self._view[self._filled :]
            return [rest, scratch] if len(self._view) == self.wanted else [rest]
        if self._rest:
            held = len(self._rest)
            scratch[:held] = self._rest
            return [scratch[held:]]
        return [scratch]

    def received(self, count: int) -> Generator[memoryview, None, None]:
        """The frames that `count` more bytes in `targets` complete, without their size prefix."""
        self._data, self._start = self._scratch, 0
        if self._buffer is not None:
            missing = self.wanted - self._filled
            if count < missing:
                self._filled += count
                if self.starved:
                    self.grant()
                return
            self._end = count - missing
            frame, buffer = self._view[4:], self._buffer
            self._buffer, self._view, self._filled, self.wanted = None, self._scratch[:0], 0, 0
            try:
                yield frame
            finally:
                self._memory.give(buffer)
                self._memory.done(self)
        else:
            self._end = len(self._rest) + count
            self._rest = b""
        yield from self._cut()

    def suspend(self) -> None:
        """Put by what has not been cut, so that the shared buffer is free for others.

        The generator that `received` gave goes on from there later.
        """
        left = self._end - self._start
        if left and self._data is self._scratch:
            buffer = self._memory.take_anyway(left)
            buffer[:left] = self._scratch[self._start : self._end]
            self._data, self._start, self._end = memoryview(buffer), 0, left

    def grant(self) -> bool:
        """Give the frame on its way room for more bytes than it has, if there is memory."""
        size = min(self.wanted, _GROWTH * max(self.held, _SMALLEST_BUFFER // _GROWTH))
        buffer = self._memory.take(size, self)
        if buffer is None:
            return False
        view = memoryview(buffer)[: self.wanted]
        if self._buffer is None:
            self._filled = len(self._rest)
            view[: self._filled] = self._rest
            self._rest = b""
        else:
            view[: self._filled] = self._view
            self._memory.give(self._buffer)
        self._buffer, self._view = buffer, view
        return True

    def close(self) -> None:
        """Give back all memory; the reader is of no use any more."""
        self._release()
        buffer, self._buffer, self._view = self._buffer, None, self._scratch[:0]
        if buffer is not None:
            self._memory.give(buffer)
        self._memory.done(self)

    def _cut(self) -> Generator[memoryview, None, None]:
        while self._end - self._start >= 6:
            start = self._start
            size, key = _SIZE_AND_KEY.unpack_from(self._data, start)
            after = start + 4 + size
            if not _SMALLEST_FRAME <= size <= _SMALLEST_BUFFER:
                self._check(size, key)
            if after > self._end:
                self.wanted = 4 + size
                break
            self._start = after
            yield self._data[start + 4 : after]
        rest = self._rest = bytes(self._data[self._start : self._end])
        self._release()
        if self.wanted:
            self.grant()
        elif len(rest) >= 4:
            (size,) = _SIZE.unpack_from(rest)
            self._check(size, None)

    def _release(self) -> None:
        """Forget what was received, and give back what `suspend` took."""
        data, self._data, self._start, self._end = self._data, self._scratch, 0, 0
        if data is not self._scratch:
            buffer = data.obj
            assert isinstance(buffer, bytearray)
            self._memory.give(buffer)
            self._memory.done(self)

    def _check(self, size: int, key: int | None) -> None:
        if size < _SMALLEST_FRAME:
            raise ProtocolError(f"a frame of {size} bytes")
        if size > (limit := self._limit(key)):
            kind = "any API" if key is None else f"API {key}"
            raise ProtocolError(f"a frame of {size} bytes, {limit} are allowed for {kind}")
