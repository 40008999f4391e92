"""What two tiers have said of offsets: what the later one lacks, what it may still speak of, and
what it speaks of although the earlier one has not.

An offset above all that the later tier has spoken of in a partition is one that it may still speak
of; one below is lacking. Spans tell which windows are concerned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.picture import Interval, Intervals, Partition, Span, Tier, TopicPicture
from audit.reconciling.axis import Axis
from audit.reconciling.intervals import intersection, minus, size, upto
from audit.reconciling.steps import Pair


@dataclass(frozen=True, slots=True)
class Passing:
    """Of one pair of tiers. `unspoken` are offsets of the later tier that the earlier one has not
    claimed; those before anything that it has claimed there are in `before`."""

    pair: Pair
    claimed: Mapping[int, Intervals]  # by the later tier
    lacking: Mapping[int, Intervals]
    waiting: Mapping[int, Intervals]
    unspoken: int
    before: int
    ahead: bool  # the later tier has claimed more than the earlier one, at the end
    pending: frozenset[int]  # windows
    since: int  # from when on it is waited for; -1: not known

    def up_to(self, partition: int) -> int:
        return upto(self.claimed.get(partition, ()))


def passed(picture: TopicPicture, pair: Pair, axis: Axis) -> Passing:
    claimed = {each.number: _claimed(each, pair.later) for each in picture.partitions}
    lacking: dict[int, Intervals] = {}
    waiting: dict[int, Intervals] = {}
    unspoken = before = 0
    ahead = False
    for each in picture.partitions:
        mine, theirs = _claimed(each, pair.earlier), claimed[each.number]
        if mine == theirs:
            continue
        end = upto(theirs)
        absent = minus(mine, theirs)
        if below := intersection(absent, ((0, end),)):
            lacking[each.number] = below
        if above := minus(absent, ((0, end),)):
            waiting[each.number] = above
        extra = minus(theirs, mine)
        first = mine[0][0] if mine else 0
        early = size(intersection(extra, ((0, first),)))
        before += early
        unspoken += size(extra) - early
        ahead = ahead or end > upto(mine)
    pending, since = _open(picture.open, pair.earlier, claimed, axis) if waiting else (set(), -1)
    return Passing(
        pair, claimed, lacking, waiting, unspoken, before, ahead, frozenset(pending), since
    )


def times_of(
    spans: Sequence[Span], tier: Tier, partition: int, offsets: Interval
) -> tuple[int, int]:
    """Between which times events at these offsets may be; -1 if nobody says."""
    found = [
        each
        for each in spans
        if each.tier == tier
        and each.partition == partition
        and each.first < offsets[1]
        and offsets[0] < each.next_offset
    ]
    if not found:
        return (-1, -1)
    return (min(each.from_time for each in found), max(each.to_time for each in found))


def _claimed(partition: Partition, tier: Tier) -> Intervals:
    return partition.claimed.get(tier, ())


def _open(
    spans: Sequence[Span], tier: Tier, claimed: Mapping[int, Intervals], axis: Axis
) -> tuple[set[int], int]:
    ends = {number: upto(each) for number, each in claimed.items()}
    times = {
        (each.from_time, each.to_time)
        for each in spans
        if each.tier == tier and each.next_offset > ends.get(each.partition, 0)
    }
    found: set[int] = set()
    for from_time, to_time in times:
        found.update(axis.touched(from_time, to_time))
    return found, min((from_time for from_time, _ in times), default=-1)
