"""The audit service, asked over HTTP whether agents and brokers are done with an hour.

Whatever it answers, or does not, is a verdict: an audit that is away only makes hours wait. Once it
was not to be reached, or did not answer as an audit, it is not asked again in this load; that it
refuses one question says nothing of others. What it says is cut to what a marker may hold.
"""

import socket
import ssl
import time
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlencode

import msgspec

from loader.hours.completeness import MOST_NAMES, Complete, Verdict, Waiting
from loader.tables import Hour
from schemas.remote.bounded_response import TooMuch, bounded_response, read_body
from schemas.remote.urls import parse_urls

_SECONDS: Final = 10.0  # for one answer
_MOST_BYTES: Final = 1024 * 1024
_MOST_LETTERS: Final = 1_000
_LONGEST_NAME: Final = 255
_OK: Final = 200
_REFUSED: Final = range(400, 500)

Asked = tuple[str, Hour]  # a topic and an hour of it


class _Gate(msgspec.Struct, frozen=True):
    """What it answers; see docs/audit.md. Fields that are not here are passed over."""

    complete: bool
    by: str = ""
    missing: str = ""
    names: tuple[str, ...] = ()


class _Problem(msgspec.Struct, frozen=True):
    error: str


class _Odd(Exception):
    """In words, behind `the audit at …, which`."""

    def __init__(self, words: str, *, refused: bool = False) -> None:
        super().__init__(words)
        self.refused = refused


class Audit:
    """Any thread may ask."""

    def __init__(self, url: str, cluster: str, *, seconds: float = _SECONDS) -> None:
        """`cluster` is how agents call it."""
        (self._url,) = parse_urls(url)
        self._cluster = cluster
        self._seconds = seconds
        self.away: Waiting | None = None  # once it is not asked any more

    def ask(self, asked: Iterable[Asked]) -> dict[Asked, Verdict]:
        """One after the other."""
        answers: dict[Asked, Verdict] = {}
        connection = self._connection()
        try:
            for each in asked:
                answers[each] = self.away or self._answer(connection, *each)
        finally:
            connection.close()
        return answers

    def _answer(self, connection: HTTPConnection, topic: str, hour: Hour) -> Verdict:
        try:
            gate = self._gate(connection, topic, hour)
        except _Odd as error:
            waiting = Waiting(f"the audit at {self._url}, which {error}")
            if not error.refused:
                self.away = waiting
            return waiting
        if gate.complete:
            return Complete(f"audit: {_line(gate.by, _MOST_LETTERS)}" if gate.by else "audit")
        missing = _line(gate.missing, _MOST_LETTERS)
        names = tuple(_line(name, _LONGEST_NAME) for name in gate.names[:MOST_NAMES])
        return Waiting(missing or f"the audit at {self._url}, which does not say for what", names)

    def _gate(self, connection: HTTPConnection, topic: str, hour: Hour) -> _Gate:
        query = urlencode({"cluster": self._cluster, "topic": topic, "hour": hour})
        status, body = self._exchange(connection, f"{self._url.path}/api/v1/hour?{query}")
        if status != _OK:
            words = f"answers with HTTP {status}{_problem(body)}"
            raise _Odd(words, refused=status in _REFUSED)
        try:
            return msgspec.json.decode(body, type=_Gate)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _Odd("does not answer as an audit does") from None

    def _exchange(self, connection: HTTPConnection, path: str) -> tuple[int, bytes]:
        """A connection that was kept may have been closed meanwhile: then a new one is tried."""
        for is_new in (connection.sock is None, True):
            try:
                return self._try(connection, path)
            except TooMuch as error:
                raise _Odd(f"answers with {error}") from None
            except TimeoutError:
                raise _Odd(f"does not answer within {self._seconds:g} s") from None
            except (OSError, HTTPException, ValueError) as error:
                connection.close()
                if is_new:
                    raise _Odd(f"cannot be reached ({_reason(error)})") from None
        raise AssertionError("unreachable")

    def _try(self, connection: HTTPConnection, path: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._seconds

        def bounded(sock: socket.socket, *_: object, **__: object) -> object:
            return bounded_response(sock, "GET", deadline)

        connection.response_class = bounded  # type: ignore[assignment]
        if connection.sock is not None:
            connection.sock.settimeout(self._seconds)
        connection.request("GET", path, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            body = read_body(response, _MOST_BYTES)
            if response.will_close:
                connection.close()
            return response.status, body

    def _connection(self) -> HTTPConnection:
        url = self._url
        if url.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(url.host, url.port, timeout=self._seconds, context=context)
        return HTTPConnection(url.host, url.port, timeout=self._seconds)


def _problem(body: bytes) -> str:
    """What it says of that, if it says something."""
    try:
        said = msgspec.json.decode(body, type=_Problem).error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    return f": {_line(said, _MOST_LETTERS)}"


def _reason(error: Exception) -> str:
    """In words, and nothing that the peer said."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, OSError):
        return (error.strerror or "the connection failed").lower()
    return f"what answers does not speak HTTP: {type(error).__name__}"


def _line(text: str, most: int) -> str:
    """One line of text that can be shown."""
    shown = "".join(each if each.isprintable() else " " for each in text[:most])
    return " ".join(shown.split())
