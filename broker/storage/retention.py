"""Decides which segments are too old, or too many, and whether the clock can be trusted for that.

Age is the time since a segment was last appended to, by the broker's clock: the modification time
of its log file, which compaction keeps. The records' timestamps are irrelevant: an event may have
happened ten days before it was shipped, or in 2099 by a broken clock.

One wrong answer of the clock (a bad chip, a mistaken NTP server) makes every segment seem old
enough to be deleted. So each check compares the wall clock with the monotonic clock, and after a
jump retention holds: nothing is deleted for its age until the wall clock has run steadily for an
hour. That is time to correct the clock, and costs only an hour's disk space if the jump was the
correction. A clock that stays wrong for longer is believed.

A new process can compare only with the last time that was recorded on disk. If that is more than a
day ago (a long stop, or a clock that woke up wrong) or in the future, it holds too.

Decides; deletes nothing. Both clocks are passed in. Nothing is kept on disk: a crash starts over.
"""

import logging
from bisect import bisect_right

from broker.storage.config import LogConfig
from broker.storage.segments.segment import Segment

JUMP_MS = 5 * 60 * 1000
LONG_STOP_MS = 24 * 60 * 60 * 1000
SETTLING_MS = 60 * 60 * 1000

_log = logging.getLogger(__name__)


class RetentionClock:
    """Suspends deletion by age while the clock may be wrong. Needs both clocks, in milliseconds, at
    every check."""

    __slots__ = ("_held_until", "_last_monotonic", "_last_wall", "_reason")

    def __init__(self, wall_ms: int, monotonic_ms: int, last_alive_ms: int | None = None) -> None:
        """`last_alive_ms` is the newest wall time at which this broker is known to have run."""
        self._last_wall = wall_ms
        self._last_monotonic = monotonic_ms
        self._held_until = monotonic_ms
        self._reason = ""
        if last_alive_ms is not None:
            gap = wall_ms - last_alive_ms
            if not -JUMP_MS <= gap <= LONG_STOP_MS:
                self._hold(f"the wall clock is {_span(gap)} its last recorded time")

    def hold(self, wall_ms: int, monotonic_ms: int) -> str | None:
        """Returns why deletion by age is suspended now; None if the clock can be trusted."""
        clock_jump = (wall_ms - self._last_wall) - (monotonic_ms - self._last_monotonic)
        self._last_wall = wall_ms
        self._last_monotonic = monotonic_ms
        if abs(clock_jump) > JUMP_MS:
            self._hold(f"the wall clock jumped {_span(clock_jump)} the expected time")
        if monotonic_ms < self._held_until:
            return self._reason
        if self._reason:
            self._reason = ""
            _log.info("the wall clock has been steady for an hour: resuming retention by age")
        return None

    def _hold(self, reason: str) -> None:
        self._reason = reason
        self._held_until = self._last_monotonic + SETTLING_MS
        _log.warning("%s: retention by age is paused until it has been steady for an hour", reason)


def _span(milliseconds: int) -> str:
    direction = "ahead of" if milliseconds > 0 else "behind"
    return f"{abs(milliseconds) / 60_000:.0f} minutes {direction}"


def expired(
    segments: list[Segment],
    config: LogConfig,
    now_ms: int,
    start_offset: int,
    exposed_offset: int,
) -> int:
    """Returns the number of segments to remove from the start: all, if the active one is too
    old."""
    end_offsets = [segment.base_offset for segment in segments[1:]]
    hidden_count = bisect_right(
        end_offsets, start_offset
    )  # by a `delete_before` that a crash interrupted
    if not config.delete:
        return hidden_count
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment, end in zip(segments, [*end_offsets, None], strict=True):
        is_old = 0 <= config.retention_ms < now_ms - segment.last_append_ms
        excess -= segment.size
        is_excess = config.retention_bytes >= 0 and excess >= 0 and end is not None
        if not segment.size and end is None:
            break
        if not (is_old or is_excess) or (end is not None and end > exposed_offset):
            break
        count += 1
    return max(count, hidden_count)
