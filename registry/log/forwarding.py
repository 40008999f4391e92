"""Writes that another registry has to do: passed on to it, as they came, and its answers back.

A small HTTP/1.1 client for registries among themselves: connections are kept and used again, their
number is bounded, and what passes through them is not looked at. A request says that it is passed
on, so that nobody passes it on again; its answer says how far the writer had read the topic. Where
registries ask for logins it says for whom, too, and comes with this registry's own login: the
writer believes registries alone.

What was sent and not answered may have been done. Registering the same schema again, or setting
the same level or mode, changes nothing, so those may be sent again, to a new writer if need be. A
DELETE may not: the second would find nothing to delete, and say so. It goes on a connection of its
own, so that it is not lost on one that the other side has just closed for its age.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec
from httptools import HttpParserError, HttpResponseParser

from ground.http_security import HttpAccess
from ground.secrets import NoSecret
from ground.tls import BadTls
from registry.access.callers import PRINCIPAL
from registry.log.wording import REGISTERING, ErrorTexts

FORWARDED: Final = "penstock-forwarded"  # of a request: a registry has passed it on
OFFSET: Final = "penstock-offset"  # of the answer: the writer had read the topic up to here

_CONNECT_SECONDS: Final = 3.0
_READ_BYTES: Final = 64 * 1024
_BODY_BYTES: Final = 64 * 1024 * 1024


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A client's write, as it is passed on. `forwarded` if it has been already, once."""

    method: str
    target: str  # path and query, as they came
    headers: tuple[tuple[str, str], ...]  # those that the writer must see
    body: bytes
    forwarded: bool = False
    texts: ErrorTexts = REGISTERING
    principal: str = ""  # whose it is; empty where nobody has to log in

    @property
    def repeatable(self) -> bool:
        """Whether doing it twice is doing it once."""
        return self.method != "DELETE"


class Passed(msgspec.Struct, frozen=True):
    """The writer's answer, as the client is to get it. `offset` is how far the writer had read."""

    status: int
    content_type: str
    body: bytes
    offset: int


class NotPassed(Exception):
    """No answer. `sent` if the request may have been done all the same."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Forwarder:
    """Belongs to the event loop."""

    def __init__(self, connections: int, access: HttpAccess | None = None) -> None:
        """With an `access` whose TLS is set, the others are reached by TLS."""
        self._access = access
        self._places = asyncio.Semaphore(connections)
        self._idle: dict[str, list[_Connection]] = {}

    async def pass_on(self, address: str, request: ForwardedRequest) -> Passed:
        """What the registry at `address` answers. Takes as long as that takes: NotPassed is for
        connections that cannot be had, or break."""
        async with self._places:
            connection = None
            if request.repeatable:
                connection = self._take(address)
            if connection is None:
                connection = await _Connection.open(address, self._access)
            try:
                passed = await connection.ask(request, self._login(address))
            except BaseException:
                connection.close()
                raise
            if connection.reusable:
                self._idle.setdefault(address, []).append(connection)
            else:
                connection.close()
            return passed

    def _login(self, address: str) -> Mapping[str, str]:
        try:
            return self._access.headers if self._access else {}
        except NoSecret as error:
            raise NotPassed(f"{address}: {error}", sent=False) from None

    def keep_only(self, address: str | None) -> None:
        """Close what is kept open to others."""
        for other in [each for each in self._idle if each != address]:
            for connection in self._idle.pop(other):
                connection.close()

    def close(self) -> None:
        self.keep_only(None)

    def _take(self, address: str) -> "_Connection | None":
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
            connection.close()
        return None


class _Connection:
    """One request after the other."""

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
            raise NotPassed(f"{address}: no connection in time", sent=False) from None
        except BadTls as error:
            raise NotPassed(f"{address}: {error}", sent=False) from None
        except ssl.SSLError as error:
            raise NotPassed(f"{address}: TLS: {_in_words(error)}", sent=False) from None
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
            # They have each other, and a registry looks for rings seldom.
            del answer.parser


class _Answer:
    """What httptools finds in an answer."""

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
            raise ValueError(f"an answer of more than {_BODY_BYTES} bytes")
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True
        self.keeps_alive = self.parser.should_keep_alive()


def _in_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}"
    return (error.reason or "it failed").replace("_", " ").lower()


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
