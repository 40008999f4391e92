"""Forwards writes to the registry that is the writer, and returns its answers.

A small HTTP/1.1 client between registries: it keeps a bounded number of connections, and passes
bodies through unparsed. A request is marked as forwarded, so that it is not forwarded again; the
answer tells how far the writer has read the topic. Where logins are required, the request carries
this registry's login and the original caller, which the writer accepts from registries only.

A request that was sent but not answered may have been executed. Registering the same schema, or
setting the same level or mode, has no effect the second time, so these are retried, with a new
writer if need be. A DELETE is not: the second would fail because nothing is left to delete. It uses
a new connection, so that it cannot be lost on one that the other side has just closed as idle.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec
from httptools import HttpParserError, HttpResponseParser

from ground.http.security import HttpAccess
from ground.logins.secrets import NoSecret
from ground.tls.client import BadTls
from registry.access.callers import PRINCIPAL
from registry.log.error_texts import REGISTERING, ErrorTexts

FORWARDED: Final = "penstock-forwarded"  # on a request: forwarded by a registry
OFFSET: Final = "penstock-offset"  # on the answer: the offset up to which the writer has read

_CONNECT_SECONDS: Final = 3.0
_READ_BYTES: Final = 64 * 1024
_BODY_BYTES: Final = 64 * 1024 * 1024


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A client's write to be forwarded. `forwarded`: whether another registry has already forwarded
    it."""

    method: str
    target: str  # path and query, unchanged
    headers: tuple[tuple[str, str], ...]  # those that the writer needs
    body: bytes
    forwarded: bool = False
    texts: ErrorTexts = REGISTERING
    principal: str = ""  # the caller; empty where no login is required

    @property
    def repeatable(self) -> bool:
        """Whether a second execution has no effect."""
        return self.method != "DELETE"


class Passed(msgspec.Struct, frozen=True):
    """The writer's answer to the client. `offset`: the writer's next offset to read."""

    status: int
    content_type: str
    body: bytes
    offset: int


class NotPassed(Exception):
    """The request was not answered. `sent` says whether it may have been executed."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Forwarder:
    """Forwards requests to other registries. Belongs to the event loop."""

    def __init__(self, connections: int, access: HttpAccess | None = None) -> None:
        """`access` with TLS: the other registries are reached by TLS."""
        self._access = access
        self._slots = asyncio.Semaphore(connections)
        self._idle: dict[str, list[_Connection]] = {}

    async def pass_on(self, address: str, request: ForwardedRequest) -> Passed:
        """Forwards the request to the registry at `address`, without a timeout, and returns the
        answer. Raises NotPassed if it cannot connect or the connection breaks."""
        async with self._slots:
            connection = None
            if request.repeatable:
                connection = self._take(address)
            if connection is None:
                connection = await _Connection.open(address, self._access)
            try:
                writer_answer = await connection.ask(request, self._login(address))
            except BaseException:
                connection.close()
                raise
            if connection.reusable:
                self._idle.setdefault(address, []).append(connection)
            else:
                connection.close()
            return writer_answer

    def _login(self, address: str) -> Mapping[str, str]:
        try:
            return self._access.headers if self._access else {}
        except NoSecret as error:
            raise NotPassed(f"{address}: {error}", sent=False) from None

    def keep_only(self, address: str | None) -> None:
        """Closes idle connections to all other addresses."""
        for idle_address in [peer for peer in self._idle if peer != address]:
            for connection in self._idle.pop(idle_address):
                connection.close()

    def close(self) -> None:
        self.keep_only(None)

    def _take(self, address: str) -> "_Connection | None":
        idle_connections = self._idle.get(address, [])
        while idle_connections:
            connection = idle_connections.pop()
            if connection.reusable:
                return connection
            connection.close()
        return None


class _Connection:
    """Sends one request at a time."""

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._kept = True

    @classmethod
    async def open(cls, address: str, access: HttpAccess | None) -> "_Connection":
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        tls = access.tls if access else None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                streams = await asyncio.open_connection(
                    host,
                    int(port),
                    ssl=tls.context if tls else None,
                    server_hostname=tls.server_name(host) if tls else None,
                )
        except TimeoutError:
            raise NotPassed(f"{address}: connection timed out", sent=False) from None
        except BadTls as error:
            raise NotPassed(f"{address}: {error}", sent=False) from None
        except ssl.SSLError as error:
            raise NotPassed(f"{address}: TLS: {_tls_reason(error)}", sent=False) from None
        except OSError as error:
            raise NotPassed(f"{address}: {error.strerror or error}", sent=False) from None
        return cls(address, *streams)

    @property
    def reusable(self) -> bool:
        return self._kept and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def ask(self, request: ForwardedRequest, login: Mapping[str, str]) -> Passed:
        try:
            self._writer.write(_encoded(self._address, request, login))
            await self._writer.drain()
            return await self._answer()
        except (OSError, EOFError, ValueError, HttpParserError) as error:
            raise NotPassed(f"{self._address}: {error!r}", sent=True) from None

    async def _answer(self) -> Passed:
        answer = _Answer()
        try:
            while not answer.complete:
                data = await self._reader.read(_READ_BYTES)
                if not data:
                    raise EOFError("the connection was closed")
                answer.parser.feed_data(data)
            self._kept = answer.keeps_alive
            return Passed(
                status=answer.parser.get_status_code(),
                content_type=answer.headers.get("content-type", ""),
                body=bytes(answer.body),
                offset=int(answer.headers.get(OFFSET, "0")),
            )
        finally:
            # They form a cycle, and a registry collects garbage rarely.
            del answer.parser


class _Answer:
    """Collects httptools' callbacks for an answer."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.complete = False
        self.keeps_alive = False
        self.parser = HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        if len(self.body) + len(body) > _BODY_BYTES:
            raise ValueError(f"answer of more than {_BODY_BYTES} bytes")
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True
        self.keeps_alive = self.parser.should_keep_alive()


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return (error.reason or "failed").replace("_", " ").lower()


def _encoded(address: str, request: ForwardedRequest, login: Mapping[str, str]) -> bytes:
    lines = [
        f"{request.method} {request.target} HTTP/1.1",
        f"Host: {address}",
        f"Content-Length: {len(request.body)}",
        f"{FORWARDED}: 1",
        *(f"{name}: {value}" for name, value in (*request.headers, *login.items())),
    ]
    if request.principal:
        lines.append(f"{PRINCIPAL}: {quote(request.principal, safe='')}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
