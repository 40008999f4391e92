"""Whether what is watched stays as it is, or grows: the judge of series, pure.

A series is what one thing takes, over time: the memory of a broker, the files of its log. It goes
in *lives*: each start of a process begins one, and nothing is compared across a start.

1.  Of a life, its beginning is left out (`settles`), and of the run whatever was before `warm`.
2.  Time is cut into bins, and of each bin the least value stays: what was never given back. A saw
    tooth has a level by that, however high its teeth are, if they are shorter than a bin.
3.  Each two bins of one life make a slope. The median of all of them (Theil and Sen) is the slope
    of the series: neither a peak nor a start moves it.
4.  The share of pairs that rise, less that of those that fall (Kendall's tau) says whether it goes
    up all the while. One step, wherever it is, gives 8/15 at most.
5.  It grows if the slope is more than its kind may have, it goes up all the while, and in its
    longest life that came to more than is noise.

So what can be found depends on how long was looked: `finds` says the least growth in an hour that
would have been called one. A series with too few bins is not judged, and called neither.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import Final

import msgspec

_HEAD: Final = ("series", "level", "an hour", "finds", "lives", "")
BINS: Final = 24  # of the time that is judged
LEAST_PAIRS: Final = 10
UPWARD: Final = 0.65
HOUR: Final = 3600.0
_MIB: Final = 1024.0 * 1024


class Kind(StrEnum):
    MEMORY = "memory"
    JVM_MEMORY = "memory of a JVM"
    DESCRIPTORS = "descriptors"
    THREADS = "threads"
    LOGS = "logs on disk"
    STATE = "state on disk"
    AHEAD = "log ahead of a database"
    NODES = "ZooKeeper's nodes"
    WATCHES = "ZooKeeper's watches"
    OTHER = "shown only"


class Tolerance(msgspec.Struct, frozen=True):
    hourly: float  # it may grow so much in an hour
    noise: float  # and that much means nothing
    unit: float = 1.0
    named: str = ""

    def words(self, value: float) -> str:
        return f"{value / self.unit:,.1f}{self.named}"


# At such a rate nothing comes to harm in a day, and in a month somebody would notice.
TOLERANCES: Final[Mapping[Kind, Tolerance]] = {
    Kind.MEMORY: Tolerance(6 * _MIB, 3 * _MIB, _MIB, " MiB"),
    Kind.JVM_MEMORY: Tolerance(24 * _MIB, 12 * _MIB, _MIB, " MiB"),
    Kind.DESCRIPTORS: Tolerance(4, 3),
    Kind.THREADS: Tolerance(2, 2),
    Kind.LOGS: Tolerance(4 * _MIB, 2 * _MIB, _MIB, " MiB"),
    Kind.STATE: Tolerance(2 * _MIB, 1 * _MIB, _MIB, " MiB"),
    Kind.AHEAD: Tolerance(8 * _MIB, 4 * _MIB, _MIB, " MiB"),
    Kind.NODES: Tolerance(20, 10),
    Kind.WATCHES: Tolerance(20, 12),
}


class Point(msgspec.Struct, frozen=True):
    seconds: float  # since the run began
    life: str
    value: float


class Span(msgspec.Struct, frozen=True):
    """What of a run is judged."""

    warm: float
    until: float
    settles: float = 0.0  # at the beginning of each life


class Series(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    points: tuple[Point, ...]


class Trend(msgspec.Struct, frozen=True):
    """What is said of one series."""

    kind: Kind
    level: float  # the median
    slope: float  # an hour
    tau: float
    growth: float  # in the longest life
    finds: float  # an hour
    lives: int
    pairs: int

    @property
    def judged(self) -> bool:
        return self.kind in TOLERANCES and self.pairs >= LEAST_PAIRS

    @property
    def grows(self) -> bool:
        if not self.judged:
            return False
        tolerance = TOLERANCES[self.kind]
        return self.slope > tolerance.hourly and self.tau > UPWARD and self.growth > tolerance.noise

    @property
    def word(self) -> str:
        if self.kind not in TOLERANCES:
            return "shown"
        return "GROWS" if self.grows else "flat" if self.judged else "too short"


def trend_of(kind: Kind, points: Iterable[Point], span: Span) -> Trend:
    lives = _lives(points, span)
    values = [value for life in lives for _, value in life]
    width = max((span.until - span.warm) / BINS, 1e-9)
    binned = [_least_by_bin(life, span.warm, width) for life in lives]
    pairs = [pair for life in binned for pair in combinations(life, 2)]
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs]
    slope = median(slopes) if slopes else 0.0
    tau = sum((each > 0) - (each < 0) for each in slopes) / len(slopes) if slopes else 0.0
    longest = max((life[-1][0] - life[0][0] for life in binned if life), default=0.0)
    return Trend(
        kind,
        median(values) if values else 0.0,
        slope * HOUR,
        tau,
        slope * longest,
        _finds(kind, longest),
        sum(bool(life) for life in binned),
        len(pairs),
    )


def _finds(kind: Kind, longest: float) -> float:
    if kind not in TOLERANCES or not longest:
        return 0.0
    return max(TOLERANCES[kind].hourly, TOLERANCES[kind].noise / longest * HOUR)


def _lives(points: Iterable[Point], span: Span) -> list[list[tuple[float, float]]]:
    """Of each life what is judged: moments and values, in order."""
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in sorted(points, key=lambda point: point.seconds):
        if each.seconds <= span.until:
            found[each.life].append((each.seconds, each.value))
    lives = []
    for life in found.values():
        from_here = max(span.warm, life[0][0] + span.settles)
        if kept := [each for each in life if each[0] >= from_here]:
            lives.append(kept)
    return lives


def _least_by_bin(
    life: Sequence[tuple[float, float]], begin: float, width: float
) -> list[tuple[float, float]]:
    """A bin that the life only touches has too few values for a least one, and is left out."""
    bins: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in life:
        bins[int((each[0] - begin) / width)].append(each)
    usual = median(len(each) for each in bins.values())
    return [
        (median(at for at, _ in each), min(value for _, value in each))
        for each in bins.values()
        if len(each) >= 0.5 * usual
    ]


# What is told at the end, from the samples alone: so it can be told again of any run.


class Judged(msgspec.Struct, frozen=True):
    name: str
    trend: Trend

    def row(self) -> tuple[str, ...]:
        trend = self.trend
        words = TOLERANCES[trend.kind].words
        rate = f"{'+' if trend.slope >= 0 else '-'}{words(abs(trend.slope))}"
        finds = words(trend.finds) if trend.judged else ""
        return self.name, words(trend.level), rate, finds, str(trend.lives), trend.word


def judged(series: Sequence[Series], span: Callable[[Kind], Span]) -> list[Judged]:
    return [
        Judged(each.name, trend_of(each.kind, each.points, span(each.kind)))
        for each in sorted(series, key=lambda one: list(Kind).index(one.kind))
        if each.kind in TOLERANCES
    ]


def objections(found: Sequence[Judged]) -> Iterator[str]:
    for each in found:
        if each.trend.grows:
            words = TOLERANCES[each.trend.kind].words
            yield (
                f"{each.name} grows by {words(each.trend.slope)} an hour;"
                f" {words(TOLERANCES[each.trend.kind].hourly)} are allowed"
            )


def table(found: Sequence[Judged]) -> str:
    """In Markdown, aligned for people."""
    rows = [_HEAD, *(each.row() for each in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join(
        [lines[0], "|" + "|".join("-" * (each + 2) for each in widths) + "|", *lines[1:]]
    )


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
