"""Parses a connection's bytes into requests with httptools (llhttp). No I/O.

Bounded are the head, even within one incomplete header, each body, and the bodies of all
connections together. A larger body is read and discarded up to a final bound, so that the client
gets to read the answer.
"""

from http import HTTPStatus
from typing import Final

import httptools
import msgspec

from registry.access.callers import NO_PEER
from registry.errors import ErrorAnswer
from registry.http.connections.messages import HttpRequest

_TARGET_BYTES: Final = 8 * 1024
_HEAD_BYTES: Final = 32 * 1024
_MOST_OFFERS: Final = 8  # protocol upgrades offered on one connection
_DROPPED_BYTES: Final = 64 * 1024 * 1024


class Bodies(msgspec.Struct):
    """The limits on the body of one request and on the bodies of all connections, and the number of
    bytes held now."""

    most_of_one: int
    most_of_all: int
    held: int = 0


class RequestReader:
    """Parses requests from the bytes passed to `feed`. Malformed input sets `broken` and ends the
    connection."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._parser = httptools.HttpRequestParser(self)
        self._complete: list[HttpRequest] = []
        self.under_way = False  # a request is incomplete
        self.broken: ErrorAnswer | None = None
        self.wants_continue = False  # the client expects 100 Continue
        self.peer = NO_PEER
        self._body = bytearray()
        self._offers = 0
        self._silent_bytes = 0  # since the last callback of the parser
        self._begin()

    def feed(self, data: bytes) -> list[HttpRequest]:
        """Returns the requests that are now complete. Their bodies count against the limits until
        `let_go`."""
        if self.broken is None:
            self._silent_bytes += len(data)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                return self._ignore_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserCallbackError as error:
                if not isinstance(error.__context__, ErrorAnswer):
                    raise
                self.broken = error.__context__
            except httptools.HttpParserError:
                self.broken = ErrorAnswer(400, 400, "This is not HTTP/1.1")
            else:
                # httptools buffers an incomplete header without a limit.
                if self._silent_bytes > _HEAD_BYTES + _TARGET_BYTES:
                    self.broken = _head_too_large()
        return self._taken()

    def _ignore_upgrade(self, rest: bytes) -> list[HttpRequest]:
        """Ignore the offer of another protocol, which Java's client makes first, and serve it as
        HTTP.

        llhttp stops after the head of such a request and leaves its body, if any, in `rest`.
        """
        upgrade = self._complete.pop()
        self._offers += 1
        if self._offers > _MOST_OFFERS:
            self.broken = ErrorAnswer(400, 400, "Protocol upgrades are not supported")
            return self._taken()
        head = f"{upgrade.method} {upgrade.target} HTTP/1.1\r\n"
        for name, value in upgrade.headers.items():
            if name not in {"upgrade", "connection", "http2-settings"}:
                head += f"{name}: {value}\r\n"
        self._parser = httptools.HttpRequestParser(self)
        return [*self._taken(), *self.feed(head.encode("latin-1") + b"\r\n" + rest)]

    def _taken(self) -> list[HttpRequest]:
        requests, self._complete = self._complete, []
        return requests

    def let_go(self, request: HttpRequest) -> None:
        """Releases the body of a request that was served."""
        self._bodies.held -= len(request.body)

    def close(self) -> None:
        """Releases the body of an unfinished request."""
        self._forget_body()

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        self._silent_bytes = 0
        self._begin()
        self.under_way = True

    def on_url(self, url: bytes) -> None:
        self._silent_bytes = 0
        self._target += url
        if len(self._target) > _TARGET_BYTES:
            raise ErrorAnswer(414, 414, f"A path and query must have at most {_TARGET_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._silent_bytes = 0
        self._count_head(len(name) + len(value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "accept" and key in self._headers:  # a list, in several headers
            text = f"{self._headers.pop(key)}, {text}"
        self._headers.setdefault(key, text)

    def on_headers_complete(self) -> None:
        self.wants_continue = self._headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
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
            raise ErrorAnswer(
                413, 413, f"A request's body must have at most {bodies.most_of_one} bytes"
            )

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

    def _drop(self, reason: HTTPStatus) -> None:
        self._dropped = reason
        self._forget_body()

    def _forget_body(self) -> None:
        self._bodies.held -= len(self._body)
        self._body = bytearray()


def _head_too_large() -> ErrorAnswer:
    return ErrorAnswer(431, 431, f"A request's head has at most {_HEAD_BYTES} bytes")


def _path(target: str) -> str:
    """The path and query; proxies are sent the whole URL."""
    path, _, _ = target.partition("#")
    if path.startswith("/"):
        return path
    for scheme in ("http://", "https://"):
        if path.lower().startswith(scheme):
            return "/" + path[len(scheme) :].partition("/")[2]
    return path
