"""An HTTP client for programs that query other programs.

Rule 1: a request has one deadline. Name resolution, connecting, TLS handshake, sending, status,
        headers and body all end by it, however slowly or endlessly a peer sends.
Rule 2: a response's head and body are bounded, and not yet trusted: the caller checks its shape,
        and makes it printable before it is shown.
Rule 3: a kept connection is reused only if nothing has arrived on it since. It may still break
        during the request; then the request is repeated once on a new one, if it may be served
        twice.
Rule 4: every failure is an `HttpError`, which tells what certainly was not sent from what may have
        been served:

  HttpError              `url`, and `why` in words, for the end of a sentence
  ├── NotReached         there is no connection: nothing was sent
  │   └── NotTrusted     the server's certificate is not trusted: retrying does not help
  └── NoAnswer           the request may have been sent
      ├── NotHttp        the response is not HTTP
      └── TooLarge       the response exceeds the limit

`why` never quotes the peer. It says what helps where an address or a certificate is likely wrong;
callers know how a program that is down gets started. `str(error)` includes the URL without user,
password and query; where a path is secret, show `why` alone.

An error status is not an exception, and redirects are not followed. No proxies, cookies or
compression. https uses the system's certificates, or those of the given `tls` or `access`. A user
and password in the URL are sent with every request; so are the credentials of an `access`, whose
secret is read each time.
"""

import io
import select
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    IncompleteRead,
    LineTooLong,
)
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

import msgspec

from ground.http.security import HttpAccess
from ground.logins.secrets import NoSecret
from ground.printable import error_words
from ground.tls.client import BadTls

__all__ = [
    "HttpAnswer",
    "HttpClient",
    "HttpError",
    "HttpUrl",
    "NoAnswer",
    "NotHttp",
    "NotReached",
    "NotTrusted",
    "TooLarge",
    "parse_program_url",
    "parse_url",
]

MOST_BYTES: Final = 64 * 1024 * 1024
ACCEPT_JSON: Final[Mapping[str, str]] = {"Accept": "application/json"}

_PORTS: Final = {"http": 80, "https": 443}
_SUCH_AS: Final = "not a URL such as http://localhost:8081"
_MOST_OF_HEAD: Final = 256 * 1024
_AT_ONCE: Final = 65_536
_SHORTEST: Final = 0.001  # a timeout of 0 would make the socket non-blocking
_MOST_IDLE: Final = 8
_UNKNOWN_AUTHORITY: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_…, in OpenSSL's numbers
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
_TLS_ALERT: Final = "\x15\x03"

_Address = tuple[Any, Any, int, str, tuple[Any, ...]]  # as getaddrinfo has it
Resolve = Callable[..., list[_Address]]


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """The address of a server. `path` is put before the path of every request, as for a server
    behind a proxy. `str` shows no user, password or query."""

    scheme: str
    host: str
    port: int
    path: str = ""
    query: str = field(default="", repr=False)
    user: str = field(default="", repr=False)  # with the password, if any: `me:secret`

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_url(text: str) -> HttpUrl:
    """Parses a URL. Raises ValueError, whose text never shows the URL."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_SUCH_AS) from None
    if parts.scheme not in _PORTS or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError("the URL must begin with http:// or https://")
    if not parts.hostname or not text.isprintable() or " " in text:
        raise ValueError(_SUCH_AS)
    if not parts.path.isascii() or not parts.query.isascii():
        raise ValueError(_SUCH_AS)
    if port == 0:
        raise ValueError("0 is not a port")
    credentials = [unquote(part) for part in (parts.username, parts.password) if part is not None]
    return HttpUrl(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        path=parts.path,
        query=parts.query,
        user=":".join(credentials),
    )


def parse_program_url(text: str) -> HttpUrl:
    """Parses the base URL of a program, such as `http://localhost:8081`. Raises ValueError, whose
    text never shows the URL."""
    if "@" in text:
        raise ValueError("a user and password in the URL are not supported")
    url = parse_url(text)
    if url.query or "#" in text:
        raise ValueError("the URL must end after the path")
    return replace(url, path=url.path.rstrip("/"))


class HttpError(Exception):
    def __init__(self, url: HttpUrl, why: str) -> None:
        super().__init__(f"{url}: {why}")
        self.url = url
        self.why = why


class NotReached(HttpError):
    pass


class NotTrusted(NotReached):
    pass


class NoAnswer(HttpError):
    pass


class TimedOut(NoAnswer):
    pass


class NotHttp(NoAnswer):
    pass


class TooLarge(NoAnswer):
    pass


class HttpAnswer(msgspec.Struct, frozen=True):
    """A response of any status; `reason` is the peer's phrase."""

    status: int
    reason: str
    body: bytes


