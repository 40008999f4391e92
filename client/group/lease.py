"""How long a member may rely on its claims without asking: by its own clock.

Rule 1: a claim stands as long as the session, and the session lives at least its timeout from the
        moment at which ZooKeeper's leader has heard of it last. A member cannot see that moment.
        It knows when it asked a question that the leader has answered (a sync).
Rule 2: the session was heard of at most three eighths of its timeout before that: a server tells
        the leader of its sessions with every half tick, a session lasts two ticks at least, and a
        question is asked every eighth of a timeout. The claims are relied on for half a timeout
        from the question on: an eighth is left for clocks that do not run alike.
Rule 3: the clock goes on while the machine sleeps or the process is stopped.
"""

import time
from collections.abc import Callable
from typing import Final

_RELIED_ON: Final = 1 / 2  # of the session's timeout
_ASKED_EVERY: Final = 1 / 8


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Of one session: it does not hold before it was renewed once."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._ends = self._due = float("-inf")

    @property
    def holds(self) -> bool:
        return self._clock() < self._ends

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask."""
        return self._clock() >= self._due

    def asked(self) -> float:
        """Now a question is put; the moment is what `renew` wants with the answer."""
        return self._clock()

    def renew(self, asked: float, timeout_s: float) -> None:
        """The leader has answered; `timeout_s` is what it grants to the session."""
        self._ends = asked + timeout_s * _RELIED_ON
        self._due = asked + timeout_s * _ASKED_EVERY
