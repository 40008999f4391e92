"""A limit on the bytes copied per second, for all partitions of a worker. No I/O; takes the clock.

An excess is waited for afterwards: over any time, at most the rate, one second's worth, and what
was requested before the rate was used up.
"""

from typing import Final

from ground.meter import Meter

_LONGEST_S: Final = 1.0
_PARTS: Final = 4
_LEAST_BYTES: Final = 16 * 1024


class Bandwidth:
    """The limit of one worker. Belongs to the event loop."""

    def __init__(self, rate: int, now: float) -> None:
        """`rate`: bytes per second; 0: unlimited."""
        self.rate = rate
        self._meter = Meter(rate, now) if rate else None

    def used(self, amount: int, now: float) -> None:
        if self._meter is not None:
            self._meter.use(amount, now)

    def wait_s(self, now: float) -> float:
        """Seconds to wait before the next request; then ask again."""
        return 0.0 if self._meter is None else min(_LONGEST_S, self._meter.use(0, now))

    def portion(self, most: int) -> int:
        """How many of `most` bytes to request at once."""
        return most if not self.rate else min(most, max(_LEAST_BYTES, self.rate // _PARTS))
