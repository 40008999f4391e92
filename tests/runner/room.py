"""How many children of a run are at a test: as many as the machine has room for.

Most tests wait most of the time, so there are more children than processors. Now and then all of
them want one, with the servers and JVMs that they have started: nothing is done sooner for it, but
what takes a second takes ten, and every deadline, of Spark's, of Kafka's clients, of browsers, is a
tenth of what it was. So where many wait for a processor, a child that has ended a test waits until
fewer do. Two for each processor always go on, whoever else uses the machine.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from harness.processes.crowding import Crowding

ALWAYS: Final = 2 * (os.cpu_count() or 1)
CROWDED: Final = 3.0  # who want a processor, for each that there is
SETTLES_SECONDS: Final = 0.5  # until it is seen what who was let in wants

Child = TypeVar("Child")


class Room(Generic[Child]):
    """Who is in, and who waits before the door."""

    def __init__(
        self,
        children: Iterable[Child],
        *,
        always: int = ALWAYS,
        crowding: Crowding | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inside = set(children)
        self._always = always
        self._crowding = crowding or Crowding()
        self._clock = clock
        self._waiting: deque[Child] = deque()
        self._let_in = clock()

    def leave(self, child: Child) -> None:
        """It would like to come in again, and waits until it may."""
        self._inside.discard(child)
        self._waiting.append(child)

    def forget(self, child: Child) -> None:
        """It has ended."""
        self._inside.discard(child)
        if child in self._waiting:
            self._waiting.remove(child)

    def let_in(self) -> Iterator[Child]:
        """Those who may go on now, who has waited longest first."""
        crowded = self._crowding.look() > CROWDED
        while self._waiting:
            now = self._clock()
            if len(self._inside) >= self._always:
                if crowded or now - self._let_in < SETTLES_SECONDS:
                    return
                self._let_in = now
            child = self._waiting.popleft()
            self._inside.add(child)
            yield child
