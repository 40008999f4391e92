"""An HTTP answer that takes no longer, and no more memory, than it may.

http.client's own timeout is for each read of the socket, so that a byte now and then would keep it
waiting for ever. Here the whole answer, its headers included, has one deadline.
"""

import io
import socket
import time
from http.client import HTTPResponse, IncompleteRead
from typing import Final

__all__ = ["TooMuch", "bounded_response", "read_body"]

_AT_ONCE: Final = 65_536
_SHORTEST: Final = 0.001  # a timeout of 0 would make the socket non-blocking


class TooMuch(Exception):
    """The answer has more bytes than were allowed for."""


class _Deadline(io.RawIOBase):
    """A socket's bytes until a point in time."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline
        # Holds the socket open: http.client closes it early when no further answer will come.
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview[int]") -> int | None:  # type: ignore[override]
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(max(left, _SHORTEST))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineSocket:
    """What HTTPResponse wants of a socket."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Deadline(self._sock, self._deadline))


def bounded_response(sock: socket.socket, method: str, deadline: float) -> HTTPResponse:
    """The answer to a request that was just sent, not yet read; `deadline` is time.monotonic's."""
    return HTTPResponse(_DeadlineSocket(sock, deadline), method=method)  # type: ignore[arg-type]


def read_body(response: HTTPResponse, most: int) -> bytes:
    """All of it. Raises TooMuch before more than `most` bytes are held."""
    if (response.length or 0) > most:
        raise TooMuch(f"more than {most:,} bytes")
    body = bytearray()
    while part := response.read(min(_AT_ONCE, most + 1 - len(body))):
        body += part
        if len(body) > most:
            raise TooMuch(f"more than {most:,} bytes")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return bytes(body)
