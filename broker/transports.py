"""How bytes come from a client and go to it: through the kernel alone, or through TLS.

Both are of a socket that does not block. What cannot be done now raises `BlockingIOError`; whatever
else goes wrong with the connection is an `OSError`. In the clear a slice goes from its file to the
socket without being looked at; for TLS it is read first, into a buffer that all connections share,
behind the few bytes that are to come before it: that is one record, and one packet, less.
"""

import os
import socket
import ssl
from typing import Final, Protocol

from wire.slices import FileSlice

_BYTES_A_SLICE: Final = 4 * 1024 * 1024  # the kernel ends a packet with each, so: as many as may be
_BYTES_A_READ: Final = 128 * 1024
_SHARED: Final = memoryview(bytearray(_BYTES_A_READ))
_MOST_HELD: Final = 4 * 1024

Data = bytes | bytearray | memoryview


class Transport(Protocol):
    """The way to one client."""

    @property
    def descriptor(self) -> int: ...

    @property
    def has_more(self) -> bool:
        """Whether bytes have come that the kernel does not tell of any more."""

    def receive(self, targets: list[memoryview]) -> int:
        """Into these, in this order; 0 where nothing will come any more."""

    def send(self, data: Data, *, more: bool) -> int:
        """How much of it is on its way; where it was none, the same is to be sent again before
        anything else. `more` says that a slice follows at once."""

    def send_slice(self, piece: FileSlice) -> int:
        """As `send`; 0 where the file has ended before its slice."""

    def is_gone(self) -> bool:
        """Whether the client has closed its side, as far as that shows without reading."""

    def close(self) -> None: ...


class Clear:
    """Nobody is kept from reading along."""

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
        # One packet with the beginning of the file.
        return self._sock.send(data, socket.MSG_MORE if more else 0)

    def send_slice(self, piece: FileSlice) -> int:
        length = min(piece.length, _BYTES_A_SLICE)
        return os.sendfile(self.descriptor, piece.file.fileno(), piece.position, length)

    def is_gone(self) -> bool:
        return _is_gone(self._sock)

    def close(self) -> None:
        self._sock.close()


class Encrypted:
    """After its handshake. OpenSSL takes what it is given whole or not at all, and wants to be
    given the same again: what is first in line stays first until it is taken."""

    __slots__ = ("_held", "_sock", "descriptor")

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.descriptor = sock.fileno()
        self._held = b""  # it waits for the slice that follows

    @property
    def has_more(self) -> bool:
        return self._sock.pending() > 0

    def receive(self, targets: list[memoryview]) -> int:
        """A record of TLS has 16 KiB at most: as many as have come, and as there is room for."""
        count = 0
        try:
            for target in targets:
                filled = 0
                while filled < len(target):
                    got = self._sock.recv_into(target[filled:])
                    if not got:
                        return count  # if there was something, the end is told the next time
                    filled += got
                    count += got
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not count:
                raise BlockingIOError from None
        return count

    def send(self, data: Data, *, more: bool) -> int:
        if more and len(data) <= _MOST_HELD:
            self._held = bytes(data)
            return len(data)
        return self._send(data)

    def send_slice(self, piece: FileSlice) -> int:
        held = len(self._held)
        part = _SHARED[held:][: piece.length]
        count = os.preadv(piece.file.fileno(), [part], piece.position)
        if count:
            _SHARED[:held] = self._held
            self._send(_SHARED[: held + count])
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
        # Of what the kernel has: TLS has no way to look without reading.
        return not socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
