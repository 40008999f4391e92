"""Whether the wall clock can be trusted with deleting data.

Retention compares the time of append with the time of day, and one wrong answer (a bad clock chip,
a mistaken NTP server) makes every segment seem old enough to go. So the wall clock is compared with
the monotonic clock whenever retention looks, and after a jump retention holds: nothing is deleted
for its age until the wall clock has run steadily for an hour. That is time to correct the clock,
and costs nothing but an hour's room where the jump was the correction. A clock that stays wrong for
longer is believed.

A process that begins has nothing to compare with but the last time it left on disk. Where that lies
more than a day back (a long stop, or a clock that woke up wrong) or in the future, it holds too.

Both clocks are passed in. Nothing is kept on disk: a crash begins anew.
"""

import logging

JUMP_MS = 5 * 60 * 1000
LONG_STOP_MS = 24 * 60 * 60 * 1000
SETTLING_MS = 60 * 60 * 1000

_log = logging.getLogger(__name__)


class RetentionClock:
    """Fed with both clocks, in milliseconds, at every check."""

    __slots__ = ("_held_until", "_last_monotonic", "_last_wall", "_reason")

    def __init__(self, wall_ms: int, monotonic_ms: int, last_alive_ms: int | None = None) -> None:
        """`last_alive_ms` is the newest wall time that this broker is known to have run at."""
        self._last_wall = wall_ms
        self._last_monotonic = monotonic_ms
        self._held_until = monotonic_ms
        self._reason = ""
        if last_alive_ms is not None:
            gap = wall_ms - last_alive_ms
            if not -JUMP_MS <= gap <= LONG_STOP_MS:
                self._hold(f"the wall clock is {_span(gap)} when this broker last ran")

    def hold(self, wall_ms: int, monotonic_ms: int) -> str | None:
        """Why nothing may be deleted for its age just now; None if the clock can be trusted."""
        jump = (wall_ms - self._last_wall) - (monotonic_ms - self._last_monotonic)
        self._last_wall = wall_ms
        self._last_monotonic = monotonic_ms
        if abs(jump) > JUMP_MS:
            self._hold(f"the wall clock jumped {_span(jump)} where it should be")
        if monotonic_ms < self._held_until:
            return self._reason
        if self._reason:
            self._reason = ""
            _log.info("the wall clock has been steady for an hour: retention by age goes on")
        return None

    def _hold(self, reason: str) -> None:
        self._reason = reason
        self._held_until = self._last_monotonic + SETTLING_MS
        _log.warning("%s: nothing is deleted for its age before it was steady for an hour", reason)


def _span(milliseconds: int) -> str:
    direction = "ahead of" if milliseconds > 0 else "behind"
    return f"{abs(milliseconds) / 60_000:.0f} minutes {direction}"
