"""Requests over HTTP and their answers, for every program that asks another.

Rule 1: an exchange has one deadline. Resolving the name, connecting, the TLS handshake, sending,
        status, headers and body all end by it, however slowly or endlessly a peer sends.
Rule 2: an answer is bounded, its head and its body, and believed by nobody yet: whoever asked
        checks its shape, and makes it printable before it is shown.
Rule 3: a connection that was kept is used again only if nothing has come on it since. It may end
        under the request all the same: then that is made once more on a new one, if it may be
        served twice.
Rule 4: what goes wrong is an `HttpError`. It tells apart what certainly was not sent from what may
        have been served all the same:

    HttpError              `url`, and `why` in words, for the end of a sentence
    ├── NotReached         there is no connection: nothing was sent
    │   └── NotTrusted     somebody is there, whose certificate is not believed: no patience helps
    └── NoAnswer           it may have been sent
        ├── NotHttp        what came is no HTTP
        └── TooLarge       more came than may

`why` never quotes the peer. It says what helps, where a mistake in an address or a certificate is
likely; how a program is started that does not run is known to those who want it. `str(error)` says
where, too, without user, password and query: whose path is a secret is told by `why` alone.

A status is no error, and a redirection is a status: none is followed. No proxies, no cookies, and
nothing compressed is asked for. https is checked against the system's certificates, or those of the
`tls` or the `access` that is passed in. A user and a password in the URL are sent with every
request; so is who an `access` says is asking, whose secret is read each time.
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

from ground.http_security import HttpAccess
from ground.secrets import NoSecret
from ground.tls import BadTls

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
    """Where somebody is asked. `path` goes before the path of every request: it is what a proxy put
    there. As text it shows where it leads: no user, password or query."""

    scheme: str
    host: str
    port: int
    path: str = ""
    query: str = field(default="", repr=False)
    user: str = field(default="", repr=False)  # with the password, if there is one: `me:secret`

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_url(text: str) -> HttpUrl:
    """Raises ValueError, which says what is wrong, and shows nothing of the URL."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_SUCH_AS) from None
    if parts.scheme not in _PORTS or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError("a URL begins with http:// or https://")
    if not parts.hostname or not text.isprintable() or " " in text:
        raise ValueError(_SUCH_AS)
    if not parts.path.isascii() or not parts.query.isascii():
        raise ValueError(_SUCH_AS)
    if port == 0:
        raise ValueError("0 is not a port")
    given = [unquote(each) for each in (parts.username, parts.password) if each is not None]
    return HttpUrl(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        path=parts.path,
        query=parts.query,
        user=":".join(given),
    )


def parse_program_url(text: str) -> HttpUrl:
    """Of a program below which its own paths begin, such as `http://localhost:8081`; as above."""
    if "@" in text:
        raise ValueError("a user and password in the URL are not supported")
    url = parse_url(text)
    if url.query or "#" in text:
        raise ValueError("nothing may follow the path")
    return replace(url, path=url.path.rstrip("/"))


class HttpError(Exception):
    """See above."""

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


class NotHttp(NoAnswer):
    pass


class TooLarge(NoAnswer):
    pass


class HttpAnswer(msgspec.Struct, frozen=True):
    """Of any status; `reason` is what the peer calls it."""

    status: int
    reason: str
    body: bytes


