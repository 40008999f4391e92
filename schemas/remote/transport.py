"""Requests to a registry and their answers: which instance is asked, how often, for how long.

Rule 1: a request is tried on one instance after the other, beginning with the one that answered
last, then again after a pause that doubles, with jitter, until it is answered or the patience is
over. Refused and broken connections, timeouts and answers of 5xx and 429 are worth another try;
anything else is the answer. Until any instance has answered for the first time there may be less
patience: whoever typed a wrong address wants to know.

Rule 2: a request that must not be served twice (a deletion: the second time it is an error) is
tried again only while it has certainly not been sent.

Rule 3: an answer is bounded in time and size, whatever the peer sends.

Connections are kept alive and shared by all threads, each used by one request at a time. A process
that forks makes a new transport. No proxies; https is checked against the system's certificates.
"""

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import Final, TypeVar

import msgspec

from schemas.errors import RegistryError, RegistryNotReachable, RegistryRefused
from schemas.remote.bounded_response import TooMuch, bounded_response, read_body
from schemas.remote.urls import RegistryUrl, parse_urls

__all__ = ["Transport"]

T = TypeVar("T")

MOST_BYTES: Final = 32 * 1024 * 1024
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_CONNECT_SECONDS: Final = 5.0
_MOST_IDLE: Final = 8  # connections kept for one instance
_LONGEST_MESSAGE: Final = 20_000
_TOO_MANY_REQUESTS: Final = 429


