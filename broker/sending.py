"""What is on its way to one client: bytes and file slices, in order.

Bytes of small responses are sent together; a slice goes from its file to the socket by `sendfile`,
with the bytes before it in the same packet. One turn of the event loop sends a bounded amount, so
that a client that reads quickly does not keep others waiting.
"""

import os
import socket
from collections import deque

from wire.primitives import Part
from wire.slices import FileSlice

_BYTES_A_SEND = 64 * 1024
_BYTES_A_SLICE = 256 * 1024  # as much as stays in the processor's cache until it is received
_BYTES_A_TURN = 4 * 1024 * 1024


class ShortFile(Exception):
    """A file ended before its slice: the response has promised more, and cannot be taken back."""


class Sender:
    """The sending half of one connection. `in_memory` counts bytes, slices cost none."""

    __slots__ = ("_parts", "_sock", "in_memory")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parts: deque[Part] = deque()
        self.in_memory = 0

    def __len__(self) -> int:
        """Parts that are not sent yet."""
        return len(self._parts)

    @property
    def holds_files(self) -> bool:
        """Whether files are kept open for what is to be sent."""
        return any(isinstance(part, FileSlice) for part in self._parts)

    def queue(self, parts: list[Part]) -> None:
        for part in parts:
            self._parts.append(part)
            if not isinstance(part, FileSlice):
                self.in_memory += len(part)

    def send(self) -> None:
        """Send until all is sent, the socket is full, or the turn is over. Raises `OSError`."""
        parts, turn = self._parts, _BYTES_A_TURN
        try:
            while parts and turn > 0:
                first = parts[0]
                turn -= self._slice(first) if isinstance(first, FileSlice) else self._bytes()
        except (BlockingIOError, InterruptedError):
            pass

    def clear(self) -> None:
        """Forget what is not sent; slices let go of their files."""
        self._parts.clear()

    def _bytes(self) -> int:
        parts = self._parts
        buffers: list[bytes | bytearray | memoryview] = []
        flags = size = 0
        for part in parts:
            if isinstance(part, FileSlice):
                flags = socket.MSG_MORE  # one packet with the beginning of the file
                break
            if size >= _BYTES_A_SEND:
                break
            buffers.append(part)
            size += len(part)
        # Many small responses: one buffer costs the kernel a quarter of what their list does.
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        sent = self._sock.send(data, flags)
        self.in_memory -= sent
        for _ in buffers:
            parts.popleft()
        if sent < size:
            parts.appendleft(memoryview(data)[sent:])
        return sent

    def _slice(self, piece: FileSlice) -> int:
        length = min(piece.length, _BYTES_A_SLICE)
        sent = os.sendfile(self._sock.fileno(), piece.file.fileno(), piece.position, length)
        if sent == 0:
            raise ShortFile
        if sent < piece.length:
            self._parts[0] = FileSlice(piece.file, piece.position + sent, piece.length - sent)
        else:
            self._parts.popleft()
        return sent