class HttpClient:
    """A client for one server. Thread-safe; each connection serves one request at a time.

    Connections are kept between requests. Close the client, or use it as a context manager. After a
    fork, create a new one.
    """

    def __init__(
        self,
        url: HttpUrl,
        *,
        tls: ssl.SSLContext | None = None,
        access: HttpAccess | None = None,
        most_bytes: int = MOST_BYTES,
        connect_within: float | None = None,
        resolve: Resolve = socket.getaddrinfo,
    ) -> None:
        """Connects lazily. `most_bytes` limits bodies. `connect_within` ends connecting before the
        request's deadline, if another server can be tried instead."""
        self.url = url
        self._tls = tls
        self._access = access
        self._most = most_bytes
        self._connect_within = connect_within
        self._resolve = resolve
        user = b64encode(url.user.encode()).decode()
        self._headers = {"Authorization": f"Basic {user}"} if url.user else {}
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._lookup: Future[list[_Address]] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections; a connection in use is closed after its request."""
        with self._lock:
            self._closed = True
            idle_connections, self._idle = self._idle, []
        for connection in idle_connections:
            connection.close()

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        within: float,
        headers: Mapping[str, str] = ACCEPT_JSON,
        repeatable: bool = True,
        whole: bool = True,
    ) -> HttpAnswer:
        """Sends a request and returns the response, for which it waits at most `within` seconds.
        Raises only HttpError.

        `target` is a path, or its end, encoded as it is sent. A request that is not `repeatable`
        must not be served twice: it is sent at most once, on its own connection. Unless the `whole`
        response is wanted its body is not awaited, and is empty.
        """
        request = _Request(
            method,
            self._target(target),
            body,
            {**headers, **self._headers, **self._credential_headers()},
            _Deadline.after(within),
        )
        if repeatable and (connection := self._take()):
            with suppress(_ConnectionLost):
                return self._exchange(connection, request, whole=whole)
        try:
            return self._exchange(self._connect(request.deadline), request, whole=whole)
        except _ConnectionLost as error:
            raise NoAnswer(self.url, str(error)) from None

    def _credential_headers(self) -> Mapping[str, str]:
        try:
            return self._access.headers if self._access else {}
        except NoSecret as error:
            raise NotReached(self.url, str(error)) from None

    def _target(self, target: str) -> str:
        full_path = self.url.path + target
        return full_path if full_path.startswith("/") else f"/{full_path}"

    def _take(self) -> "_Connection | None":
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()

    def _give_back(self, connection: "_Connection") -> None:
        with self._lock:
            is_kept = not self._closed and len(self._idle) < _MOST_IDLE
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _exchange(
        self, connection: "_Connection", request: "_Request", *, whole: bool
    ) -> HttpAnswer:
        keep = False
        try:
            with connection.answer_to(request) as response:
                body = self._body(response) if whole else b""
                answer = HttpAnswer(response.status, response.reason, body)
            keep = whole and not response.will_close
            return answer
        except TimeoutError:
            raise TimedOut(self.url, f"no answer within {request.deadline}") from None
        except IncompleteRead:
            raise _ConnectionLost("the response was cut off") from None
        except OSError as error:
            raise _ConnectionLost(_in_words(error)) from None
        except (HTTPException, ValueError) as error:
            raise NotHttp(self.url, _why_no_http(self.url, error)) from None
        finally:
            if keep:
                self._give_back(connection)
            else:
                connection.close()

    def _body(self, response: HTTPResponse) -> bytes:
        """Reads the body, and never holds more than the limit."""
        limit = self._most
        body = bytearray()
        if (response.length or 0) <= limit:
            while part := response.read(min(_AT_ONCE, limit + 1 - len(body))):
                body += part
        if (response.length or 0) > limit or len(body) > limit:
            raise TooLarge(self.url, f"its response has more than {limit:,} bytes")
        if response.length:
            raise IncompleteRead(b"", response.length)
        return bytes(body)

    def _connect(self, deadline: "_Deadline") -> "_Connection":
        if self._connect_within is not None and self._connect_within < deadline.seconds:
            deadline = _Deadline.after(self._connect_within)
        sock = self._connected(self._addresses(deadline), deadline)
        if self.url.scheme == "https":
            sock = self._encrypted(sock, deadline)
        return _Connection(self.url, sock)

    def _addresses(self, deadline: "_Deadline") -> list[_Address]:
        """Resolves on a thread, one lookup at a time, because resolvers know no deadline."""
        host, port = self.url.host, self.url.port
        with suppress(OSError, ValueError):  # not a number: a name
            return socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        with self._lock:
            if self._lookup is None or self._lookup.done():
                self._lookup = Future()
                arguments = (self._lookup, self._resolve, host, port)
                threading.Thread(
                    target=_look_up, args=arguments, name="resolver", daemon=True
                ).start()
            lookup = self._lookup
        try:
            return lookup.result(deadline.remaining())
        except TimeoutError:
            reason = f"its name was not resolved within {deadline}"
        except (OSError, ValueError) as error:
            reason = f"its name cannot be resolved: {_in_words(error)}"
        raise NotReached(self.url, reason) from None

    def _connected(self, addresses: list[_Address], deadline: "_Deadline") -> socket.socket:
        """Connects to the first address that accepts; each gets its share of the time."""
        reason = "its name has no address"
        for index, (family, kind, protocol, _, address) in enumerate(addresses):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                reason = _in_words(error)
                continue
            try:
                sock.settimeout(deadline.remaining() / (len(addresses) - index))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
            except TimeoutError:
                reason = f"no connection within {deadline}"
            except OSError as error:
                reason = _in_words(error)
            sock.close()
        raise NotReached(self.url, reason)

    def _encrypted(self, sock: socket.socket, deadline: "_Deadline") -> ssl.SSLSocket:
        client_tls = self._access.tls if self._access else None
        try:
            if client_tls is not None:
                context, name = client_tls.context, client_tls.server_name(self.url.host)
            else:
                self._tls = self._tls or ssl.create_default_context()
                context, name = self._tls, self.url.host
            sock.settimeout(deadline.remaining())
            return context.wrap_socket(sock, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate: {error.verify_message}"
            if error.verify_code in _UNKNOWN_AUTHORITY:
                ca = client_tls.tls.ca if client_tls is not None else ""
                reason += (
                    f" (not signed by an authority in {ca})"
                    if ca
                    else " (SSL_CERT_FILE may name a file of trusted certificates)"
                )
            failure: HttpError = NotTrusted(self.url, reason)
        except BadTls as error:
            failure = NotReached(self.url, str(error))
        except TimeoutError:
            failure = NotReached(self.url, f"no TLS handshake within {deadline}")
        except (OSError, ValueError) as error:
            reason = _in_words(error)
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                reason = f"it does not speak TLS ({reason}): http:// instead of https://?"
            failure = NotReached(self.url, reason)
        sock.close()
        raise failure from None


class _ConnectionLost(Exception):
    """The reason in words. A new connection may succeed where a kept one failed."""


class _Deadline(msgspec.Struct, frozen=True):
    """A point in monotonic time. `str` shows the duration until it."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        return cls(time.monotonic() + seconds, seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"

    def remaining(self) -> float:
        """The remaining time, for a socket. Raises TimeoutError if none remains."""
        seconds_left = self.at - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError
        return max(seconds_left, _SHORTEST)


