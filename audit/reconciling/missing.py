"""From one tier to the next by offsets: what the later one lacks, what it may still speak of, what
it speaks of although the earlier one has not; and which events that are, by name.

An offset above all that the later tier has spoken of in a partition is one that it may still speak
of; one below is lacking. Spans tell which windows are concerned. Of what was cut off from a log
nobody will speak any more: all that is absent there is lacking. There, an earlier tier need not
have spoken of what a later one has read in time.

Two things tell which events are missing: host, file, seqs, bytes. Offsets that a tier lacks are
missing with all that agents put there, which does no harm where the same events have landed from
elsewhere: an agent that had forgotten them has shipped them again, maybe cut into other lines. And
seqs that have not landed are missing in files, if the
loader has been past their offsets; whether they became something else there (a dead letter has no
seq that the loader could know) is for sums to decide.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from audit.findings import FaultKind, Finding
from audit.picture import (
    AlteredBatch,
    BatchPart,
    OffsetSpan,
    PartitionPicture,
    Placed,
    Source,
    Tier,
    TierKind,
    TopicPicture,
)
from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.windows import Axis, Pair
from ground.intervals import (
    Interval,
    Intervals,
    covers,
    intersection,
    merged,
    minus,
    size,
    union,
    upto,
)

_FOR_EVER: Final = 1 << 60
_LOGS: Final = {TierKind.ORIGIN, TierKind.BROKER}


class Passing(msgspec.Struct, frozen=True):
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
    cut_off: Mapping[int, PartitionPicture]  # that are not in the log any more
    uncounted: bool  # some of that the later tier has, and the earlier one never spoke of
    # Of a copy that is held against its origin, what the mirror has copied; None of all else.
    copied: Mapping[int, Intervals] | None = None
    origin: str = ""

    def up_to(self, number: int) -> int:
        return _FOR_EVER if number in self.cut_off else upto(self.claimed.get(number, ()))

    def lacks(self, fault: Fault) -> bool:
        """Any of it."""
        one = fault.finding
        lacking = self.lacking.get(one.partition, ())
        return bool(intersection(lacking, ((one.offset, one.offset + one.offsets),)))

    def partition_of(self, number: int) -> int:
        """The partition as everybody else knows it."""
        cut = self.cut_off.get(number)
        return cut.partition if cut else number

    def why_gone(self, number: int, offsets: Interval) -> str:
        """Empty for what lies in the log, unless it is a copy."""
        cut = self.cut_off.get(number)
        if cut:
            return f"{words.LOG_LOST}: {cut.reason}"
        if self.copied is None:
            return ""
        if covers(self.copied.get(number, ()), (offsets,)):
            return f"the mirror had copied them from {self.origin}"
        return f"they were not copied from {self.origin}"

    def lacking_since(self, number: int, offsets: Interval, told: "Told") -> int:
        """When it came about that these are lacking, at the earliest: when the log lost them, or
        when they were written, if the later tier has gone past them; -1 if that is not known."""
        cut = self.cut_off.get(number)
        if cut and offsets[0] >= upto(self.claimed.get(number, ())):
            return cut.cut_time
        return told.said(number, offsets)


def passed(picture: TopicPicture, pair: Pair, axis: Axis) -> Passing:
    beyond = picture.tiers[picture.tiers.index(pair.later) :]
    cut_off = {each.number: each for each in picture.partitions if each.is_cut_off}
    claimed = {
        each.number: union(*(_claimed(each, tier) for tier in _speaking(each, pair, beyond)))
        for each in picture.partitions
    }
    lacking: dict[int, Intervals] = {}
    waiting: dict[int, Intervals] = {}
    unspoken = before = 0
    ahead = uncounted = False
    for each in picture.partitions:
        mine, theirs = _to_pass(each, pair, beyond), claimed[each.number]
        if mine == theirs:
            continue
        end = _FOR_EVER if each.is_cut_off else upto(theirs)
        absent = minus(mine, theirs)
        if below := intersection(absent, ((0, end),)):
            lacking[each.number] = below
        if above := minus(absent, ((0, end),)):
            waiting[each.number] = above
        extra = minus(theirs, mine)
        first = mine[0][0] if mine else 0
        uncounted = uncounted or (each.is_cut_off and bool(extra))
        early = size(intersection(extra, ((0, first),)))
        before += early
        unspoken += size(extra) - early
        ahead = ahead or (not each.is_cut_off and end > upto(mine))
    pending, since = set[int](), -1
    if waiting:
        spans = [each for each in picture.open if each.partition not in cut_off]
        pending, since = _open(spans, pair.earlier, claimed, axis)
    return Passing(
        pair=pair,
        claimed=claimed,
        lacking=lacking,
        waiting=waiting,
        unspoken=unspoken,
        before=before,
        ahead=ahead,
        pending=frozenset(pending),
        since=since,
        cut_off=cut_off,
        uncounted=uncounted,
        copied=_copied(picture) if picture.origin and pair.later.kind in _COPIED else None,
        origin=f"{picture.origin.cluster}/{picture.origin.topic}" if picture.origin else "",
    )


_COPIED: Final = {TierKind.MIRROR, TierKind.BROKER}


def _copied(picture: TopicPicture) -> dict[int, Intervals]:
    mirror = Tier(TierKind.MIRROR)
    return {each.number: _claimed(each, mirror) for each in picture.partitions}


def _speaking(partition: PartitionPicture, pair: Pair, beyond: Sequence[Tier]) -> Sequence[Tier]:
    if partition.is_cut_off and pair.later.kind in _LOGS:
        return beyond if len(beyond) > 1 else ()
    return (pair.later,)


def _to_pass(partition: PartitionPicture, pair: Pair, beyond: Sequence[Tier]) -> Intervals:
    """What the log has lost before anybody could take it from there is lacking at the brokers: all
    of it, whoever has written it."""
    if partition.is_cut_off and not _speaking(partition, pair, beyond):
        return union(_claimed(partition, pair.earlier), _claimed(partition, pair.later))
    return _claimed(partition, pair.earlier)


class Told:
    """When events at some offsets happened: as spans say, to the window, or as far as it is known
    to the hour where all have passed long ago."""

    def __init__(self, spans: Iterable[OffsetSpan], placed: Iterable[Placed]) -> None:
        found: dict[tuple[Tier | None, int], list[OffsetSpan | Placed]] = {}
        for span in spans:
            found.setdefault((span.tier, span.partition), []).append(span)
        for each in placed:
            found.setdefault((None, each.partition), []).append(each)
        self._spans = {
            key: sorted(some, key=lambda span: span.first) for key, some in found.items()
        }
        self._first = {key: [each.first for each in some] for key, some in self._spans.items()}
        self._upto = {
            key: [*accumulate((each.next_offset for each in some), max)]
            for key, some in self._spans.items()
        }

    def is_too_old(self, partition: int, offsets: Interval) -> bool:
        """Whether it is known where offsets of this partition lie, and nobody spoke of these for as
        long as anything is kept."""
        return (None, partition) in self._spans and self._at((None, partition), offsets)[0] < 0

    def times_of(self, tier: Tier, partition: int, offsets: Interval) -> tuple[int, int]:
        """Between which times they may be; -1 if nobody says."""
        found = self._at((tier, partition), offsets)
        return self._at((None, partition), offsets) if found[0] < 0 else found

    def said(self, partition: int, offsets: Interval) -> int:
        """When all of these had been spoken of; -1 if that is not known."""
        here = [each for each in self._over((None, partition), offsets) if isinstance(each, Placed)]
        rest: Intervals = (offsets,)
        said = -1
        for each in sorted(here, key=lambda each: each.said):
            left = minus(rest, ((each.first, each.next_offset),))
            if left != rest:
                rest, said = left, each.said
        return said

    def _at(self, key: tuple[Tier | None, int], offsets: Interval) -> tuple[int, int]:
        from_time = to_time = -1
        for span in self._over(key, offsets):
            from_time = span.from_time if from_time < 0 else min(from_time, span.from_time)
            to_time = max(to_time, span.to_time)
        return from_time, to_time

    def _over(
        self, key: tuple[Tier | None, int], offsets: Interval
    ) -> Iterator[OffsetSpan | Placed]:
        spans, upto = self._spans.get(key, ()), self._upto.get(key, ())
        for at in range(bisect_left(self._first.get(key, ()), offsets[1]) - 1, -1, -1):
            if upto[at] <= offsets[0]:
                return
            if spans[at].next_offset > offsets[0]:
                yield spans[at]


def _claimed(partition: PartitionPicture, tier: Tier) -> Intervals:
    return partition.claimed.get(tier, ())


def _open(
    spans: Sequence[OffsetSpan], tier: Tier, claimed: Mapping[int, Intervals], axis: Axis
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


class NamedMissing(NamedTuple):
    """`certain` are missing whatever the sums say; `doubtful` may have become dead letters."""

    certain: list[Fault]
    doubtful: list[Fault]


def missing(
    passages: Sequence[Passing],
    sources: Sequence[Source],
    damaged: Sequence[AlteredBatch],
    told: Told,
) -> list[NamedMissing]:
    """Of each pair of tiers. An event is named once: where it is missing first. What is damaged is
    not named here at all."""
    spoilt: dict[int, list[Interval]] = {}
    for each in damaged:
        spoilt.setdefault(each.partition, []).append((each.first, each.first + each.count))
    gone = {partition: merged(batches) for partition, batches in spoilt.items()}
    found = [NamedMissing([], []) for _ in passages]
    for passing, named in zip(passages, found, strict=True):
        of_files = passing.pair.later.kind is TierKind.HDFS
        beyond = [] if of_files else [each for each in passages if each is not passing]
        known: dict[int, list[Interval]] = {}
        for source in sources:
            for stretch in source.stretches:
                _name_stretch(passing, source, stretch, told, gone=gone, known=known, named=named)
        for number, lacking in passing.lacking.items():
            rest = minus(lacking, union(merged(known.get(number, ())), gone.get(number, ())))
            rest = tuple(each for each in rest if not told.is_too_old(number, each))
            passed = intersection(rest, union(*(each.claimed.get(number, ()) for each in beyond)))
            for offsets in minus(rest, passed):
                named.certain.append(_of_offsets(passing, number, offsets, told))
            for offsets in passed:
                fault = _of_offsets(passing, number, offsets, told)
                fault.doubt(FaultKind.UNPROVEN, "a later one has read them there")
                named.certain.append(fault)
        if not of_files:
            for number, lacking in passing.lacking.items():
                gone[number] = union(gone.get(number, ()), lacking)
    return found


def _name_stretch(
    passing: Passing,
    source: Source,
    stretch: BatchPart,
    told: Told,
    *,
    gone: Mapping[int, Intervals],
    known: dict[int, list[Interval]],
    named: NamedMissing,
) -> None:
    number = stretch.partition
    lacking = passing.lacking.get(number, ())
    seqs = ((stretch.seq, stretch.seq + stretch.events),)
    of_files = passing.pair.later.kind is TierKind.HDFS
    landed = (
        source.landed.get(passing.pair.later, ()) if of_files else union(*source.landed.values())
    )
    shift = stretch.first - stretch.seq
    offsets = tuple((first + shift, after + shift) for first, after in minus(seqs, landed))
    if number in gone:
        offsets = minus(offsets, gone[number])
    if of_files:
        offsets = intersection(offsets, ((0, passing.up_to(number)),))
        inside = minus(offsets, lacking)
        named.doubtful.extend(_fault(passing, source, stretch, told, each) for each in inside)
    if not lacking:
        return
    all_of_it = ((stretch.first, stretch.first + stretch.events),)
    here = minus(intersection(all_of_it, lacking), gone.get(number, ()))
    landed_here = tuple((first + shift, after + shift) for first, after in landed)
    beyond = ((_end_of(source, landed) + shift, _FOR_EVER),)
    for some, harmless in (
        (intersection(here, landed_here), words.shipped_again()),
        (intersection(minus(here, landed_here), beyond), words.read_again()),
        (minus(minus(here, landed_here), beyond), ""),
    ):
        for each in some:
            known.setdefault(number, []).append(each)
            fault = _fault(passing, source, stretch, told, each)
            fault.harmless = harmless
            named.certain.append(fault)


def _end_of(source: Source, landed: Intervals) -> int:
    """The first seq that a file does not have of which all has landed, as its agent said at last
    how many it has in all."""
    events = source.events_at_last
    return events if events > 0 and covers(landed, ((0, events),)) else _FOR_EVER


def _fault(
    passing: Passing, source: Source, stretch: BatchPart, told: Told, offsets: Interval
) -> Fault:
    count = offsets[1] - offsets[0]
    tier = passing.pair.later
    return Fault(
        Finding(
            kind=FaultKind.MISSING,
            words="",
            tier=tier.kind.value,
            destination=tier.destination,
            host=source.host,
            agent=source.agent,
            path=source.path,
            source=source.source,
            seq=stretch.seq + offsets[0] - stretch.first,
            events=count,
            position=stretch.position,
            end_position=stretch.end_position,
            partition=passing.partition_of(stretch.partition),
            offset=offsets[0],
            offsets=count,
            from_time=stretch.from_time,
            to_time=stretch.to_time,
        ),
        pair=passing.pair,
        exact=count == stretch.events and not stretch.partly,
        count=count,
        reason=passing.why_gone(stretch.partition, offsets),
        since=passing.lacking_since(stretch.partition, offsets, told),
    )


def _of_offsets(passing: Passing, number: int, offsets: Interval, told: Told) -> Fault:
    from_time, to_time = told.times_of(passing.pair.earlier, number, offsets)
    tier = passing.pair.later
    return Fault(
        Finding(
            kind=FaultKind.MISSING,
            words="",
            tier=tier.kind.value,
            destination=tier.destination,
            partition=passing.partition_of(number),
            offset=offsets[0],
            offsets=offsets[1] - offsets[0],
            from_time=from_time,
            to_time=to_time,
        ),
        pair=passing.pair,
        count=offsets[1] - offsets[0],
        reason=passing.why_gone(number, offsets),
        since=passing.lacking_since(number, offsets, told),
    )
