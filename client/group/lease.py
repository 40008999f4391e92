"""The time for which a member may rely on its claims without confirmation, by its own clock.

Rule 1: a claim lasts as long as the session, and the session lives at least its timeout from when
        ZooKeeper's leader last heard of it. A member cannot see that moment. It knows when it sent
        a question that the leader has answered (a sync).
Rule 2: the leader heard of the session at most three eighths of its timeout before that: a server
        reports its sessions to the leader every half tick, a session lasts at least two ticks, and
        a question is sent every eighth of a timeout. A member relies on its claims for half a
        timeout from the question; an eighth is left for clocks that run at different rates.
Rule 3: the clock continues while the machine sleeps or the process is stopped.
"""

import time
from collections.abc import Callable
from typing import Final

_RELIED_ON: Final = 1 / 2  # of the session's timeout
_ASKED_EVERY: Final = 1 / 8


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The lease of one session, which begins with the first renewal."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._ends = self._due = float("-inf")

    @property
    def holds(self) -> bool:
        return self._clock() < self._ends

    @property
    def is_due(self) -> bool:
        """Whether the lease must be confirmed."""
        return self._clock() >= self._due

    def question_time(self) -> float:
        """Returns the time now, by the lease's clock: pass it to `renew` once the session is
        confirmed."""
        return self._clock()

    def renew(self, asked: float, timeout_s: float) -> None:
        """Extends the lease after an answer to the question sent at `asked`; `timeout_s` is the
        granted session timeout."""
        self._ends = asked + timeout_s * _RELIED_ON
        self._due = asked + timeout_s * _ASKED_EVERY
