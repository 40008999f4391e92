"""Waits until a condition holds: the only loop with a deadline in tests and harness.

    wait_until         in a thread that may sleep
    wait_until_async   in an event loop

A deadline ends what will never happen, and must not fail what is only slow: it is at least a
minute, and seconds count less on a loaded machine (crowding.py).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from harness.processes.crowding import Patience

LEAST_SECONDS: Final = 60.0

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found],
    *,
    what: str = "",
    within: float = LEAST_SECONDS,
    every: float | None = None,
) -> Found:
    """Waits until the condition is true and returns its result. Fails with `what` if time runs out.

    Without `every` it polls less often the longer it waits, and the more a poll costs.
    """
    looks = Looks(max(within, LEAST_SECONDS))
    while not (result := condition()):
        looks.give_up(what)
        time.sleep(looks.pause() if every is None else every)
    return result


async def wait_until_async(
    condition: Callable[[], Found], *, what: str = "", within: float = LEAST_SECONDS
) -> Found:
    """Like `wait_until`, in an event loop, which runs meanwhile."""
    looks = Looks(max(within, LEAST_SECONDS))
    while not (result := condition()):
        looks.give_up(what)
        await asyncio.sleep(looks.pause())
    return result


class Looks:
    """Decides when to poll again: constant polling by six tests, and the work that it causes, would
    slow down the servers that they wait for."""

    def __init__(self, seconds: float) -> None:
        self._patience = Patience(seconds)
        self._began = self._looked = time.monotonic()

    def give_up(self, what: str) -> None:
        """Raises TimeoutError if time has run out."""
        if self._patience.is_over():
            raise TimeoutError(f"timed out after {self._patience.seconds:g} s: {what}")

    def pause(self) -> float:
        """Returns the pause after a poll: a tenth of the time so far, or three times the duration
        of the poll, but at most a quarter of a second unless the poll took longer."""
        now = time.monotonic()
        duration = now - self._looked
        pause = min(max(0.02, 0.1 * (now - self._began), 3 * duration), max(0.25, duration))
        self._looked = now + pause
        return pause
