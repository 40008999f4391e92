"""Runs slow requests to the cluster, each on a thread of its own.

A few run at a time, the others wait; very long ones have a separate limit. The result is passed to
a callback that the shipping thread calls when it takes answers. Threads end with their request;
`close` does not wait for them.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError, NotKafka

MOST_AT_ONCE: Final = 4
_PATIENCE_SECONDS: Final = 10.0

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
GoesOn = Callable[[], bool]


class Questions:
    """Runs requests. Any thread may call `ask`; one thread takes answers."""

    def __init__(self, bootstrap: Bootstrap, client_id: str, answered: Callable[[], None]) -> None:
        """`answered` is called, on any thread, when there are answers to take."""
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._answered = answered
        self._lock = threading.Lock()
        self._waiting: dict[bool, deque[Callable[[], None]]] = {True: deque(), False: deque()}
        self._running = {True: 0, False: 0}
        self._answers: deque[Callable[[], None]] = deque()
        self._closed = False

    def ask(
        self,
        question: Callable[[Brokers, GoesOn], Answer],
        answered: Callable[[Answer | ClientError], None],
        *,
        long: bool = False,
    ) -> None:
        """Runs a request, which may block but should end soon after its `GoesOn` returns False."""

        def run() -> None:
            answer: Answer | ClientError
            try:
                with Brokers(
                    self._bootstrap,
                    client_id=self._client_id,
                    patience_seconds=_PATIENCE_SECONDS,
                ) as brokers:
                    answer = question(brokers, self._goes_on)
            except ClientError as error:
                answer = error
            except Exception as error:
                log.exception("request to the cluster failed unexpectedly")
                answer = NotKafka(f"unexpected error: {error!r}")
            self._answer(lambda: answered(answer), long)

        with self._lock:
            self._waiting[long].append(run)
            self._start_next(long)

    def take(self) -> list[Callable[[], None]]:
        """The callbacks for new answers, to be called in order."""
        with self._lock:
            answers = list(self._answers)
            self._answers.clear()
        return answers

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for waiting_question in self._waiting.values():
                waiting_question.clear()
            self._answers.clear()

    def _goes_on(self) -> bool:
        return not self._closed

    def _start_next(self, long: bool) -> None:
        if self._waiting[long] and self._running[long] < MOST_AT_ONCE:
            self._running[long] += 1
            run = self._waiting[long].popleft()
            threading.Thread(target=run, name="ask brokers", daemon=True).start()

    def _answer(self, call: Callable[[], None], long: bool) -> None:
        with self._lock:
            self._running[long] -= 1
            if self._closed:
                return
            self._answers.append(call)
            self._start_next(long)
        self._answered()
