"""HTTP as bytes, for requests that no client would send."""

import json
import select
import socket
import time
from types import TracebackType
from typing import Any, Self

import msgspec

HEAD_END = b"\r\n\r\n"


class Closed(Exception):
    """The connection was closed, or reset, before the answer was whole."""


class RawAnswer(msgspec.Struct, frozen=True):
    """Status, header names in lower case, and the body as JSON where it is that."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError:
            return self.content

    @property
    def code(self) -> int | None:
        """The error code, where the answer is an error of the registry's."""
        body = self.body
        return body.get("error_code") if isinstance(body, dict) else None


class RawHttp:
    """One connection: `with RawHttp("127.0.0.1:8081") as connection`."""

    def __init__(self, address: str, *, receive_buffer: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.socket.settimeout(60)
            self.socket.connect((host, int(port)))
        except BaseException:
            self.socket.close()
            raise
        self._received = b""
        self._poll = select.poll()  # Its numbers have no limit, unlike those of select.
        self._poll.register(self.socket, select.POLLIN)

    def send(self, data: bytes) -> None:
        """All of it; raises Closed if the registry does not want it."""
        try:
            self.socket.sendall(data)
        except OSError:
            raise Closed from None

    def finish_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self, *, within: float = 60, head: bool = False) -> RawAnswer:
        """The next answer, whole; with `head`, one that has no body whatever it says."""
        deadline = time.monotonic() + within
        while HEAD_END not in self._received:
            self._receive(deadline)
        start, _, self._received = self._received.partition(HEAD_END)
        status_line, *lines = start.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = 0 if head else int(headers.get("content-length", "0"))
        while len(self._received) < length:
            self._receive(deadline)
        content, self._received = self._received[:length], self._received[length:]
        return RawAnswer(int(status_line.split()[1]), headers, content)

    def ask(self, data: bytes, *, within: float = 60) -> RawAnswer:
        self.send(data)
        return self.answer(within=within)

    def rest(self, *, within: float = 60) -> bytes:
        """All that comes until the registry closes; fails if it does not in time."""
        deadline = time.monotonic() + within
        try:
            while True:
                self._receive(deadline)
        except Closed:
            return self._received

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        assert left > 0, f"nothing more came in time, after {self._received[:200]!r}"
        if self._poll.poll(left * 1000):
            try:
                piece = self.socket.recv(1 << 16)
            except OSError:
                raise Closed from None
            if not piece:
                raise Closed
            self._received += piece

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def request(method: str, path: str, body: bytes | None = None, *headers: bytes) -> bytes:
    """As any client sends it, with these headers (`b"Name: value"`) besides."""
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: registry", *headers]
    if body is not None:
        lines += [b"Content-Type: application/vnd.schemaregistry.v1+json"]
        lines += [b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + HEAD_END + (body or b"")
