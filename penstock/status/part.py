"""One part of a pipeline, which is queried on a thread of its own so that a slow server delays no
other.

A query that exceeds its time limit goes on, and no other is sent to that part until it has ended.
It runs on a daemon thread, which does not delay the end of the process.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, TypeVar

from ground.http.client import HttpClient, HttpError

T = TypeVar("T")


_QUOTED: Final = 200


class Silent(Exception):
    """The part has not answered in time."""


class NoStatus(Exception):
    """The part has no status. The message is the end of a sentence, and may quote the answer."""


class Part(Generic[T]):
    """Runs `query` at most once per interval, and keeps its answer. `end` releases the query's
    resources, and is never called while a query runs."""

    def __init__(
        self, name: str, query: Callable[[], T], end: Callable[[], None], *, every: float
    ) -> None:
        self.name = name
        self._query = query
        self._end = end
        self._every = every
        self._asked_at = float("-inf")
        self._answer: Future[T] | None = None
        self._closed = False
        self._guard = threading.Lock()

    def close(self) -> None:
        """Closes the part, without waiting for an outstanding answer."""
        with self._guard:
            self._closed = True
            if self._answer is None or self._answer.done():
                self._end()

    def ask(self) -> None:
        """Starts the query, unless it is running already or its answer is recent."""
        answer = self._answer
        if answer is not None and not answer.done():
            return
        has_failed = answer is not None and answer.exception() is not None
        if not has_failed and time.monotonic() - self._asked_at < self._every:
            return
        self._asked_at = time.monotonic()
        self._answer = Future()
        threading.Thread(
            target=self._run, args=(self._answer,), name=f"asking {self.name}", daemon=True
        ).start()

    def answer(self, deadline: float) -> T:
        """Returns the answer, for which it waits until `deadline` at most. Raises Silent, or the
        query's error."""
        assert self._answer is not None, "not asked yet"
        if self._answer.done():
            return self._answer.result()
        try:
            return self._answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise Silent from None

    def _run(self, answer: Future[T]) -> None:
        try:
            result = self._query()
        except Exception as error:  # noqa: BLE001 raised again where the answer is awaited
            complete = partial(answer.set_exception, error)
        else:
            complete = partial(answer.set_result, result)
        with self._guard:
            complete()
            if self._closed:
                self._end()


def body_of(client: HttpClient, target: str, *, within: float) -> bytes:
    """Returns the body of a successful answer. Raises NoStatus."""
    try:
        answer = client.ask("GET", target, within=within)
    except HttpError as error:
        raise NoStatus(error.why) from None
    if answer.status != HTTPStatus.OK:
        excerpt = answer.body[:_QUOTED].decode(errors="replace").strip()
        raise NoStatus(f"HTTP status {answer.status}: {excerpt}".removesuffix(": "))
    return answer.body
