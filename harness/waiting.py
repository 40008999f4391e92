"""Waits until something holds: the one loop with a deadline that tests and harness have.

    wait_until         in a thread that may sleep
    wait_until_async   in an event loop

A deadline ends what will never come, and never fails what is only slow: none is sooner than a
minute, and seconds count less where the machine is crowded (crowding.py).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from harness.crowding import Patience

LEAST_SECONDS: Final = 60.0

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found],
    *,
    what: str = "",
    within: float = LEAST_SECONDS,
    every: float | None = None,
) -> Found:
    """Returns what the condition returned, once that is true. Says `what` when the time is over.

    Without `every` it looks less often the longer it takes, and the more a look costs.
    """
    looks = Looks(max(within, LEAST_SECONDS))
    while not (found := condition()):
        looks.give_up(what)
        time.sleep(looks.pause() if every is None else every)
    return found


async def wait_until_async(
    condition: Callable[[], Found], *, what: str = "", within: float = LEAST_SECONDS
) -> Found:
    """The same in an event loop, which goes on meanwhile."""
    looks = Looks(max(within, LEAST_SECONDS))
    while not (found := condition()):
        looks.give_up(what)
        await asyncio.sleep(looks.pause())
    return found


class Looks:
    """When to look again. Six who look all the time, and servers that answer them, would keep those
    waiting for whom they look."""

    def __init__(self, seconds: float) -> None:
        self._patience = Patience(seconds)
        self._began = self._looked = time.monotonic()

    def give_up(self, what: str) -> None:
        """Fails if the time is over."""
        if self._patience.is_over():
            raise TimeoutError(f"not within {self._patience.seconds:g} s: {what}")

    def pause(self) -> float:
        """After a look: how long until the next one. A tenth of what it has lasted, three times
        what the look took; a quarter of a second at most, if that did not take longer."""
        now = time.monotonic()
        took = now - self._looked
        pause = min(max(0.02, 0.1 * (now - self._began), 3 * took), max(0.25, took))
        self._looked = now + pause
        return pause
