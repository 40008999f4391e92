"""Sends requests to a registry: chooses the instance, retries, and limits the time.

Rule 1: a request is tried on one instance after the other, beginning with the one that answered
last, then again after a pause that doubles, with jitter, until it is answered or the patience is
over. Refused and broken connections, timeouts, and responses of 5xx and 429 are retried; any other
response is the answer. Until an instance has answered for the first time the patience may be
shorter, so that a mistyped address is noticed.

Rule 2: a request that must not be executed twice (a deletion: the second time is an error) is
retried only while it has certainly not been sent.

ground/http/client.py limits a response in time and size, and keeps connections, which all threads
share. After a fork, create a new transport.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from ground.http.client import (
    HttpAnswer,
    HttpClient,
    HttpError,
    HttpUrl,
    NotReached,
    NotTrusted,
    TimedOut,
    TooLarge,
)
from ground.http.security import access_to
from ground.known_types import known_type
from ground.randomness import chance
from schemas.errors import RegistryError, RegistryNotReachable, RegistryRefused, RegistryTimedOut
from schemas.remote.address import RegistryAddress, check_registry
from schemas.remote.urls import parse_urls

__all__ = ["Transport"]

T = TypeVar("T")

MOST_BYTES: Final = 32 * 1024 * 1024
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_HEADERS: Final = {"Accept": _CONTENT}
_HEADERS_OF_A_BODY: Final = {**_HEADERS, "Content-Type": _CONTENT}
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_CONNECT_SECONDS: Final = 5.0
_LONGEST_MESSAGE: Final = 20_000
_TOO_MANY_REQUESTS: Final = 429
_UNAUTHORIZED: Final = 401


class _Problem(msgspec.Struct):
    """The error response of a registry."""

    error_code: int
    message: str = ""


class Transport:
    """The instances of one registry. Safe to use on any thread."""

    def __init__(
        self,
        address: RegistryAddress,
        *,
        patience_seconds: float,
        first_contact_seconds: float,
        attempt_seconds: float,
        first_attempt_seconds: float,
        most_bytes: int = MOST_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Sends no request yet. Raises ValueError if the URLs are invalid, or must not be used with
        this login."""
        check_registry(address.urls, address.security)
        self.urls = parse_urls(address.urls)
        self._has_login = address.security.has_login
        access = access_to(address.security)
        self._patience = patience_seconds
        self._first_contact = first_contact_seconds
        self._attempt = attempt_seconds
        self._first_attempt = first_attempt_seconds
        self._sleep = sleep
        self._instances = [
            HttpClient(url, access=access, most_bytes=most_bytes, connect_within=_CONNECT_SECONDS)
            for url in self.urls
        ]
        self._preferred = 0
        self._answered = False

    def close(self) -> None:
        """Closes idle connections; others are closed when their request is done."""
        for instance in self._instances:
            instance.close()

    def contact(self) -> None:
        """Waits until any instance has answered. Raises only RegistryError."""
        self._persist("GET", "/", None, repeatable=True)

    def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        document: object = None,
        *,
        repeatable: bool = True,
    ) -> T:
        """Returns the response, decoded as `kind`. Raises only RegistryError."""
        try:
            body = None if document is None else msgspec.json.encode(document)
        except UnicodeEncodeError as error:
            raise RegistryError(f"the request is not valid text: {error.reason}") from None
        url, answer = self._persist(method, path, body, repeatable=repeatable)
        if not 200 <= answer.status < 300:
            raise _refusal(answer, self._hint(answer.status))
        try:
            return msgspec.json.decode(answer.body, type=known_type(kind))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise RegistryError(f"{url} does not answer as a schema registry: {error}") from None

    def _persist(
        self, method: str, path: str, body: bytes | None, *, repeatable: bool
    ) -> tuple[HttpUrl, HttpAnswer]:
        start = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            error_to_raise: RegistryError = RegistryNotReachable("no registry")
            first_instance = self._preferred
            for attempt in range(len(self.urls)):
                index = (first_instance + attempt) % len(self.urls)
                url = self.urls[index]
                try:
                    answer = self._instances[index].ask(
                        *(method, path, body),
                        within=self._attempt if self._answered else self._first_attempt,
                        headers=_HEADERS if body is None else _HEADERS_OF_A_BODY,
                        repeatable=repeatable,
                    )
                except TooLarge as error:
                    raise RegistryError(str(error)) from None
                except HttpError as error:
                    kind = RegistryTimedOut if isinstance(error, TimedOut) else RegistryNotReachable
                    error_to_raise = kind(f"no registry at {url}: {error.why}")
                    if isinstance(error, NotTrusted):
                        raise error_to_raise from None
                    if not repeatable and not isinstance(error, NotReached):
                        is_lost = (
                            f"{url} did not answer; the request may have been executed: {error.why}"
                        )
                        raise RegistryNotReachable(is_lost) from None
                    continue
                self._answered = True
                if not repeatable or not _is_worth_another_try(answer):
                    self._preferred = index
                    return url, answer
                error_to_raise = _refusal(answer)
            patience = self._patience if self._answered else self._first_contact
            remaining_seconds = start + patience - time.monotonic()
            if remaining_seconds <= 0:
                raise error_to_raise from None
            self._sleep(min(remaining_seconds, pause * (0.5 + chance() / 2)))
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _hint(self, status: int) -> str:
        if status != _UNAUTHORIZED or self._has_login:
            return ""
        return " (it wants a login, and none is configured: `registry_security`)"


def _is_worth_another_try(answer: HttpAnswer) -> bool:
    return answer.status >= 500 or answer.status == _TOO_MANY_REQUESTS


def _refusal(answer: HttpAnswer, hint: str = "") -> RegistryRefused:
    try:
        problem = msgspec.json.decode(answer.body, type=known_type(_Problem))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        text = f"HTTP {answer.status} {answer.reason}".rstrip()
        return RegistryRefused(answer.status, answer.status, text + hint)
    text = problem.message[:_LONGEST_MESSAGE] + hint
    return RegistryRefused(answer.status, problem.error_code, text)
