"""One part of a pipeline, asked on a thread of its own, so that nobody waits for it for long.

A question that takes longer than its time goes on, and nothing else is asked of that part until it
has ended. Its thread is a daemon's: whoever leaves does not wait for it either.
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
    """It has not answered in time."""


class NoStatus(Exception):
    """In words, for the end of a sentence. They may quote what was answered."""


class Part(Generic[T]):
    """`question` is asked at most every so many seconds; between, what it answered is kept. `end`
    closes what the question keeps open, and is never called while it is being asked."""

    def __init__(
        self, name: str, question: Callable[[], T], end: Callable[[], None], *, every: float
    ) -> None:
        self.name = name
        self._question = question
        self._end = end
        self._every = every
        self._asked_at = float("-inf")
        self._answer: Future[T] | None = None
        self._closed = False
        self._guard = threading.Lock()

    def close(self) -> None:
        """Does not wait for an answer that is outstanding."""
        with self._guard:
            self._closed = True
            if self._answer is None or self._answer.done():
                self._end()

    def ask(self) -> None:
        """Has it asked, unless it is being asked, or has answered just now."""
        answer = self._answer
        if answer is not None and not answer.done():
            return
        failed = answer is not None and answer.exception() is not None
        if not failed and time.monotonic() - self._asked_at < self._every:
            return
        self._asked_at = time.monotonic()
        self._answer = Future()
        threading.Thread(
            target=self._run, args=(self._answer,), name=f"asking {self.name}", daemon=True
        ).start()

    def answer(self, deadline: float) -> T:
        """What was answered until then. Raises Silent, or what the question raised."""
        assert self._answer is not None, "not asked yet"
        if self._answer.done():
            return self._answer.result()
        try:
            return self._answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise Silent from None

    def _run(self, answer: Future[T]) -> None:
        try:
            said = self._question()
        except Exception as error:  # noqa: BLE001 whoever asked is told
            tell = partial(answer.set_exception, error)
        else:
            tell = partial(answer.set_result, said)
        with self._guard:
            tell()
            if self._closed:
                self._end()


def said_by(client: HttpClient, target: str, *, within: float) -> bytes:
    """The body of a good answer. Raises NoStatus."""
    try:
        answer = client.ask("GET", target, within=within)
    except HttpError as error:
        raise NoStatus(error.why) from None
    if answer.status != HTTPStatus.OK:
        said = answer.body[:_QUOTED].decode(errors="replace").strip()
        raise NoStatus(f"it answers {answer.status} {said}".rstrip())
    return answer.body