class HttpClient:
    """Somebody who is asked. Any thread may; each connection serves one request at a time.

    Between requests connections are kept. Whoever asks once closes it, or uses it as a context. A
    process that forks makes a new one.
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
        """Nobody is asked yet. `most_bytes` is for a body. `connect_within` gives up connecting
        before the request's own deadline, where somebody else can be asked instead."""
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
        """Closes what is idle; a connection in use is closed when its request is done."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
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
        """The answer, in so many seconds. Raises HttpError, and nothing else.

        `target` is a path, or its end, in the form in which it is sent. What is not `repeatable`
        must not be served twice: it is sent at most once, on a connection of its own. If the
        answer is not wanted `whole` its body is not waited for, and empty.
        """
        request = _Request(
            method,
            self._target(target),
            body,
            {**headers, **self._headers, **self._said_of_us()},
            _Deadline.after(within),
        )
        if repeatable and (kept := self._take()):
            with suppress(_ConnectionLost):
                return self._exchange(kept, request, whole=whole)
        try:
            return self._exchange(self._connect(request.deadline), request, whole=whole)
        except _ConnectionLost as error:
            raise NoAnswer(self.url, str(error)) from None

    def _said_of_us(self) -> Mapping[str, str]:
        try:
            return self._access.headers if self._access else {}
        except NoSecret as error:
            raise NotReached(self.url, str(error)) from None

    def _target(self, target: str) -> str:
        full = self.url.path + target
        return full if full.startswith("/") else f"/{full}"

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
            keep = not self._closed and len(self._idle) < _MOST_IDLE
            if keep:
                self._idle.append(connection)
        if not keep:
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
            raise NoAnswer(self.url, f"no answer within {request.deadline}") from None
        except IncompleteRead:
            raise _ConnectionLost("the answer broke off") from None
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
        """All of it. Never holds more than may come."""
        most = self._most
        body = bytearray()
        if (response.length or 0) <= most:
            while part := response.read(min(_AT_ONCE, most + 1 - len(body))):
                body += part
        if (response.length or 0) > most or len(body) > most:
            raise TooLarge(self.url, f"it answers with more than {most:,} bytes")
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
        """Resolvers cannot be told a deadline: they are asked on a thread, one at a time."""
        host, port = self.url.host, self.url.port
        with suppress(OSError, ValueError):  # not a number: a name
            return socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        with self._lock:
            if self._lookup is None or self._lookup.done():
                self._lookup = Future()
                asked = (self._lookup, self._resolve, host, port)
                threading.Thread(target=_look_up, args=asked, name="resolver", daemon=True).start()
            lookup = self._lookup
        try:
            return lookup.result(deadline.left())
        except TimeoutError:
            why = f"its name is not resolved within {deadline}"
        except (OSError, ValueError) as error:
            why = f"its name cannot be resolved: {_in_words(error)}"
        raise NotReached(self.url, why) from None

    def _connected(self, addresses: list[_Address], deadline: "_Deadline") -> socket.socket:
        """To the first address that takes it. Each gets its share of the time."""
        why = "its name stands for no address"
        for tried, (family, kind, protocol, _, address) in enumerate(addresses):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                why = _in_words(error)
                continue
            try:
                sock.settimeout(deadline.left() / (len(addresses) - tried))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
            except TimeoutError:
                why = f"no connection within {deadline}"
            except OSError as error:
                why = _in_words(error)
            sock.close()
        raise NotReached(self.url, why)

    def _encrypted(self, sock: socket.socket, deadline: "_Deadline") -> ssl.SSLSocket:
        own = self._access.tls if self._access else None
        try:
            if own is not None:
                context, name = own.context, own.server_name(self.url.host)
            else:
                self._tls = self._tls or ssl.create_default_context()
                context, name = self._tls, self.url.host
            sock.settimeout(deadline.left())
            return context.wrap_socket(sock, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate: {error.verify_message}"
            if error.verify_code in _UNKNOWN_AUTHORITY:
                believed = own.tls.ca if own is not None else ""
                why += (
                    f" (it is not signed by who is in {believed})"
                    if believed
                    else " (SSL_CERT_FILE may name a file of certificates to believe)"
                )
            failed: HttpError = NotTrusted(self.url, why)
        except BadTls as error:
            failed = NotReached(self.url, str(error))
        except TimeoutError:
            failed = NotReached(self.url, f"no TLS handshake within {deadline}")
        except (OSError, ValueError) as error:
            why = _in_words(error)
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                why = f"it does not speak TLS ({why}): http:// in place of https://?"
            failed = NotReached(self.url, why)
        sock.close()
        raise failed from None


class _ConnectionLost(Exception):
    """In words. If it had been kept, another may do better."""


class _Deadline(msgspec.Struct, frozen=True):
    """A point in time, by time.monotonic. As text: how long it was till there."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        return cls(time.monotonic() + seconds, seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"

    def left(self) -> float:
        """For a socket. Raises TimeoutError if it is over."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return max(left, _SHORTEST)


class _Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]
    deadline: _Deadline


class _Connection(HTTPConnection):
    """http.client's, which speaks HTTP, on a socket where everything ends at the deadline."""

    auto_open = 0  # never connects by itself: it has no deadline for that

    def __init__(self, url: HttpUrl, sock: socket.socket) -> None:
        super().__init__(url.host, url.port)
        self.default_port = _PORTS[url.scheme]  # is left out of the header Host
        self._plain = sock
        self._timed = _TimedSocket(sock)
        self.sock = self._timed

    def answer_to(self, request: _Request) -> HTTPResponse:
        """Its head has come, its body has not been read."""
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
        """Nothing has come since the last answer: neither an end nor what nobody asked for."""
        poll = select.poll()
        poll.register(self._plain, select.POLLIN)
        return not poll.poll(0)


class _TimedSocket:
    """What http.client wants of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.deadline = _Deadline(0, 0)
        self.head_left: int | None = None  # bytes of an answer's head that may still come
        self.is_cut_off = False  # within the head, which http.client takes for its end

    def sendall(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            self._sock.settimeout(self.deadline.left())
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self, self._sock))

    def close(self) -> None:
        self._sock.close()


class _Incoming(io.RawIOBase):
    """A socket's bytes until its deadline."""

    def __init__(self, timed: _TimedSocket, sock: socket.socket) -> None:
        self.timed = timed
        self._sock = sock
        # Holds the socket open: http.client closes it early when no further answer will come.
        self._bytes = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview[int]") -> int | None:  # type: ignore[override]
        self._sock.settimeout(self.timed.deadline.left())
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
    why = f"it does not speak HTTP ({type(error).__name__})"
    if url.scheme == "http" and isinstance(error, BadStatusLine) and _TLS_ALERT in str(error):
        why += ", but TLS: https:// in place of http://?"
    return why


def _in_words(error: Exception) -> str:
    """Nothing that the peer said."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS failed").replace("_", " ").lower()
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "it is no host name"
