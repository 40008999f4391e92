"""Measures usage against a rate per second. No I/O; the caller passes the time."""

from typing import Final

_BURST_S: Final = 1.0
_LONGEST_WAIT_S: Final = 10.0


class Meter:
    """Measures a client's usage against one rate."""

    __slots__ = ("_at", "_burst", "_level", "rate")

    def __init__(self, rate: float, now: float, burst_s: float = _BURST_S) -> None:
        """Allows a burst of `burst_s` seconds' worth without waiting."""
        self.rate = rate
        self._burst = burst_s
        self._level = 0.0
        self._at = now

    def use(self, amount: float, now: float) -> float:
        """Records usage; returns how many seconds the client should wait now."""
        level = max(0.0, self._level - (now - self._at) * self.rate) + amount
        self._level, self._at = level, now
        if level <= self.rate * self._burst:
            return 0.0
        return min(_LONGEST_WAIT_S, level / self.rate - self._burst)

    def is_idle(self, now: float) -> bool:
        return self._level <= (now - self._at) * self.rate
