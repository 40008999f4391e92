"""A small HTTP server for a few pages, for Prometheus, supervisors and people.

It has its own thread and event loop, so scrapes wait for nothing and work even while the program
starts. It answers GET and HEAD, reads no bodies, and closes each connection after one response. A
client's resources are bounded: the request head, the total time, and the number of connections, per
network and in total. `PageDoor` decides who may see which page.
"""

import asyncio
import errno
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from ground.http.heads import AmbiguousHead, check_head
from ground.http.page_connection import PageConnection
from ground.http.page_door import OPEN_PAGES, NotLetIn, PageDoor
from ground.http.page_locks import PageLocks
from ground.network.listening import listen
from ground.network.networks import network_of
from ground.network.refusals import Refusals
from ground.tls.client import BadTls, why
from ground.tls.server import ServerTls

_HEAD_BYTES: Final = 8 * 1024
_CLIENT_S: Final = 5.0  # from a connection's first byte to its last
_CONNECTIONS: Final = 32
_OF_ONE_ADDRESS: Final = 24
_PAUSE_S: Final = 0.5  # when out of file descriptors
_PLAIN: Final = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


class Page(msgspec.Struct, frozen=True):
    """A response."""

    body: bytes
    content_type: str = _PLAIN
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = {}


def text_page(text: str, status: HTTPStatus = HTTPStatus.OK) -> Page:
    return Page(text.encode() + b"\n", status=status)


def readiness_page(why_not: str, remarks: Sequence[str] = ()) -> Page:
    """Returns the page `/readyz`: `why_not` is empty if the program is ready; `remarks` follow, one
    per line."""
    if why_not:
        lines = [f"not ready: {why_not}", *remarks]
        return text_page("\n".join(lines), HTTPStatus.SERVICE_UNAVAILABLE)
    return text_page("\n".join(["ready", *remarks]))


class _Refused(Exception):
    """The request is answered with `status`, and the connection is closed."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class PageServer:
    """A server that listens from construction on; `start` begins to answer.

    `pages` maps paths to functions, called on this server's thread for each request. Without a
    `door` everyone may see them.
    """

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[], Page]],
        door: PageDoor | None = None,
    ) -> None:
        """Binds the address. Raises CannotListen."""
        self._pages = pages
        self._door = door or PageDoor(PageLocks(), Refusals())
        self._listener = listen(host, port, backlog=_CONNECTIONS, keys=("http_host", "http_port"))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._conversations: dict[asyncio.Task[None], str] = {}  # and their clients' networks
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections and ends the thread."""
        if self._thread.ident is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._listener.close()
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)
        await self._stopping.wait()
        self._loop.remove_reader(self._listener.fileno())
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def _accept(self) -> None:
        try:
            client_socket, client = self._listener.accept()
        except OSError as error:  # the client has gone, or the process is out of descriptors
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                log.warning("http connection not accepted error=%r", error.strerror)
                time.sleep(_PAUSE_S)
            return
        address = str(client[0])
        network = network_of(address)
        networks = self._conversations.values()
        if len(networks) >= _CONNECTIONS or list(networks).count(network) >= _OF_ONE_ADDRESS:
            client_socket.close()
            return
        client_socket.setblocking(False)
        connection = PageConnection(client_socket, self._loop)
        conversation = self._loop.create_task(self._converse(connection, address))
        self._conversations[conversation] = network

        def ended(_: asyncio.Task[None]) -> None:
            connection.close()  # here, because a task may be cancelled before it starts
            del self._conversations[conversation]

        conversation.add_done_callback(ended)

    async def _converse(self, connection: PageConnection, address: str) -> None:
        try:
            async with asyncio.timeout(_CLIENT_S):
                if self._door.tls is not None:
                    await self._encrypt(connection, self._door.tls, address)
                await self._answer(connection, address)
                # Read what the client still sends, or closing would reset the connection.
                connection.end_sending()
                while await connection.receive(_HEAD_BYTES):
                    pass
        except (OSError, EOFError, TimeoutError):
            pass  # the client has gone or is too slow

    async def _encrypt(self, connection: PageConnection, tls: ServerTls, address: str) -> None:
        try:
            await connection.encrypt(tls.context)
        except (ssl.SSLError, BadTls) as error:
            failure = why(error, "connection lost")
            self._door.refusals.say("no TLS handshake", address, "", failure, self._loop.time())
            raise ConnectionAbortedError from None

    async def _answer(self, connection: PageConnection, address: str) -> None:
        method = ""
        try:
            request = _request(await self._head(connection))
            method = request.method
            page = self._page_for(request, connection, address)
        except _Refused as refused:
            page = text_page(refused.status.phrase, refused.status)
        await connection.send(_head_of(page))
        if method != "HEAD":
            # Not joined to the head, so that a large page for many clients is held once.
            await connection.send(page.body)

    async def _head(self, connection: PageConnection) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            if len(head) >= _HEAD_BYTES:
                raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            data = await connection.receive(_HEAD_BYTES - len(head))
            if not data:
                raise EOFError
            head += data
        try:
            check_head(head)
        except AmbiguousHead:
            raise _Refused(HTTPStatus.BAD_REQUEST) from None
        return head.partition(b"\r\n\r\n")[0]

    def _page_for(self, request: "_Request", connection: PageConnection, address: str) -> Page:
        try:
            self._door.check(request.authorization, has_certificate=connection.has_certificate)
        except NotLetIn as error:
            if request.path in OPEN_PAGES:
                status = self._page(request.path).status
                return text_page(status.phrase.lower(), status)
            request_line = f"{request.method} {request.path}"
            self._door.refusals.say(str(error), address, "", request_line, self._loop.time())
            status, headers = self._door.refusal
            return Page(f"{error}\n".encode(), status=status, headers=headers)
        return self._page(request.path)

    def _page(self, path: str) -> Page:
        make_page = self._pages.get(path)
        if make_page is None:
            return text_page(f"not found; pages: {', '.join(self._pages)}", HTTPStatus.NOT_FOUND)
        try:
            return make_page()
        except Exception:  # a bug in a page must not end the server
            log.exception("http request failed path=%r", path)
            message = "internal error; see the program's log"
            return text_page(message, HTTPStatus.INTERNAL_SERVER_ERROR)


class _Request(NamedTuple):
    """The parts of a request that matter here; other headers are ignored."""

    method: str
    path: str
    authorization: tuple[str, ...]


def _request(head: bytes) -> _Request:
    request_line, *lines = head.split(b"\r\n")
    words = request_line.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not head.isascii():
        raise _Refused(HTTPStatus.BAD_REQUEST)
    if words[0] not in {b"GET", b"HEAD"}:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    fields = (line.partition(b":") for line in lines)
    authorization = tuple(
        value.strip().decode() for name, _, value in fields if name.lower() == b"authorization"
    )
    return _Request(words[0].decode(), words[1].decode().partition("?")[0], authorization)


def _head_of(page: Page) -> bytes:
    headers = {
        "Content-Type": page.content_type,
        "Content-Length": str(len(page.body)),
        "Connection": "close",
        **page.headers,
    }
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET, HEAD"
    lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
