"""When lines leave that have not waited for `linger` yet. Pure: measurements are passed in.

To wait for others saves work, so whoever has little to do need not. Lines may leave

1. a fifth of `linger` after the last ones: five times in a `linger` at most, however many files and
   topics there are;
2. once the process has been idle for seven times as long as it has worked since then: so whatever
   lines leave early, it uses an eighth of a core at most, or half of its limit if that is less.

A wait grows with the work. Where that is an eighth of a core all by itself, it is for `linger` to
say when lines leave.
"""

from typing import Final

_IN_A_LINGER: Final = 5
_SHARE: Final = 1 / 8  # of a core
_SHARE_OF_LIMIT: Final = 1 / 2


class Departures:
    """Of all destinations of an agent. One thread's."""

    def __init__(self, linger: float, cpu_limit: float, now: float, used: float) -> None:
        """`cpu_limit` is in cores, 0 for none; `used` are the CPU seconds of the process so far."""
        self._least = linger / _IN_A_LINGER
        self._share = min(_SHARE, cpu_limit * _SHARE_OF_LIMIT) if cpu_limit else _SHARE
        self._left_at = now
        self._used = self._used_before = used

    @property
    def due(self) -> float:
        """From when on lines may leave, as far as is known when all that was done was `spent`."""
        return self._left_at + max(self._least, (self._used - self._used_before) / self._share)

    def spent(self, used: float) -> None:
        """A turn is over. What has been done since the one before counts, whoever did it."""
        self._used = used

    def left(self, now: float) -> None:
        """Something leaves. What is done from now on, to pack and to send it, counts for the
        next."""
        self._left_at, self._used_before = now, self._used
