"""An HTTP/1.1 connection of a client. Requests are served one at a time, in order.

It does not read while a request is being served or the client does not read its answers. Pipelined
requests are served in turns of a few milliseconds, so that other clients are served too. A long
answer is produced in pieces as the client reads. What all clients together have not read is
bounded; beyond the bound, the next client that does not read is disconnected. So is a client that
is too slow: the server polls `overdue`. An exception of `serve` is a bug: it is logged, answered
with 500, and affects no other client.

Written by hand because uvicorn answers a third as many requests
(docs/decisions/0010-http-by-hand.md).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Final, cast

import msgspec

from ground.tls.certificate_names import NameRule, certificate_name
from registry.access.callers import Peer
from registry.errors import ErrorAnswer
from registry.http.connections.media_types import V1
from registry.http.connections.messages import HttpRequest, HttpResponse, error_answer
from registry.http.connections.request_reader import Bodies, RequestReader

log = logging.getLogger(__name__)

_SEND_BUFFER: Final = 256 * 1024
_TURN_S: Final = 0.005  # then other connections get their turn
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_FAILED: Final = error_answer(500, 500, "Internal Server Error")

Served = HttpResponse | Awaitable[HttpResponse]


class Unread(msgspec.Struct):
    """Counts the bytes of answers that a server's clients have not read yet."""

    most: int
    held: int = 0


