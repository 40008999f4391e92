"""Retries: pauses that double, with jitter, until a time limit.

Jitter keeps a thousand clients that lost the same broker from returning at the same instant.
"""

import time
from collections.abc import Callable

from client.errors import ClientError
from ground.randomness import chance

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
NEVER = float("inf")


class Pauses:
    """The pauses between attempts that fail in a row."""

    def __init__(self, chance: Callable[[], float] = chance) -> None:
        self._chance = chance
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """Starts over with the shortest pause, after a success."""
        self._pause = FIRST_PAUSE

    def next(self) -> float:
        pause = self._pause * (0.5 + self._chance() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause


class Patience:
    """A time limit for the attempts at one request, or at a series of requests, each of which may
    reset it."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = chance,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._pauses = Pauses(chance)
        self.reset()

    def reset(self) -> None:
        """Starts over with the whole time and the shortest pause, after a success."""
        self._deadline = self._clock() + self._seconds
        self._pauses.reset()

    def wait(self, error: ClientError) -> None:
        """Sleeps before the next attempt; raises the error if it is final, or the time is over."""
        remaining_seconds = self._deadline - self._clock()
        if not error.retriable or remaining_seconds <= 0:
            raise error
        self._sleep(min(remaining_seconds, self._pauses.next()))
