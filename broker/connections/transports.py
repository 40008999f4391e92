"""A connection's transport: plain sockets, or TLS.

Both work on non-blocking sockets. What would block raises `BlockingIOError`; every other connection
error is an `OSError`. Without TLS, a slice goes from its file to the socket without being copied
through this process. With TLS it is read into a shared buffer, behind the few bytes that are to be
sent before it: that saves a record, and a packet.
"""

import os
import socket
import ssl
from typing import Final, Protocol

from wire.framing.slices import FileSlice

_BYTES_A_SLICE: Final = 4 * 1024 * 1024  # the kernel ends a packet with each
_BYTES_A_READ: Final = 128 * 1024
_SHARED: Final = memoryview(bytearray(_BYTES_A_READ))
_MOST_HELD: Final = 4 * 1024

Data = bytes | bytearray | memoryview


class Transport(Protocol):
    @property
    def descriptor(self) -> int: ...

    @property
    def has_more(self) -> bool:
        """Whether received bytes are buffered in this process, so that the kernel no longer reports
        them."""

    def receive(self, targets: list[memoryview]) -> int:
        """Receives into these buffers, in this order; returns 0 at the end of the stream."""

    def send(self, data: Data, *, more: bool) -> int:
        """Returns the number of bytes sent; after 0, the same bytes must be sent again before
        anything else. `more` announces that a slice follows at once."""

    def send_slice(self, piece: FileSlice) -> int:
        """Sends a part of a file, like `send`; returns 0 if the file ends before its slice."""

    def is_gone(self) -> bool:
        """Returns whether the client is known to have closed its side, without reading."""

    def close(self) -> None: ...


class Clear:
    __slots__ = ("_sock", "descriptor")

    has_more = False

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.descriptor = sock.fileno()

    def receive(self, targets: list[memoryview]) -> int:
        if len(targets) == 1:
            return self._sock.recv_into(targets[0])
        return self._sock.recvmsg_into(targets)[0]

    def send(self, data: Data, *, more: bool) -> int:
        # In one packet with the beginning of the file.
        return self._sock.send(data, socket.MSG_MORE if more else 0)

    def send_slice(self, piece: FileSlice) -> int:
        length = min(piece.length, _BYTES_A_SLICE)
        return os.sendfile(self.descriptor, piece.file.fileno(), piece.position, length)

    def is_gone(self) -> bool:
        return _is_gone(self._sock)

    def close(self) -> None:
        self._sock.close()


class Encrypted:
    """TLS after its handshake. OpenSSL accepts data whole or not at all; data that it did not
    accept must be sent again, unchanged, before any other."""

    __slots__ = ("_held", "_sock", "descriptor")

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.descriptor = sock.fileno()
        self._held = b""  # it waits for the slice that follows

    @property
    def has_more(self) -> bool:
        return self._sock.pending() > 0

    def receive(self, targets: list[memoryview]) -> int:
        """Receives as many TLS records, of at most 16 KiB each, as have arrived and fit. If the
        connection ends after some data, the next call reports that."""
        count = 0
        try:
            for target in targets:
                filled_bytes = 0
                while filled_bytes < len(target):
                    received_bytes = self._sock.recv_into(target[filled_bytes:])
                    if not received_bytes:
                        return count
                    filled_bytes += received_bytes
                    count += received_bytes
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not count:
                raise BlockingIOError from None
        except ConnectionError:  # since OpenSSL 3.6 also a broken pipe
            if not count:
                raise
        return count

    def send(self, data: Data, *, more: bool) -> int:
        if more and len(data) <= _MOST_HELD:
            self._held = bytes(data)
            return len(data)
        return self._send(data)

    def send_slice(self, piece: FileSlice) -> int:
        held_bytes = len(self._held)
        part = _SHARED[held_bytes:][: piece.length]
        count = os.preadv(piece.file.fileno(), [part], piece.position)
        if count:
            _SHARED[:held_bytes] = self._held
            self._send(_SHARED[: held_bytes + count])
            self._held = b""
        return count

    def _send(self, data: Data) -> int:
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def is_gone(self) -> bool:
        return _is_gone(self._sock)

    def close(self) -> None:
        self._sock.close()


def _is_gone(sock: socket.socket) -> bool:
    try:
        # Checks the kernel's buffer: TLS cannot look without reading.
        return not socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
