"""How long and how often to try again: pauses that double, with jitter, until the time is over.

Jitter keeps a thousand clients that lost the same broker from coming back in the same instant.
"""

import time
from collections.abc import Callable

from client.errors import ClientError
from ground.chance import chance

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
NEVER = float("inf")


class Pauses:
    """How long to wait after each of several failures in a row."""

    def __init__(self, chance: Callable[[], float] = chance) -> None:
        self._chance = chance
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """Something worked: the next failure is a first one."""
        self._pause = FIRST_PAUSE

    def next(self) -> float:
        pause = self._pause * (0.5 + self._chance() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause


class Patience:
    """The attempts at one request, or at a run of them that may each reset it."""

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
        """Something worked: the next failure is a first one."""
        self._deadline = self._clock() + self._seconds
        self._pauses.reset()

    def wait(self, error: ClientError) -> None:
        """Pause before the next attempt; raises the error if it is final, or the time is over."""
        left = self._deadline - self._clock()
        if not error.retriable or left <= 0:
            raise error
        self._sleep(min(left, self._pauses.next()))