class _Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]
    deadline: _Deadline


class _Connection(HTTPConnection):
    """http.client's connection, on a socket whose operations end at the deadline."""

    auto_open = 0  # never connects by itself, without a deadline

    def __init__(self, url: HttpUrl, sock: socket.socket) -> None:
        super().__init__(url.host, url.port)
        self.default_port = _PORTS[url.scheme]  # omitted from the header Host
        self._plain = sock
        self._timed = _TimedSocket(sock)
        self.sock = self._timed

    def answer_to(self, request: _Request) -> HTTPResponse:
        """Sends the request; returns the response with its head received and its body unread."""
        self._timed.deadline = request.deadline
        self._timed.head_left = _MOST_OF_HEAD
        self.request(request.method, request.target, request.body, dict(request.headers))
        response = self.getresponse()
        if self._timed.is_cut_off:
            response.close()
            raise IncompleteRead(b"")
        self._timed.head_left = None
        return response

    def is_quiet(self) -> bool:
        """Whether neither data nor an end of file has arrived since the last response."""
        poll = select.poll()
        poll.register(self._plain, select.POLLIN)
        return not poll.poll(0)


class _TimedSocket:
    """The part of a socket's interface that http.client uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.deadline = _Deadline(0, 0)
        self.head_left: int | None = None  # how many more bytes of a head are accepted
        self.is_cut_off = False  # ended within the head, which http.client accepts

    def sendall(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            self._sock.settimeout(self.deadline.remaining())
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self, self._sock))

    def close(self) -> None:
        self._sock.close()


class _Incoming(io.RawIOBase):
    """Reads a socket until its deadline."""

    def __init__(self, timed: _TimedSocket, sock: socket.socket) -> None:
        self.timed = timed
        self._sock = sock
        # Keeps the socket open: http.client closes it early before a last response is read.
        self._bytes = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview[int]") -> int | None:  # type: ignore[override]
        self._sock.settimeout(self.timed.deadline.remaining())
        count = self._bytes.readinto(buffer)
        if self.timed.head_left is not None:
            self.timed.is_cut_off = not count
            self.timed.head_left -= count or 0
            if self.timed.head_left < 0:
                raise LineTooLong("head")
        return count

    def close(self) -> None:
        self._bytes.close()
        super().close()


def _look_up(answer: Future[list[_Address]], resolve: Resolve, host: str, port: int) -> None:
    try:
        answer.set_result(resolve(host, port, type=socket.SOCK_STREAM))
    except (OSError, ValueError) as error:
        answer.set_exception(error)


def _why_no_http(url: HttpUrl, error: Exception) -> str:
    reason = f"it does not speak HTTP ({type(error).__name__})"
    if url.scheme == "http" and isinstance(error, BadStatusLine) and _TLS_ALERT in str(error):
        reason += ", but TLS: https:// instead of http://?"
    return reason


def _in_words(error: Exception) -> str:
    """Quotes nothing from the peer."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS failed").replace("_", " ").lower()
    if isinstance(error, OSError):
        return error_words(error).lower()
    return "not a host name"
