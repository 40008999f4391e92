"""When what happens to whom in a long run, and how long things are kept in it: all follows from
how long it is.

Troubles come at a pace, so that programs live for long enough to show whether they grow.
"""

from typing import Final

import msgspec

from tests.campaigns.pipeline.flatness import Kind, Span

_TROUBLES: Final = 40
_KEEPS: Final = 720  # loads take minutes where much else runs, and must come before retention
_SETTLES: Final = 120.0
# All others have something for each segment, file or window there is: they are as they will be
# once something was forgotten.
_WHAT_COMES_AND_GOES_AT_ONCE: Final = frozenset({Kind.THREADS, Kind.NODES, Kind.WATCHES})


class Pace(msgspec.Struct, frozen=True):
    seconds: float  # of the whole run

    @property
    def between(self) -> float:
        """From when all is well again to the next trouble."""
        return min(180.0, max(15.0, self.seconds / _TROUBLES))

    @property
    def keeps(self) -> int:
        """Seconds."""
        return int(max(_KEEPS, self.seconds / 5)) // 60 * 60

    @property
    def chapter(self) -> int:
        """Seconds."""
        return self.keeps // 4

    @property
    def load_every(self) -> float:
        return min(240.0, max(60.0, self.keeps / 6))

    @property
    def samples_every(self) -> float:
        return min(10.0, max(1.0, self.seconds / 700))

    @property
    def settles(self) -> float:
        return max(_SETTLES, min(300.0, self.seconds / 20))

    def span(self, kind: Kind) -> Span:
        warm = self.seconds / 2
        if kind not in _WHAT_COMES_AND_GOES_AT_ONCE:
            warm = max(warm, 1.5 * self.keeps)
        return Span(warm, self.seconds, self.settles)
