"""Limits the rate of moved replicas, in favour of other traffic.

As in Kafka (KIP-73), topics name the throttled replicas, and brokers the rate for all of theirs
together: one for what they copy, and one for what they send. No I/O; the clock is passed in.

Rule 1: in-sync replicas are not throttled, on neither side, and their copying does not count: a
        producer with acks=all never waits for a move. (In Kafka it counts, so a move may stand
        still under much traffic.)
Rule 2: overuse is paid for afterwards: over any time, the total is at most the rate, plus a
        second's worth, plus what was requested before the rate was used up.
Rule 3: at most a quarter of a second's worth of a partition is requested or returned at once, for
        an even flow.

Usage and waits are counted as long as the broker runs, across changes of the rate; `/metrics` reads
them on another thread.
"""

from typing import Final

from ground.meter import Meter

_LOOKS_SECONDS: Final = 1.0  # within which a waiting fetch notices a new rate, or none
_MOMENT_SECONDS: Final = 0.001  # shorter waits are skipped, and owed
_PARTS: Final = 4
_LEAST_BYTES: Final = 16 * 1024


class Throttle:
    """The throttle of one side, leader or follower. Belongs to the event loop."""

    __slots__ = ("_meter", "_waited_until", "bytes_used", "rate", "seconds_waited")

    def __init__(self) -> None:
        self.rate: int | None = None
        """Bytes a second; None: unlimited."""
        self.bytes_used = 0
        """Used while a rate was set."""
        self.seconds_waited = 0.0
        """The time for which a request or an answer was held back. Simultaneous waits count
        once."""
        self._meter: Meter | None = None
        self._waited_until = 0.0

    def follow(self, rate: int | None, now: float) -> None:
        """Sets the rate in bytes a second; None: unlimited."""
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
        """Returns the seconds to wait before the next request; 0 if it may be sent at once."""
        wait_seconds = 0.0 if self._meter is None else self._meter.use(0, now)
        if wait_seconds < _MOMENT_SECONDS:
            return 0.0
        wait_seconds = min(_LOOKS_SECONDS, wait_seconds)
        self.seconds_waited += max(0.0, now + wait_seconds - max(now, self._waited_until))
        self._waited_until = max(self._waited_until, now + wait_seconds)
        return wait_seconds

    def portion(self, most: int) -> int:
        """Returns the number of bytes to request at once, at most `most`."""
        if self._meter is None:
            return most
        return min(most, max(_LEAST_BYTES, int(self._meter.rate / _PARTS)))
