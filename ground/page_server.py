"""A program's small HTTP server: a few pages, for Prometheus, supervisors and people.

It has a thread and an event loop of its own, so that a scrape waits for nothing and is seen even
while the program starts. It answers GET and HEAD, reads no bodies, and closes each connection after
one answer. What a client may hold is bounded: its head, the time it takes to send and to read, and
the number of connections.
"""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from ground.listening import listen

_HEAD_BYTES: Final = 8 * 1024
_CLIENT_S: Final = 5.0  # from a connection's first byte to its last
_CONNECTIONS: Final = 32
_PAUSE_S: Final = 0.5  # where there are no files left
_PLAIN: Final = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered."""

    body: bytes
    content_type: str = _PLAIN
    status: HTTPStatus = HTTPStatus.OK


def text_page(text: str, status: HTTPStatus = HTTPStatus.OK) -> Page:
    return Page(text.encode() + b"\n", status=status)


def readiness_page(why_not: str, remarks: Sequence[str] = ()) -> Page:
    """`/readyz`: `why_not` is empty if the program is ready. `remarks` follow, a line each."""
    if why_not:
        lines = [f"not ready: {why_not}", *remarks]
        return text_page("\n".join(lines), HTTPStatus.SERVICE_UNAVAILABLE)
    return text_page("\n".join(["ready", *remarks]))


class _Refused(Exception):
    """The request is answered with `status` and closed."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class PageServer:
    """Listens from its construction on; `start` begins to answer.

    `pages` are by path; each is made when it is asked for, on this server's thread.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._pages = pages
        self._listener = listen(host, port, backlog=_CONNECTIONS, keys=("http_host", "http_port"))
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
        conversations: set[asyncio.Task[None]] = set()
        self._loop.add_reader(self._listener.fileno(), self._accept, conversations)
        await self._stopping.wait()
        self._loop.remove_reader(self._listener.fileno())
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)

    def _accept(self, conversations: set[asyncio.Task[None]]) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # the client has gone again, or we are out of files
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                log.warning("http connection not accepted error=%r", error.strerror)
                time.sleep(_PAUSE_S)
            return
        if len(conversations) >= _CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        conversation = self._loop.create_task(self._converse(connection))
        conversations.add(conversation)

        def ended(_: asyncio.Task[None]) -> None:
            connection.close()  # here, because a task may be cancelled before it has begun
            conversations.discard(conversation)

        conversation.add_done_callback(ended)

    async def _converse(self, connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(_CLIENT_S):
                await self._answer(connection)
                # What the client still sends is taken, or its end would reset the answer.
                connection.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(connection, _HEAD_BYTES):
                    pass
        except (OSError, EOFError, TimeoutError):
            pass  # the client went away, or dawdled: there is nobody to tell

    async def _answer(self, connection: socket.socket) -> None:
        try:
            method, target = _request_line(await self._head(connection))
        except _Refused as refused:
            method, page = "", text_page(refused.status.phrase, refused.status)
        else:
            page = self._page(target.partition("?")[0])
        await self._loop.sock_sendall(connection, _head_of(page))
        if method != "HEAD":
            # Not joined to its head: a large page that many clients read is held once.
            await self._loop.sock_sendall(connection, page.body)

    async def _head(self, connection: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            if len(head) >= _HEAD_BYTES:
                raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            received = await self._loop.sock_recv(connection, _HEAD_BYTES - len(head))
            if not received:
                raise EOFError
            head += received
        return head.partition(b"\r\n\r\n")[0]

    def _page(self, path: str) -> Page:
        made = self._pages.get(path)
        if made is None:
            return text_page(f"there are {', '.join(self._pages)}", HTTPStatus.NOT_FOUND)
        try:
            return made()
        except Exception:  # a bug in what was asked; the program lives on and so does this server
            log.exception("http request failed path=%r", path)
            said = "failed; the program's log says how"
            return text_page(said, HTTPStatus.INTERNAL_SERVER_ERROR)


def _request_line(head: bytes) -> tuple[str, str]:
    """Method and target. What the headers say changes nothing that is served here."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not head.isascii():
        raise _Refused(HTTPStatus.BAD_REQUEST)
    if words[0] not in {b"GET", b"HEAD"}:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    return words[0].decode(), words[1].decode()


def _head_of(page: Page) -> bytes:
    headers = {
        "Content-Type": page.content_type,
        "Content-Length": str(len(page.body)),
        "Connection": "close",
    }
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET, HEAD"
    lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
