"""When what happens to whom in a long run, and how long things are kept in it: all follows from
how long it is.

Troubles come at a pace, so that programs live for long enough to show whether they grow. From the
middle on one broker is frozen where it would have been killed or stopped: it lives to the end, and
what it takes is watched for half the run.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from tests.cluster_pipeline.choosing import Trouble, Verb
from tests.soak.flatness import Kind, Span

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


def paced(
    troubles: Iterable[Trouble],
    between: float,
    until: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Trouble]:
    """Each so long after the one before is over; none begins after `until`, and then it is."""
    for trouble in troubles:
        due = clock() + between
        sleep(max(0.0, min(due, until) - clock()))
        if due >= until:
            return
        yield trouble


def spared(
    troubles: Iterable[Trouble],
    broker: int,
    begin: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Trouble]:
    """From `begin` on this broker is not ended, whatever else happens to it."""
    for trouble in troubles:
        if trouble.broker == broker and clock() >= begin:
            yield replace(trouble, verb=Verb.FREEZE, at_once=False)
        else:
            yield trouble
