"""How many bytes a second may be copied, of all partitions together. No I/O; takes the clock.

What was taken too much is waited for afterwards: over any time no more than the rate, a second's
worth, and what was asked for before the rate was used up.
"""

from typing import Final

from ground.meter import Meter

_LONGEST_S: Final = 1.0
_PARTS: Final = 4
_LEAST_BYTES: Final = 16 * 1024


class Bandwidth:
    """Of one worker. Belongs to the event loop."""

    def __init__(self, rate: int, now: float) -> None:
        """`rate`: bytes a second; 0: as many as there are."""
        self.rate = rate
        self._meter = Meter(rate, now) if rate else None

    def used(self, amount: int, now: float) -> None:
        if self._meter is not None:
            self._meter.use(amount, now)

    def wait_s(self, now: float) -> float:
        """For how long nothing is to be asked for; then it is to be asked again."""
        return 0.0 if self._meter is None else min(_LONGEST_S, self._meter.use(0, now))

    def portion(self, most: int) -> int:
        """Of so many bytes, how many to ask for at once."""
        return most if not self.rate else min(most, max(_LEAST_BYTES, self.rate // _PARTS))
