"""Splits a connection's bytes into frames: four bytes of size, then as many bytes.

The reader does no I/O. It says where the next bytes should go (`targets`), is told how many arrived
(`received`), and yields complete frames. Small frames are views of the buffer that all connections
share; a larger frame gets its own memory (`wire.framing.frame_memory`), into which the rest of it
is received directly.

Rule 1: a size is accepted only up to the limit for the request's API, and memory is granted for
        bytes received, not for bytes announced.
Rule 2: a frame without memory is starved: nothing is received for it until memory is granted. While
        memory is scarce, little is received at a time, and that is kept.
Rule 3: a frame is valid until the next is requested. A caller that cannot take the next one yet
        calls `suspend`, and continues the same generator later.
"""

import struct
from collections.abc import Callable, Generator

from wire.errors import ProtocolError
from wire.framing.frame_memory import LARGEST_WHOLE, SMALLEST_BUFFER, Buffer, FrameMemory, capacity

_SIZE = struct.Struct(">i")
_SIZE_AND_KEY = struct.Struct(">ih")
_SMALLEST_FRAME = 8  # api key, version, correlation id
_TLS_RECORD = 0x160301  # the beginning of a TLS handshake
_GROWTH = 4
_LARGE_STEP = 1024 * 1024

# The size limit of an API, or of any API while the key is unknown.
SizeLimit = Callable[[int | None], int]


