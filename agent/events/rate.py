"""How many lines of an input may be taken now: a bucket that fills at its rate. Pure."""

import math
from dataclasses import dataclass, replace
from typing import Final

_BURST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """`rate` lines a second, 0 for any number; what was not taken is there for a second.

    More may be taken than is in it, since lines that belong together are taken together: it is
    made up for later.
    """

    rate: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> "Bucket":
        return cls(rate, max(1.0, rate * _BURST_SECONDS), now)

    def lines(self, now: float) -> int | None:
        """None: any number."""
        return None if not self.rate else max(0, math.floor(self._tokens(now) + 1e-9))

    def taken(self, lines: int, now: float) -> "Bucket":
        if not self.rate:
            return self
        return replace(self, tokens=self._tokens(now) - lines, at=max(now, self.at))

    def _tokens(self, now: float) -> float:
        grown = self.tokens + max(0.0, now - self.at) * self.rate
        return min(grown, max(1.0, self.rate * _BURST_SECONDS))