class HttpConnection(asyncio.Protocol):
    def __init__(
        self,
        serve: Callable[[HttpRequest], Served],
        bodies: Bodies,
        unread: Unread,
        connections: "set[HttpConnection]",
        *,
        full: bool = False,
        names: Sequence[NameRule] = (),
    ) -> None:
        """`full`: refuse the client with 503. `names`: rules for principals of certificates."""
        self._serve = serve
        self._connections = connections
        self._reader = RequestReader(bodies)
        self._waiting: deque[HttpRequest] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._full = full
        self._names = names
        self._in_tls = False
        self._all_unread = unread
        self._unread = 0  # bytes that the client does not read; if any, nothing more is sent
        self._pieces: Iterator[bytes] | None = None  # of the answer that is being sent
        self._broken: ErrorAnswer | None = (
            None  # answer to malformed bytes after the waiting requests
        )
        self._closing = False
        self._since = 0.0  # when the current activity began
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport does not declare it
        self._transport.set_write_buffer_limits(high=_SEND_BUFFER)
        self._connections.add(self)
        self._since = _now()
        self._in_tls = self._transport.get_extra_info("ssl_object") is not None
        self._reader.peer = _peer(self._transport, self._names)
        if self._full:
            self._refuse(ErrorAnswer(503, 503, "Too many connections: try again"))

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        was_reading = self._reader.under_way
        self._waiting.extend(self._reader.feed(data))
        self._broken = self._reader.broken
        if self._reader.under_way and not was_reading:
            self._since = _now()
        if self._reader.wants_continue and self._reader.under_way:
            self._reader.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._serve_waiting()

    def eof_received(self) -> bool:
        # Requests in progress are still answered. TLS has no half-open connections.
        return self.busy and not self._in_tls

    def pause_writing(self) -> None:
        self._since = _now()
        self._unread = self._transport.get_write_buffer_size()
        self._all_unread.held += self._unread
        if self._all_unread.held > self._all_unread.most:
            log.warning(
                "too many unread response bytes: disconnecting a client unread_bytes=%d",
                self._unread,
            )
            self._transport.abort()

    def resume_writing(self) -> None:
        self._all_unread.held -= self._unread
        self._unread = 0
        self._serve_waiting()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._connections.discard(self)
        self._all_unread.held -= self._unread
        self._unread = 0
        self._pieces = None
        self._reader.close()
        while self._waiting:
            self._reader.let_go(self._waiting.popleft())

    @property
    def busy(self) -> bool:
        return self._serving is not None or self._pieces is not None or bool(self._waiting)

    def overdue(self, *, idle_s: float, stalled_s: float) -> bool:
        """Whether the client has been idle, or stalled in sending or reading, for too long."""
        if self._serving is not None:
            return False
        is_stalled = self._reader.under_way or bool(self._unread)
        return _now() - self._since > (stalled_s if is_stalled else idle_s)

    @property
    def idle_since(self) -> float | None:
        """The time of the last activity, or None while the connection is in use."""
        if self.busy or self._unread or self._reader.under_way:
            return None
        return self._since

    def finish(self) -> None:
        """Closes once no request is being served."""
        if self.busy:
            self._closing = True
        else:
            self._close()

    def abort(self) -> None:
        self._connections.discard(self)
        self._transport.abort()

    def _serve_waiting(self) -> None:
        self._send_pieces()
        turn_end = time.monotonic() + _TURN_S
        while self._waiting and not self._occupied and not self._transport.is_closing():
            if time.monotonic() > turn_end:
                asyncio.get_running_loop().call_soon(self._serve_waiting)
                break
            request = self._waiting.popleft()
            try:
                result = self._serve(request)
            except Exception:  # noqa: BLE001
                result = _failed(request)
            if isinstance(result, HttpResponse):
                self._send(request, result)
            else:
                self._serving = asyncio.ensure_future(self._finish(request, result))
        if self._transport.is_closing():
            return
        if self._broken is not None and not self._occupied and not self._waiting:
            self._refuse(self._broken)
        elif self.busy or self._unread:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def _occupied(self) -> bool:
        """Whether the next request must wait."""
        return self._serving is not None or self._pieces is not None or bool(self._unread)

    async def _finish(self, request: HttpRequest, result: Awaitable[HttpResponse]) -> None:
        try:
            response = await result
        except Exception:  # noqa: BLE001
            response = _failed(request)
        self._serving = None
        if not self._transport.is_closing():
            self._send(request, response)
            self._serve_waiting()
        else:
            self._reader.let_go(request)

    def _send(self, request: HttpRequest, response: HttpResponse) -> None:
        self._reader.let_go(request)
        self._since = _now()
        keep_alive = request.keep_alive and not self._closing
        body = response.body
        head = (
            f"HTTP/1.1 {response.status} {_PHRASES[response.status]}\r\n"
            f"Content-Type: {response.content_type or request.answer_type or V1}\r\n"
        )
        for name, value in response.headers:
            head += f"{name}: {value}\r\n"
        if isinstance(body, bytes):
            head += f"Content-Length: {len(body)}\r\n"
        elif request.takes_chunks:
            head += "Transfer-Encoding: chunked\r\n"
            body = _chunks(body)
        else:
            keep_alive = False  # the end of the connection marks the end of the answer
        self._closing = not keep_alive
        head += "\r\n" if keep_alive else "Connection: close\r\n\r\n"
        if request.method == "HEAD":
            self._transport.write(head.encode("latin-1"))
        elif isinstance(body, bytes):
            self._transport.write(head.encode("latin-1") + body)
        else:
            self._transport.write(head.encode("latin-1"))
            self._pieces = body
            self._send_pieces()
        if self._closing and self._pieces is None:
            self._close()

    def _send_pieces(self) -> None:
        """Send as many pieces as the client reads."""
        while self._pieces is not None and not self._unread:
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None
                if self._closing:
                    self._close()
            else:
                self._since = _now()
                self._transport.write(piece)

    def _refuse(self, error: ErrorAnswer) -> None:
        """Answer malformed bytes with an error, and close."""
        self._broken = None
        request = HttpRequest("GET", "/", {}, b"", keep_alive=False)
        self._send(request, error_answer(error.status, error.code, error.message))

    def _close(self) -> None:
        self._closing = True
        self._transport.close()


def _peer(transport: asyncio.Transport, names: Sequence[NameRule]) -> Peer:
    address = transport.get_extra_info("peername")
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    certificate = transport.get_extra_info("peercert")
    return Peer(host, certificate_name(certificate, names) if certificate else "")


def _chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def _failed(request: HttpRequest) -> HttpResponse:
    log.exception("request failed method=%s target=%.200r", request.method, request.target)
    return _FAILED


def _now() -> float:
    return asyncio.get_running_loop().time()