class FrameReader:
    """The receiving half of one connection."""

    __slots__ = (
        "_buffer", "_data", "_end", "_filled", "_kept", "_limit", "_memory", "_rest", "_scratch",
        "_start", "_view", "address", "wanted",
    )  # fmt: skip

    def __init__(
        self, scratch: memoryview, memory: FrameMemory, limit: SizeLimit, address: str = ""
    ) -> None:
        self.address = address  # the sender's
        self._scratch = scratch
        self._memory = memory
        self._limit = limit
        self._data, self._start, self._end = scratch, 0, 0  # received, not yet cut
        self._rest = b""  # too short to be checked, or waiting for its first memory
        self._kept = 0  # how much of the rest is counted
        self._buffer: Buffer | None = None  # receives the incomplete frame
        self._view = scratch[:0]  # the usable part of the buffer
        self._filled = 0
        self.wanted = 0  # size of the incomplete frame with its prefix; 0 while unknown

    @property
    def partial(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self.wanted or self._rest)

    @property
    def held(self) -> int:
        """The received bytes of the incomplete frame."""
        return self._filled or len(self._rest)

    @property
    def starved(self) -> bool:
        """Whether a frame waits for memory: receive nothing until `grant` succeeds."""
        return bool(self.wanted) and self._filled == len(self._view)

    def targets(self) -> list[memoryview]:
        """Returns the buffers for the next bytes, in order. Receive immediately: the buffer is
        shared."""
        scratch = self._scratch
        scratch = scratch[: self._memory.most_at_once(self.address, len(scratch))]
        if self._buffer is not None:
            free_view = self._view[self._filled :]
            return [free_view, scratch] if len(self._view) == self.wanted else [free_view]
        if self._rest:
            rest_bytes = len(self._rest)
            scratch[:rest_bytes] = self._rest
            return [scratch[rest_bytes:]]
        return [scratch]

    def received(self, count: int) -> Generator[memoryview, None, None]:
        """Yields the frames, without size prefix, that `count` more bytes in `targets` complete."""
        self._data, self._start = self._scratch, 0
        if self._buffer is not None:
            missing_bytes = self.wanted - self._filled
            if count < missing_bytes:
                self._filled += count
                if self.starved:
                    self.grant()
                return
            self._end = count - missing_bytes
            frame, buffer, room = self._view[4:], self._buffer, self._room
            self._buffer, self._view, self._filled, self.wanted = None, self._scratch[:0], 0, 0
            try:
                yield frame
            finally:
                self._memory.release(room, self)
                self._memory.give_back(buffer)
                self._memory.done(self)
        else:
            self._end = len(self._rest) + count
            self._keep_no_rest()
        yield from self._cut()

    def suspend(self) -> None:
        """Copies incomplete bytes, so that other connections can use the shared buffer.

        The generator from `received` continues from there later.
        """
        uncut_bytes = self._end - self._start
        if uncut_bytes and self._data is self._scratch:
            self._memory.keep(uncut_bytes, self.address)
            # Writable, because batches are stamped in place.
            self._data = memoryview(bytearray(self._scratch[self._start : self._end]))
            self._start, self._end = 0, uncut_bytes

    def grant(self) -> bool:
        """Allocates more memory for the incomplete frame; returns False if none is available."""
        held_bytes, memory = self.held, self._memory
        if self._buffer is not None and len(self._buffer) >= self.wanted:
            # A large frame gets room as it is received.
            step = min(_LARGE_STEP, self.wanted - held_bytes)
            if not memory.reserve(step, self):
                return False
            self._view = memoryview(self._buffer)[: held_bytes + step]
            return True
        size = capacity(min(self.wanted, _GROWTH * max(held_bytes, SMALLEST_BUFFER // _GROWTH)))
        if size > LARGEST_WHOLE:
            return self._grant_large(held_bytes)
        if not memory.reserve(size, self):
            return False
        self._move_to(memory.buffer(size), size, min(size, self.wanted))
        return True

    def _grant_large(self, held: int) -> bool:
        room = min(self.wanted, held + _LARGE_STEP)
        if not self._memory.reserve(room, self):
            return False
        self._move_to(self._memory.buffer(self.wanted), room, room)
        return True

    def _move_to(self, buffer: Buffer, counted: int, room: int) -> None:
        """Switches to another buffer, and uses at most `room` bytes of it."""
        view = memoryview(buffer)[:room]
        if self._buffer is None:
            self._filled = len(self._rest)
            view[: self._filled] = self._rest
            self._keep_no_rest()
        else:
            view[: self._filled] = self._view
            self._give_back()
        self._buffer, self._view = buffer, view

    @property
    def _room(self) -> int:
        """The memory reserved for the incomplete frame."""
        buffer = self._buffer
        if buffer is None:
            return 0
        return len(buffer) if isinstance(buffer, bytearray) else len(self._view)

    def _give_back(self) -> None:
        room, buffer = self._room, self._buffer
        if buffer is not None:
            self._buffer, self._view = None, self._scratch[:0]
            self._memory.release(room, self)
            self._memory.give_back(buffer)

    def close(self) -> None:
        """Releases all memory; the reader is unusable afterwards."""
        self._release()
        self._keep_no_rest()
        self._give_back()
        self._memory.done(self)

    def _cut(self) -> Generator[memoryview, None, None]:
        while self._end - self._start >= 6:
            start = self._start
            size, key = _SIZE_AND_KEY.unpack_from(self._data, start)
            frame_end = start + 4 + size
            if not _SMALLEST_FRAME <= size <= SMALLEST_BUFFER:
                self._check(size, key)
            if frame_end > self._end:
                self.wanted = 4 + size
                break
            self._start = frame_end
            yield self._data[start + 4 : frame_end]
        rest_bytes = self._rest = bytes(self._data[self._start : self._end])
        self._release()
        if len(rest_bytes) >= 4 and not self.wanted:
            (size,) = _SIZE.unpack_from(rest_bytes)
            self._check(size, None)
        if rest_bytes and not (self.wanted and self.grant()):
            self._memory.keep(len(rest_bytes), self.address)
            self._kept = len(rest_bytes)

    def _release(self) -> None:
        """Drops received bytes, and those kept by `suspend`."""
        data, self._data, self._start, self._end = self._data, self._scratch, 0, 0
        if data is not self._scratch:
            self._memory.keep_no_more(len(data), self.address)

    def _keep_no_rest(self) -> None:
        self._rest = b""
        if self._kept:
            self._memory.keep_no_more(self._kept, self.address)
            self._kept = 0

    def _check(self, size: int, key: int | None) -> None:
        if size >> 8 == _TLS_RECORD:
            raise ProtocolError("TLS handshake on a listener without TLS")
        if size < _SMALLEST_FRAME:
            raise ProtocolError(f"invalid frame size {size}")
        if size > (limit := self._limit(key)):
            kind = "any API" if key is None else f"API {key}"
            raise ProtocolError(f"a frame of {size} bytes, at most {limit} are allowed for {kind}")
