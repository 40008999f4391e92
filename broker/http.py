"""A broker's small HTTP server: /metrics, /healthz, /readyz, for Prometheus and for supervisors.

It has a thread and an event loop of its own, so that a scrape waits for nothing and is seen even
while the broker starts. It answers GET and HEAD, reads no bodies, and closes each connection after
one answer. What a client may hold is bounded: its head, the time it takes to send and to read, and
the number of connections.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from broker.metrics import CONTENT_TYPE, BrokerMetrics

_HEAD_BYTES: Final = 8 * 1024
_CLIENT_S: Final = 5.0  # from a connection's first byte to its last
_CONNECTIONS: Final = 32
_PLAIN: Final = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Response:
    status: HTTPStatus
    body: bytes
    content_type: str = _PLAIN
    headers: dict[str, str] = field(default_factory=dict)


class _Refused(Exception):
    """The request is answered with `status` and closed."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpServer:
    """Listens from its construction on; `start` begins to answer.

    `readiness` says why the broker is not ready, "" when it is; `health` says how its session with
    ZooKeeper is. Both are called on this server's thread.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: BrokerMetrics,
        *,
        readiness: Callable[[], str],
        health: Callable[[], str],
    ) -> None:
        self._metrics = metrics
        self._readiness = readiness
        self._health = health
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if self._thread.ident is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._listener.close()
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(tasks) >= _CONNECTIONS:
                writer.transport.abort()
                return
            task = self._loop.create_task(self._converse(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accepted, sock=self._listener, limit=_HEAD_BYTES)
        await self._stopping.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CLIENT_S):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client went away, or dawdled: there is nobody to tell
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        wants_body = True
        try:
            method, target = _request_line(await _head(reader))
            wants_body = method != "HEAD"
            response = self._respond(target.partition("?")[0])
        except _Refused as refused:
            headers = {}
            if refused.status is HTTPStatus.METHOD_NOT_ALLOWED:
                headers["Allow"] = "GET, HEAD"
            response = _plain(refused.status, refused.status.phrase, headers)
        except Exception:  # a bug in what was asked; the broker lives on and so does this server
            log.exception("http request failed")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            response = _plain(status, status.phrase)
        return _encoded(response, wants_body)

    def _respond(self, path: str) -> _Response:
        match path:
            case "/metrics":
                return _Response(HTTPStatus.OK, self._metrics.exposition(), CONTENT_TYPE)
            case "/healthz":
                return _plain(HTTPStatus.OK, f"alive\nzookeeper: {self._health()}")
            case "/readyz":
                if reason := self._readiness():
                    return _plain(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {reason}")
                return _plain(HTTPStatus.OK, "ready")
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot listen on {host}:{port} for HTTP: {error.strerror}"
        ) from None


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None


def _request_line(head: bytes) -> tuple[str, str]:
    """Method and target. What the headers say changes nothing that is served here."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not head.isascii():
        raise _Refused(HTTPStatus.BAD_REQUEST)
    if words[0] not in {b"GET", b"HEAD"}:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    return words[0].decode(), words[1].decode()


def _plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> _Response:
    return _Response(status, text.encode() + b"\n", headers=headers or {})


def _encoded(response: _Response, wants_body: bool) -> bytes:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Connection": "close",
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + response.body if wants_body else head
