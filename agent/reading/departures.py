"""Decides when lines are sent before `linger` is over. Pure: measurements are parameters.

Waiting for more lines saves work, which an idle agent need not save. Lines may leave

1. a fifth of `linger` after the previous ones: at most five times in a `linger`, regardless of the
   number of files and topics;
2. once the process has been idle for seven times as long as it has worked since then: so early
   departures use an eighth of a core at most, or half of the CPU limit if that is less.

So the wait grows with the load. Under a load of an eighth of a core or more, only `linger` decides
when lines leave.
"""

from typing import Final

_IN_A_LINGER: Final = 5
_SHARE: Final = 1 / 8  # of a core
_SHARE_OF_LIMIT: Final = 1 / 2


class Departures:
    """The early departures of all destinations of an agent. Belongs to one thread."""

    def __init__(self, linger: float, cpu_limit: float, now: float, used: float) -> None:
        """`cpu_limit` is in cores, 0 for none; `used` are the CPU seconds of the process so far."""
        self._least = linger / _IN_A_LINGER
        self._share = min(_SHARE, cpu_limit * _SHARE_OF_LIMIT) if cpu_limit else _SHARE
        self._left_at = now
        self._used = self._used_before = used

    @property
    def due(self) -> float:
        """The time from which lines may leave, by the CPU time last passed to `spent`."""
        return self._left_at + max(self._least, (self._used - self._used_before) / self._share)

    def spent(self, used: float) -> None:
        """Records the CPU time used so far, by any thread, at the end of a turn."""
        self._used = used

    def left(self, now: float) -> None:
        """Records a departure. The CPU time for packing and sending it counts towards the next
        one."""
        self._left_at, self._used_before = now, self._used