class _Unanswered(Exception):
    """One attempt on one instance failed."""

    def __init__(self, reason: str, *, sent: bool = False, stale: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent  # whether the request may have been served all the same
        self.stale = stale  # the connection was an old one: another may do better at once


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    body: bytes

    @property
    def worth_another_try(self) -> bool:
        return self.status >= 500 or self.status == _TOO_MANY_REQUESTS


class _Problem(msgspec.Struct):
    """What a registry says when it refuses."""

    error_code: int
    message: str = ""


class Transport:
    """The instances of one registry. Any thread may use it."""

    def __init__(
        self,
        urls: str,
        *,
        patience_seconds: float,
        first_contact_seconds: float,
        attempt_seconds: float,
        most_bytes: int = MOST_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """ValueError if the URLs cannot be understood. Nobody is asked yet."""
        self.urls = parse_urls(urls)
        self._patience = patience_seconds
        self._first_contact = first_contact_seconds
        self._attempt = attempt_seconds
        self._most = most_bytes
        self._sleep = sleep
        self._lock = threading.Lock()
        self._idle: dict[RegistryUrl, list[HTTPConnection]] = {url: [] for url in self.urls}
        self._preferred = 0
        self._answered = False
        self._closed = False
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        """Closes what is idle; a connection in use is closed when its request is done."""
        with self._lock:
            self._closed = True
            idle = [each for kept in self._idle.values() for each in kept]
            self._idle = {url: [] for url in self.urls}
        for connection in idle:
            connection.close()

    def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        document: object = None,
        *,
        repeatable: bool = True,
    ) -> T:
        """The answer, read as `kind`. Raises RegistryError, and nothing else."""
        try:
            body = None if document is None else msgspec.json.encode(document)
        except UnicodeEncodeError as error:
            raise RegistryError(f"what is asked for is no text: {error.reason}") from None
        url, answer = self._persist(method, path, body, repeatable=repeatable)
        if not 200 <= answer.status < 300:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise RegistryError(f"{url} does not answer as a schema registry: {error}") from None

    def _persist(
        self, method: str, path: str, body: bytes | None, *, repeatable: bool
    ) -> tuple[RegistryUrl, _Answer]:
        start = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            failed: RegistryError = RegistryNotReachable("no registry")
            first = self._preferred
            for turn in range(len(self.urls)):
                index = (first + turn) % len(self.urls)
                url = self.urls[index]
                try:
                    answer = self._on_any_connection(url, method, path, body, repeatable=repeatable)
                except _Unanswered as error:
                    failed = RegistryNotReachable(f"no registry at {url}: {error}")
                    if error.sent and not repeatable:
                        lost = f"{url} did not answer, it may have been done: {error}"
                        raise RegistryNotReachable(lost) from None
                    continue
                self._answered = True
                if not answer.worth_another_try or not repeatable:
                    self._preferred = index
                    return url, answer
                failed = _refusal(answer)
            patience = self._patience if self._answered else self._first_contact
            left = start + patience - time.monotonic()
            if left <= 0:
                raise failed from None
            self._sleep(min(left, pause * (0.5 + random.random() / 2)))  # noqa: S311 jitter
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _on_any_connection(
        self, url: RegistryUrl, method: str, path: str, body: bytes | None, *, repeatable: bool
    ) -> _Answer:
        """A connection that was idle may have been closed meanwhile: then all of them were."""
        if repeatable and (idle := self._take(url)):
            try:
                return self._exchange(url, idle, method, path, body, stale=True)
            except _Unanswered as error:
                if not error.stale:
                    raise
                while other := self._take(url):
                    other.close()
        return self._exchange(url, self._connect(url), method, path, body, stale=False)

    def _take(self, url: RegistryUrl) -> HTTPConnection | None:
        with self._lock:
            return self._idle[url].pop() if self._idle[url] else None

    def _connect(self, url: RegistryUrl) -> HTTPConnection:
        within = min(_CONNECT_SECONDS, self._attempt)
        connection = HTTPConnection(url.host, url.port, timeout=within)
        if url.scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            connection = HTTPSConnection(url.host, url.port, timeout=within, context=self._tls)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            # No patience helps against that.
            said = f"its certificate: {error.verify_message}"
            raise RegistryNotReachable(f"no registry at {url}: {said}") from None
        except OSError as error:
            connection.close()
            raise _Unanswered(_reason(error)) from None
        return connection

    def _exchange(
        self,
        url: RegistryUrl,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        *,
        stale: bool,
    ) -> _Answer:
        deadline = time.monotonic() + self._attempt
        keep = False

        def bounded(sock: socket.socket, *_: object, **__: object) -> object:
            return bounded_response(sock, method, deadline)

        connection.response_class = bounded  # type: ignore[assignment]
        connection.sock.settimeout(self._attempt)  # not what connecting, or the answer before, left
        try:
            # Where basic auth belongs: one header more.
            headers = {"Accept": _CONTENT} | ({"Content-Type": _CONTENT} if body else {})
            connection.request(method, url.path + path, body, headers)
            with connection.getresponse() as response:
                answer = _Answer(response.status, response.reason, read_body(response, self._most))
                keep = not response.will_close
            return answer
        except TooMuch as error:
            raise RegistryError(f"{url} answers with {error}") from None
        except TimeoutError:
            raise _Unanswered(f"no answer within {self._attempt:g} s", sent=True) from None
        except (OSError, HTTPException, ValueError) as error:
            raise _Unanswered(_reason(error), sent=True, stale=stale) from None
        finally:
            self._give_back(url, connection, keep=keep)

    def _give_back(self, url: RegistryUrl, connection: HTTPConnection, *, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed and len(self._idle[url]) < _MOST_IDLE
            if keep:
                self._idle[url].append(connection)
        if not keep:
            connection.close()


def _refusal(answer: _Answer) -> RegistryRefused:
    try:
        problem = msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        said = f"HTTP {answer.status} {answer.reason}".rstrip()
        return RegistryRefused(answer.status, answer.status, said)
    return RegistryRefused(answer.status, problem.error_code, problem.message[:_LONGEST_MESSAGE])


def _reason(error: Exception) -> str:
    """In words, and nothing that the peer said."""
    if isinstance(error, IncompleteRead):
        return "the answer broke off"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS failed").replace("_", " ").lower()
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return f"what answers does not speak HTTP ({type(error).__name__})"
