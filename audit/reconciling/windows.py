"""The windows of a picture, and what of each got from one tier to the next.

Brokers are held against agents, files against brokers, or against agents where no broker counts.
The brokers of a copy are held against those of its origin. A step's parts always add up: what the
earlier tier has, less missing and pending, plus excess and unclaimed, is what the later tier
accounts for; with those that are elsewhere: in another window there, which offsets prove.

Stretches of time are half-open; one without length is the moment it begins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.picture import Tier, TierKind, TopicPicture, Window, WindowSums
from ground.intervals import covers, merged, minus


class Pair(NamedTuple):
    """Two tiers that are compared."""

    earlier: Tier
    later: Tier


class Step(NamedTuple):
    """What one window has of the way between two tiers, in events."""

    pair: Pair
    missing: int = 0
    pending: int = 0
    excess: int = 0
    unclaimed: int = 0
    unclaimed_yet: int = 0  # of these, events of which the earlier tier may still speak
    elsewhere: int = 0  # more here than at the earlier tier; below zero: fewer


_NOTHING: Final = WindowSums()
_WINDOW: Final = 60_000  # where there is none to tell how long they are


def pairs(tiers: Sequence[Tier]) -> list[Pair]:
    """A mirror is a tier that others are held against only where no broker counts its copy."""
    found: list[Pair] = []
    earlier: Tier | None = None
    is_counted = any(tier.kind is TierKind.BROKER for tier in tiers)
    for tier in tiers:
        if tier.kind is TierKind.MIRROR and is_counted:
            continue
        if earlier is not None and tier.kind is not TierKind.AGENT:
            found.append(Pair(earlier, tier))
        if tier.kind is not TierKind.HDFS:
            earlier = tier
    return found


def accounted(tier: Tier, sums: WindowSums) -> int:
    """How many events a tier has or can say what became of them."""
    if tier.kind is TierKind.HDFS:
        return sums.events + sums.duplicates + sums.dead
    return sums.events


def sums_at(window: Window, tier: Tier) -> WindowSums:
    return window.sums.get(tier, _NOTHING)


def is_counted(window: Window, pair: Pair) -> bool:
    """Whether the sums of both are all that they have said."""
    return window.uncounted.isdisjoint(pair)


def compared(window: Window, pair: Pair) -> tuple[int, bool]:
    """How many events the earlier tier has more; and whether, where it has as many, they are not
    the same ones."""
    earlier = window.sums.get(pair.earlier, _NOTHING)
    later = window.sums.get(pair.later, _NOTHING)
    more = earlier.events - accounted(pair.later, later)
    return more, more == 0 and earlier.crc_sum != later.crc_sum


class Axis:
    """Windows by number, in ascending order; none overlaps another."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows
        self._starts = [each.start for each in windows]
        self._ends = [each.start + each.length for each in windows]

    def touched(self, from_time: int, to_time: int) -> range:
        """Those that have something in common with this time."""
        first = bisect_right(self._ends, from_time)
        return range(first, bisect_left(self._starts, max(to_time, from_time + 1), lo=first))


def aligned(windows: Sequence[Window]) -> Sequence[Window]:
    """Windows of which none overlaps another: where tiers have windows of unequal length, the
    shorter ones are taken together to the longer."""
    if all(one.start + one.length <= two.start for one, two in pairwise(windows)):
        return windows
    found: list[Window] = []
    for window in sorted(windows, key=lambda each: (each.start, -each.length)):
        if found and window.start < found[-1].start + found[-1].length:
            found[-1] = _together(found[-1], window)
        else:
            found.append(window)
    return found


def _together(one: Window, other: Window) -> Window:
    sums = dict(one.sums)
    for tier, more in other.sums.items():
        sums[tier] = WindowSums(*map(sum, zip(sums.get(tier, _NOTHING), more, strict=True)))
    unknown = one.lost_events < 0 or other.lost_events < 0
    return Window(
        start=one.start,
        length=max(one.start + one.length, other.start + other.length) - one.start,
        sums=sums,
        filtered=one.filtered + other.filtered,
        dead=one.dead + other.dead,
        lost_events=-1 if unknown else one.lost_events + other.lost_events,
        lost_bytes=one.lost_bytes + other.lost_bytes,
        uncounted=one.uncounted | other.uncounted,
    )


def with_copied(windows: Sequence[Window], picture: TopicPicture) -> Sequence[Window]:
    """Where a mirror's sums are too small, and by their offsets it has spoken of all that brokers
    have of the copy, it has what they have: nobody else writes there."""
    mirror, broker = Tier(TierKind.MIRROR), Tier(TierKind.BROKER)
    if not {mirror, broker}.issubset(picture.tiers):
        return windows
    spoken = all(
        covers(each.claimed.get(mirror, ()), each.claimed.get(broker, ()))
        for each in picture.partitions
    )
    if not spoken:
        return windows
    return [
        replace(
            each,
            sums={**each.sums, mirror: sums_at(each, broker)},
            uncounted=each.uncounted - {mirror},
        )
        if mirror in each.uncounted and broker not in each.uncounted
        else each
        for each in windows
    ]


def with_unwatched(windows: Sequence[Window], picture: TopicPicture) -> Sequence[Window]:
    """Windows in which nothing is known to have happened are there as well, where nobody knows."""
    blind = merged(
        (max(each.from_time, picture.from_time), min(each.to_time, picture.to_time))
        for each in picture.unwatched
    )
    if not blind:
        return windows
    length = min((each.length for each in windows), default=_WINDOW)
    blind = merged((first - first % length, end + -end % length) for first, end in blind)
    known = merged((each.start, each.start + each.length) for each in windows)
    empty = [
        Window(start, min(length, end - start), {})
        for first, end in minus(blind, known)
        for start in range(first, end, length)
    ]
    return sorted([*windows, *empty], key=lambda each: each.start)
