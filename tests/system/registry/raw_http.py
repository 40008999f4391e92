"""HTTP as bytes, for requests that no client would send."""

import json
import socket
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, Self, cast

import msgspec


class Closed(Exception):
    """The connection was closed or reset before the end of the answer."""


class RawAnswer(msgspec.Struct, frozen=True):
    """Status, lower-case header names, and the body, parsed if it is JSON."""

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
        """The error code, if the answer is an error of the registry."""
        body = self.body
        return body.get("error_code") if isinstance(body, dict) else None


class _Received:
    """The received bytes, for consecutive answers."""

    def __init__(self, file: IO[bytes]) -> None:
        self.read, self.readline, self.readinto = file.read, file.readline, file.readinto  # type: ignore[attr-defined]

    def makefile(self, _mode: str) -> Self:
        return self

    def flush(self) -> None: ...

    def close(self) -> None: ...


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
        self._file = self.socket.makefile("rb")
        self._received = _Received(self._file)

    def send(self, data: bytes) -> None:
        """Send all of it; raises Closed if the registry closes the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            raise Closed from None

    def finish_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self) -> RawAnswer:
        """The next complete answer; skips 100 Continue."""
        try:
            found = HTTPResponse(cast(socket.socket, self._received))
            found.begin()
            content = found.read()
        except (HTTPException, ConnectionError):
            raise Closed from None
        headers = {name.lower(): value for name, value in found.getheaders()}
        return RawAnswer(found.status, headers, content)

    def ask(self, data: bytes) -> RawAnswer:
        self.send(data)
        return self.answer()

    def rest(self) -> bytes:
        """All data until the registry closes; fails if it does not close in time."""
        try:
            return self._received.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request(method: str, path: str, body: bytes | None = None, *headers: bytes) -> bytes:
    """A request as any client sends it, with additional headers (`b"Name: value"`)."""
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: registry", *headers]
    if body is not None:
        lines += [b"Content-Type: application/vnd.schemaregistry.v1+json"]
        lines += [b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")
