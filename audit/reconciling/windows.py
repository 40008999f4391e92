"""The windows of a picture, and the steps of their events from one tier to the next.

Brokers are compared with agents, and files with brokers, or with agents if no broker counts. The
brokers of a copy are compared with those of its origin. A step always adds up: the events of the
earlier tier, less missing and pending ones, plus excess and unclaimed ones, plus those that offsets
prove to be in another window there (`elsewhere`), are what the later tier accounts for.

Intervals of time are half-open; an empty one stands for the moment at which it begins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.reconciling.picture import Tier, TierKind, TopicPicture, Window, WindowSums
from ground.intervals import covers, merged, minus


class Pair(NamedTuple):
    """Two tiers to compare."""

    earlier: Tier
    later: Tier


class Step(NamedTuple):
    """The outcome of one window's events between two tiers."""

    pair: Pair
    missing: int = 0
    pending: int = 0
    excess: int = 0
    unclaimed: int = 0
    unclaimed_yet: int = 0  # those of `unclaimed` that the earlier tier may still claim
    elsewhere: int = 0  # moved here from other windows; below zero: moved away


_NOTHING: Final = WindowSums()
_WINDOW: Final = 60_000  # the length, if there is no window to take it from


def pairs(tiers: Sequence[Tier]) -> list[Pair]:
    """Returns adjacent tiers. A mirror is included only if no broker counts its copy."""
    tier_pairs: list[Pair] = []
    earlier_tier: Tier | None = None
    is_counted = any(tier.kind is TierKind.BROKER for tier in tiers)
    for tier in tiers:
        if tier.kind is TierKind.MIRROR and is_counted:
            continue
        if earlier_tier is not None and tier.kind is not TierKind.AGENT:
            tier_pairs.append(Pair(earlier_tier, tier))
        if tier.kind is not TierKind.HDFS:
            earlier_tier = tier
    return tier_pairs


def accounted(tier: Tier, sums: WindowSums) -> int:
    """Returns how many events a tier has or can account for."""
    if tier.kind is TierKind.HDFS:
        return sums.events + sums.duplicates + sums.dead
    return sums.events


def sums_at(window: Window, tier: Tier) -> WindowSums:
    return window.sums.get(tier, _NOTHING)


def is_counted(window: Window, pair: Pair) -> bool:
    """Whether the sums of both tiers include everything that the tiers have reported."""
    return window.uncounted.isdisjoint(pair)


def compared(window: Window, pair: Pair) -> tuple[int, bool]:
    """Returns by how many events the earlier tier exceeds the later one, and whether equal numbers
    have different content."""
    earlier_sums = window.sums.get(pair.earlier, _NOTHING)
    later_sums = window.sums.get(pair.later, _NOTHING)
    surplus = earlier_sums.events - accounted(pair.later, later_sums)
    return surplus, surplus == 0 and earlier_sums.crc_sum != later_sums.crc_sum


class Axis:
    """Windows by number, in ascending order and without overlaps."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows
        self._starts = [window.start for window in windows]
        self._ends = [window.start + window.length for window in windows]

    def touched(self, from_time: int, to_time: int) -> range:
        """Returns the numbers of the windows that overlap this period."""
        first = bisect_right(self._ends, from_time)
        return range(first, bisect_left(self._starts, max(to_time, from_time + 1), lo=first))


def aligned(windows: Sequence[Window]) -> Sequence[Window]:
    """Returns windows that do not overlap: if tiers have windows of different lengths, the shorter
    windows are merged into the longer ones."""
    if all(
        window.start + window.length <= next_window.start
        for window, next_window in pairwise(windows)
    ):
        return windows
    merged_windows: list[Window] = []
    for window in sorted(windows, key=lambda window: (window.start, -window.length)):
        if merged_windows and window.start < merged_windows[-1].start + merged_windows[-1].length:
            merged_windows[-1] = _together(merged_windows[-1], window)
        else:
            merged_windows.append(window)
    return merged_windows


def _together(window: Window, next_window: Window) -> Window:
    sums = dict(window.sums)
    for tier, next_sums in next_window.sums.items():
        sums[tier] = WindowSums(*map(sum, zip(sums.get(tier, _NOTHING), next_sums, strict=True)))
    is_unknown = window.lost_events < 0 or next_window.lost_events < 0
    return Window(
        start=window.start,
        length=max(window.start + window.length, next_window.start + next_window.length)
        - window.start,
        sums=sums,
        filtered=window.filtered + next_window.filtered,
        dead=window.dead + next_window.dead,
        lost_events=-1 if is_unknown else window.lost_events + next_window.lost_events,
        lost_bytes=window.lost_bytes + next_window.lost_bytes,
        uncounted=window.uncounted | next_window.uncounted,
    )


def with_copied(windows: Sequence[Window], picture: TopicPicture) -> Sequence[Window]:
    """Replaces the sums of a mirror with those of the brokers where the mirror's are too small and
    its offsets cover everything that brokers have of the copy, so that no other program can have
    written there."""
    mirror, broker = Tier(TierKind.MIRROR), Tier(TierKind.BROKER)
    if not {mirror, broker}.issubset(picture.tiers):
        return windows
    is_complete = all(
        covers(partition.claimed.get(mirror, ()), partition.claimed.get(broker, ()))
        for partition in picture.partitions
    )
    if not is_complete:
        return windows
    return [
        replace(
            window,
            sums={**window.sums, mirror: sums_at(window, broker)},
            uncounted=window.uncounted - {mirror},
        )
        if mirror in window.uncounted and broker not in window.uncounted
        else window
        for window in windows
    ]


def with_unwatched(windows: Sequence[Window], picture: TopicPicture) -> Sequence[Window]:
    """Adds empty windows for the periods in which agents did not watch."""
    unwatched_times = merged(
        (max(gap.from_time, picture.from_time), min(gap.to_time, picture.to_time))
        for gap in picture.unwatched
    )
    if not unwatched_times:
        return windows
    length = min((window.length for window in windows), default=_WINDOW)
    unwatched_times = merged(
        (first - first % length, end + -end % length) for first, end in unwatched_times
    )
    window_times = merged((window.start, window.start + window.length) for window in windows)
    empty_windows = [
        Window(start, min(length, end - start), {})
        for first, end in minus(unwatched_times, window_times)
        for start in range(first, end, length)
    ]
    return sorted([*windows, *empty_windows], key=lambda window: window.start)
