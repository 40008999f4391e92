"""A connection's bytes become requests. No I/O; parsed by httptools (llhttp).

A head has a bound, also while one of its headers is not whole yet; a body has one, and the bodies
of all connections together have one. A body beyond them is read and dropped, up to a last bound, so
that its client comes to read the answer.
"""

from http import HTTPStatus
from typing import Final

import httptools
import msgspec

from registry.access.callers import NO_PEER
from registry.errors import Answered
from registry.http.messages import HttpRequest

_TARGET_BYTES: Final = 8 * 1024
_HEAD_BYTES: Final = 32 * 1024
_MOST_OFFERS: Final = 8  # of another protocol, on one connection
_DROPPED_BYTES: Final = 64 * 1024 * 1024


class Bodies(msgspec.Struct):
    """What all connections of a server may hold of bodies, and what they do."""

    most_of_one: int
    most_of_all: int
    held: int = 0


class RequestReader:
    """Feed it what has come. What cannot be a request is the end of the connection: `broken`."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._parser = httptools.HttpRequestParser(self)
        self._complete: list[HttpRequest] = []
        self.under_way = False  # a request has begun and is not complete
        self.broken: Answered | None = None
        self.wants_continue = False  # the client waits to be told that it may send the body
        self.peer = NO_PEER
        self._body = bytearray()
        self._offers = 0
        self._untold_bytes = 0  # since the parser has told something
        self._begin()

    def feed(self, data: bytes) -> list[HttpRequest]:
        """The requests that are complete now. Their bodies stay counted: see `let_go`."""
        if self.broken is None:
            self._untold_bytes += len(data)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offered:
                return self._without_offer(data[offered.args[0] :])
            except httptools.HttpParserCallbackError as error:
                if not isinstance(error.__context__, Answered):
                    raise
                self.broken = error.__context__
            except httptools.HttpParserError:
                self.broken = Answered(400, 400, "This is not HTTP/1.1")
            else:
                # httptools keeps a header until it is whole, however long it is.
                if self._untold_bytes > _HEAD_BYTES + _TARGET_BYTES:
                    self.broken = _head_too_large()
        return self._taken()

    def _without_offer(self, rest: bytes) -> list[HttpRequest]:
        """The client offers another protocol, as Java's does at first, and is taken at its HTTP.

        llhttp ends with the head of such a request and leaves its body, if it has one, in `rest`.
        """
        offered = self._complete.pop()
        self._offers += 1
        if self._offers > _MOST_OFFERS:
            self.broken = Answered(400, 400, "No other protocol is spoken here")
            return self._taken()
        head = f"{offered.method} {offered.target} HTTP/1.1\r\n"
        for name, value in offered.headers.items():
            if name not in {"upgrade", "connection", "http2-settings"}:
                head += f"{name}: {value}\r\n"
        self._parser = httptools.HttpRequestParser(self)
        return [*self._taken(), *self.feed(head.encode("latin-1") + b"\r\n" + rest)]

    def _taken(self) -> list[HttpRequest]:
        complete, self._complete = self._complete, []
        return complete

    def let_go(self, request: HttpRequest) -> None:
        """The request is served: its body is no longer held."""
        self._bodies.held -= len(request.body)

    def close(self) -> None:
        """What was read of an unfinished request is no longer held."""
        self._forget_body()

    # What httptools calls.

    def on_message_begin(self) -> None:
        self._untold_bytes = 0
        self._begin()
        self.under_way = True

    def on_url(self, url: bytes) -> None:
        self._untold_bytes = 0
        self._target += url
        if len(self._target) > _TARGET_BYTES:
            raise Answered(414, 414, f"A path and query have at most {_TARGET_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._untold_bytes = 0
        self._count_head(len(name) + len(value))
        key, said = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "accept" and key in self._headers:  # a list, in several headers
            said = f"{self._headers.pop(key)}, {said}"
        self._headers.setdefault(key, said)

    def on_headers_complete(self) -> None:
        self.wants_continue = self._headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        self._untold_bytes = 0
        bodies = self._bodies
        if self._dropped is None:
            if self._body_bytes + len(body) > bodies.most_of_one:
                self._drop(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            elif bodies.held + len(body) > bodies.most_of_all:
                self._drop(HTTPStatus.SERVICE_UNAVAILABLE)
            else:
                self._body += body
                bodies.held += len(body)
        self._body_bytes += len(body)
        if self._body_bytes > _DROPPED_BYTES:
            raise Answered(413, 413, f"A request's body has at most {bodies.most_of_one} bytes")

    def on_message_complete(self) -> None:
        self._complete.append(
            HttpRequest(
                self._parser.get_method().decode("ascii"),
                _path(self._target.decode("latin-1")),
                self._headers,
                bytes(self._body),
                self._parser.should_keep_alive(),
                self._dropped,
                takes_chunks=self._parser.get_http_version() == "1.1",
                peer=self.peer,
            )
        )
        self._body = bytearray()
        self.under_way = False

    def _begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._body = bytearray()
        self._body_bytes = 0
        self._dropped: HTTPStatus | None = None

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _HEAD_BYTES:
            raise _head_too_large()

    def _drop(self, why: HTTPStatus) -> None:
        self._dropped = why
        self._forget_body()

    def _forget_body(self) -> None:
        self._bodies.held -= len(self._body)
        self._body = bytearray()


def _head_too_large() -> Answered:
    return Answered(431, 431, f"A request's head has at most {_HEAD_BYTES} bytes")


def _path(target: str) -> str:
    """The path and query of an address, which proxies are sent whole."""
    path, _, _ = target.partition("#")
    if path.startswith("/"):
        return path
    for scheme in ("http://", "https://"):
        if path.lower().startswith(scheme):
            return "/" + path[len(scheme) :].partition("/")[2]
    return path
