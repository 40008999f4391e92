"""One client's connection: requests are served one at a time, and answered in their order.

While one is served, or while the client does not read its answers, nothing more is read. Of many
that came at once, some are served at a time, and then other clients. A long answer is made piece by
piece, as the client reads it; what all clients together have not read has a bound, beyond which the
next one that does not read is cut off. So is what takes too long, by the server, which asks
`overdue` now and then. An exception of `serve` is a bug: it is logged, answered with 500, and hurts
nobody else.

Written by hand: uvicorn answers a third as many requests
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

from ground.certificate_names import NameRule, certificate_name
from registry.access.callers import Peer
from registry.errors import Answered
from registry.http.media_types import V1
from registry.http.messages import HttpRequest, HttpResponse, error_answer
from registry.http.reading import Bodies, RequestReader

log = logging.getLogger(__name__)

_SEND_BUFFER: Final = 256 * 1024
_TURN_S: Final = 0.005  # then others are served
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_FAILED: Final = error_answer(500, 500, "Internal Server Error")

Served = HttpResponse | Awaitable[HttpResponse]


class Unread(msgspec.Struct):
    """What the clients of a server have not read of their answers, in bytes."""

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
        """With `full`, the client is told to come back. `names` say who is who by certificate."""
        self._serve = serve
        self._connections = connections
        self._reader = RequestReader(bodies)
        self._waiting: deque[HttpRequest] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._full = full
        self._names = names
        self._in_tls = False
        self._all_unread = unread
        self._unread = (
            0  # bytes that the client does not read; while there are any, nothing is sent
        )
        self._pieces: Iterator[bytes] | None = None  # of the answer that is being sent
        self._broken: Answered | None = None  # what came after the requests that wait
        self._closing = False
        self._since = 0.0  # when what is going on began
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is, but does not say so
        self._transport.set_write_buffer_limits(high=_SEND_BUFFER)
        self._connections.add(self)
        self._since = _now()
        self._in_tls = self._transport.get_extra_info("ssl_object") is not None
        self._reader.peer = _peer(self._transport, self._names)
        if self._full:
            self._refuse(Answered(503, 503, "Too many connections: try again"))

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        began = self._reader.under_way
        self._waiting.extend(self._reader.feed(data))
        self._broken = self._reader.broken
        if self._reader.under_way and not began:
            self._since = _now()
        if self._reader.wants_continue and self._reader.under_way:
            self._reader.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._serve_waiting()

    def eof_received(self) -> bool:
        # What is being served is still answered. TLS has no half of a connection to leave open.
        return self.busy and not self._in_tls

    def pause_writing(self) -> None:
        self._since = _now()
        self._unread = self._transport.get_write_buffer_size()
        self._all_unread.held += self._unread
        if self._all_unread.held > self._all_unread.most:
            log.warning("too much is unread by clients: one is cut off bytes=%d", self._unread)
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
        """Whether the client sends nothing, or sends or reads too slowly."""
        if self._serving is not None:
            return False
        stalled = self._reader.under_way or bool(self._unread)
        return _now() - self._since > (stalled_s if stalled else idle_s)

    @property
    def idle_since(self) -> float | None:
        """When it has last done anything; None while it is of use to its client."""
        if self.busy or self._unread or self._reader.under_way:
            return None
        return self._since

    def finish(self) -> None:
        """Close once nothing is being served."""
        if self.busy:
            self._closing = True
        else:
            self._close()

    def abort(self) -> None:
        self._connections.discard(self)
        self._transport.abort()

    def _serve_waiting(self) -> None:
        self._send_pieces()
        until = time.monotonic() + _TURN_S
        while self._waiting and not self._occupied and not self._transport.is_closing():
            if time.monotonic() > until:
                asyncio.get_running_loop().call_soon(self._serve_waiting)
                break
            request = self._waiting.popleft()
            try:
                served = self._serve(request)
            except Exception:  # noqa: BLE001
                served = _failed(request)
            if isinstance(served, HttpResponse):
                self._send(request, served)
            else:
                self._serving = asyncio.ensure_future(self._finish(request, served))
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

    async def _finish(self, request: HttpRequest, served: Awaitable[HttpResponse]) -> None:
        try:
            response = await served
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
            keep_alive = False  # the end of the connection is the end of the answer
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
        """As many as the client reads."""
        while self._pieces is not None and not self._unread:
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None
                if self._closing:
                    self._close()
            else:
                self._since = _now()
                self._transport.write(piece)

    def _refuse(self, error: Answered) -> None:
        """Answer bytes that are no request, and close."""
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
    log.exception("a request failed method=%s target=%.200r", request.method, request.target)
    return _FAILED


def _now() -> float:
    return asyncio.get_running_loop().time()
