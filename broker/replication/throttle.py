"""A rate for replicas that are moved, so that they leave the network and the disks to others.

Kafka's (KIP-73): topics name the replicas that are throttled, brokers how many bytes a second they
have for all of theirs together: one rate for what they copy, and one for what they send. No I/O;
the clock is handed in.

Rule 1: who is in sync is not throttled, on neither side, and what it copies does not count: nobody
        who waits for acks=all ever waits for a move. (In Kafka it counts, so that a move may stand
        still where much is written.)
Rule 2: what was taken too much is waited for afterwards: over any time, no more than the rate, a
        second's worth, and what was asked for before the rate was used up.
Rule 3: at most a quarter of a second's worth of a partition is asked for, or answered, at once, so
        that it flows.

What was used and waited for is counted as long as the broker runs, over all rates; `/metrics` reads
it on another thread.
"""

from typing import Final

from ground.meter import Meter

_LOOKS_SECONDS: Final = 1.0  # within which another rate, or none, is noticed by who waits
_MOMENT_SECONDS: Final = 0.001  # less is not waited for: it is owed
_PARTS: Final = 4
_LEAST_BYTES: Final = 16 * 1024


class Throttle:
    """One side of it. Belongs to the event loop."""

    __slots__ = ("_meter", "_waited_until", "bytes_used", "rate", "seconds_waited")

    def __init__(self) -> None:
        self.rate: int | None = None
        """Bytes a second; None: as many as there are."""
        self.bytes_used = 0
        """While there was a rate."""
        self.seconds_waited = 0.0
        """For how long something that was to be asked for, or answered, was held back. What waits
        at the same time is not counted twice."""
        self._meter: Meter | None = None
        self._waited_until = 0.0

    def follow(self, rate: int | None, now: float) -> None:
        """So many bytes a second from now on; None: as many as there are."""
        self.rate = rate
        if rate is None:
            self._meter = None
        elif self._meter is None or self._meter.rate != rate:
            self._meter = Meter(rate, now)

    def used(self, amount: int, now: float) -> None:
        if self._meter is not None:
            self._meter.use(amount, now)
            self.bytes_used += amount

    def wait_s(self, now: float) -> float:
        """For how long nothing is to be asked for; then it is to be asked again."""
        wait = 0.0 if self._meter is None else self._meter.use(0, now)
        if wait < _MOMENT_SECONDS:
            return 0.0
        wait = min(_LOOKS_SECONDS, wait)
        self.seconds_waited += max(0.0, now + wait - max(now, self._waited_until))
        self._waited_until = max(self._waited_until, now + wait)
        return wait

    def portion(self, most: int) -> int:
        """Of so many bytes, how many to ask for at once."""
        if self._meter is None:
            return most
        return min(most, max(_LEAST_BYTES, int(self._meter.rate / _PARTS)))
