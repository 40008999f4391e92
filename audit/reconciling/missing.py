"""Finds missing events by offset: compares the claims of adjacent tiers, and names the events
(host, file, sequence numbers, bytes) that the later tier lacks.

An offset above everything that the later tier has claimed in a partition is pending: the tier may
still claim it. One below is lacking. Spans tell which windows are affected. No tier will claim
anything more of what was cut off from a log, so all that is absent there is lacking; and an earlier
tier need not have claimed what a later one read in time.

Missing events are named in two ways. Offsets that a tier lacks are missing with all events that
agents put there. This is harmless if the same events landed from elsewhere: an agent that had
forgotten them shipped them again, maybe split into other lines. And seqs that have not landed are
missing in files once the loader has passed their offsets; whether they became dead letters, whose
seqs the loader cannot know, is decided by sums.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.findings import FaultKind, Finding, of_file
from audit.reconciling.picture import (
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
    """The comparison of one pair of tiers by offsets. `unspoken` counts offsets of the later tier
    that the earlier one has not claimed; `before` counts those below the earlier tier's first claim
    in the partition."""

    pair: Pair
    claimed: Mapping[int, Intervals]  # by the later tier
    lacking: Mapping[int, Intervals]
    waiting: Mapping[int, Intervals]
    unspoken: int
    before: int
    ahead: bool  # at the end of a partition, the later tier has claimed more than the earlier one
    pending: frozenset[int]  # windows
    since: int  # the oldest time of what is waited for; -1: unknown
    cut_off: Mapping[int, PartitionPicture]  # former ends of partitions, no longer in the log
    uncounted: bool  # the later tier claims some of those, which the earlier one never claimed
    # If a copy is compared with its origin: what the mirror has copied.
    copied: Mapping[int, Intervals] | None = None
    origin: str = ""

    def up_to(self, number: int) -> int:
        return _FOR_EVER if number in self.cut_off else upto(self.claimed.get(number, ()))

    def lacks(self, fault: Fault) -> bool:
        """Whether the later tier lacks any of a fault's offsets."""
        finding = fault.finding
        missing_offsets = self.lacking.get(finding.partition, ())
        return bool(
            intersection(missing_offsets, ((finding.offset, finding.offset + finding.offsets),))
        )

    def partition_of(self, number: int) -> int:
        """Returns the partition's number in the topic, also for a part that was cut off and has a
        number of its own."""
        cut = self.cut_off.get(number)
        return cut.partition if cut else number

    def why_gone(self, number: int, offsets: Interval) -> str:
        """Returns the reason why the later tier lacks these offsets: a loss of the log, the gap of
        a load, or what a mirror did with them; else empty."""
        cut = self.cut_off.get(number)
        if cut:
            return f"{words.LOG_LOST}: {cut.reason}"
        if self.pair.later.kind is TierKind.HDFS:
            return words.PASSED_OVER
        if self.copied is None:
            return ""
        if covers(self.copied.get(number, ()), (offsets,)):
            return f"the mirror had copied them from {self.origin}"
        return f"they were not copied from {self.origin}"

    def lacking_since(self, number: int, offsets: Interval, offset_times: "OffsetTimes") -> int:
        """Returns the earliest time from which these offsets can be lacking: when the log lost them
        or, if the later tier has passed them, when they were written; -1 if unknown."""
        cut = self.cut_off.get(number)
        if cut and cut.cut_time >= 0 and offsets[0] >= upto(self.claimed.get(number, ())):
            return cut.cut_time
        return offset_times.claimed_at(number, offsets)


def passed(picture: TopicPicture, pair: Pair, axis: Axis) -> Passing:
    """Compares the offsets of all partitions at two adjacent tiers."""
    later_tiers = picture.tiers[picture.tiers.index(pair.later) :]
    cut_off_partitions = {
        partition.number: partition for partition in picture.partitions if partition.is_cut_off
    }
    claimed_offsets = {
        partition.number: union(
            *(_claimed(partition, tier) for tier in _speaking(partition, pair, later_tiers))
        )
        for partition in picture.partitions
    }
    missing_offsets: dict[int, Intervals] = {}
    waiting_offsets: dict[int, Intervals] = {}
    unspoken_events = early_events = 0
    is_ahead = is_uncounted = False
    for partition in picture.partitions:
        earlier_offsets, later_offsets = (
            _to_pass(partition, pair, later_tiers),
            claimed_offsets[partition.number],
        )
        if earlier_offsets == later_offsets:
            continue
        end = _FOR_EVER if partition.is_cut_off else upto(later_offsets)
        absent_offsets = minus(earlier_offsets, later_offsets)
        if passed_offsets := intersection(absent_offsets, ((0, end),)):
            missing_offsets[partition.number] = passed_offsets
        if pending_offsets := minus(absent_offsets, ((0, end),)):
            waiting_offsets[partition.number] = pending_offsets
        extra_offsets = minus(later_offsets, earlier_offsets)
        first_claim = earlier_offsets[0][0] if earlier_offsets else 0
        is_uncounted = is_uncounted or (partition.is_cut_off and bool(extra_offsets))
        early_offsets = size(intersection(extra_offsets, ((0, first_claim),)))
        early_events += early_offsets
        unspoken_events += size(extra_offsets) - early_offsets
        is_ahead = is_ahead or (not partition.is_cut_off and end > upto(earlier_offsets))
    pending_windows, since = set[int](), -1
    if waiting_offsets:
        spans = [span for span in picture.open if span.partition not in cut_off_partitions]
        pending_windows, since = _open(spans, pair.earlier, claimed_offsets, axis)
    return Passing(
        pair=pair,
        claimed=claimed_offsets,
        lacking=missing_offsets,
        waiting=waiting_offsets,
        unspoken=unspoken_events,
        before=early_events,
        ahead=is_ahead,
        pending=frozenset(pending_windows),
        since=since,
        cut_off=cut_off_partitions,
        uncounted=is_uncounted,
        copied=_copied(picture) if picture.origin and pair.later.kind in _COPIED else None,
        origin=f"{picture.origin.cluster}/{picture.origin.topic}" if picture.origin else "",
    )


_COPIED: Final = {TierKind.MIRROR, TierKind.BROKER}


def _copied(picture: TopicPicture) -> dict[int, Intervals]:
    mirror = Tier(TierKind.MIRROR)
    return {partition.number: _claimed(partition, mirror) for partition in picture.partitions}


def _speaking(
    partition: PartitionPicture, pair: Pair, later_tiers: Sequence[Tier]
) -> Sequence[Tier]:
    if partition.is_cut_off and pair.later.kind in _LOGS:
        return later_tiers if len(later_tiers) > 1 else ()
    return (pair.later,)


def _to_pass(partition: PartitionPicture, pair: Pair, later_tiers: Sequence[Tier]) -> Intervals:
    """Returns the offsets that the later tier must have. The brokers lack all that a log lost
    before a later tier could read it, whichever tier claimed it."""
    if partition.is_cut_off and not _speaking(partition, pair, later_tiers):
        return union(_claimed(partition, pair.earlier), _claimed(partition, pair.later))
    return _claimed(partition, pair.earlier)


class OffsetTimes:
    """The times of offsets: exact to the window where spans are stored; to the hour, if known,
    where all tiers passed long ago."""

    def __init__(self, spans: Iterable[OffsetSpan], placed: Iterable[Placed]) -> None:
        spans_by_place: dict[tuple[Tier | None, int], list[OffsetSpan | Placed]] = {}
        for span in spans:
            spans_by_place.setdefault((span.tier, span.partition), []).append(span)
        for place in placed:
            spans_by_place.setdefault((None, place.partition), []).append(place)
        self._spans = {
            key: sorted(spans, key=lambda span: span.first) for key, spans in spans_by_place.items()
        }
        self._first = {key: [span.first for span in spans] for key, spans in self._spans.items()}
        self._upto = {
            key: [*accumulate((span.next_offset for span in spans), max)]
            for key, spans in self._spans.items()
        }

    def is_too_old(self, partition: int, offsets: Interval) -> bool:
        """Whether these offsets are older than the retention: the hours of other offsets of the
        partition are known, but not the hours of these."""
        return (None, partition) in self._spans and self._at((None, partition), offsets)[0] < 0

    def times_of(self, tier: Tier, partition: int, offsets: Interval) -> tuple[int, int]:
        """Returns the earliest and latest possible times of the events; -1 if unknown."""
        times = self._at((tier, partition), offsets)
        return self._at((None, partition), offsets) if times[0] < 0 else times

    def claimed_at(self, partition: int, offsets: Interval) -> int:
        """Returns the time by which all of these offsets had been claimed; -1 if unknown."""
        placements = [
            span for span in self._over((None, partition), offsets) if isinstance(span, Placed)
        ]
        unclaimed_offsets: Intervals = (offsets,)
        time = -1
        for placement in sorted(placements, key=lambda placement: placement.said):
            remaining_offsets = minus(
                unclaimed_offsets, ((placement.first, placement.next_offset),)
            )
            if remaining_offsets != unclaimed_offsets:
                unclaimed_offsets, time = remaining_offsets, placement.said
        return time

    def _at(self, key: tuple[Tier | None, int], offsets: Interval) -> tuple[int, int]:
        from_time = to_time = -1
        for span in self._over(key, offsets):
            from_time = span.from_time if from_time < 0 else min(from_time, span.from_time)
            to_time = max(to_time, span.to_time)
        return from_time, to_time

    def _over(
        self, key: tuple[Tier | None, int], offsets: Interval
    ) -> Iterator[OffsetSpan | Placed]:
        spans, running_ends = self._spans.get(key, ()), self._upto.get(key, ())
        for number in range(bisect_left(self._first.get(key, ()), offsets[1]) - 1, -1, -1):
            if running_ends[number] <= offsets[0]:
                return
            if spans[number].next_offset > offsets[0]:
                yield spans[number]


def _claimed(partition: PartitionPicture, tier: Tier) -> Intervals:
    return partition.claimed.get(tier, ())


def _open(
    spans: Sequence[OffsetSpan], tier: Tier, claimed: Mapping[int, Intervals], axis: Axis
) -> tuple[set[int], int]:
    ends = {number: upto(offsets) for number, offsets in claimed.items()}
    times = {
        (span.from_time, span.to_time)
        for span in spans
        if span.tier == tier and span.next_offset > ends.get(span.partition, 0)
    }
    windows: set[int] = set()
    for from_time, to_time in times:
        windows.update(axis.touched(from_time, to_time))
    return windows, min((from_time for from_time, _ in times), default=-1)


class NamedMissing(NamedTuple):
    """Missing events by name. `certain` events are missing even if the sums match; `doubtful`
    events may have become dead letters."""

    certain: list[Fault]
    doubtful: list[Fault]


def missing(
    passages: Sequence[Passing],
    sources: Sequence[Source],
    damaged: Sequence[AlteredBatch],
    offset_times: OffsetTimes,
) -> list[NamedMissing]:
    """Returns the missing events of each pair of tiers. Each event is named only at the first tier
    that lacks it. Damaged batches are left out."""
    damaged_offsets: dict[int, list[Interval]] = {}
    for batch in damaged:
        damaged_offsets.setdefault(batch.partition, []).append(
            (batch.first, batch.first + batch.count)
        )
    damage_by_partition = {
        partition: merged(batches) for partition, batches in damaged_offsets.items()
    }
    results = [NamedMissing([], []) for _ in passages]
    for passing, result in zip(passages, results, strict=True):
        in_files = passing.pair.later.kind is TierKind.HDFS
        later_passings = [] if in_files else [other for other in passages if other is not passing]
        named_offsets: dict[int, list[Interval]] = {}
        for source in sources:
            for stretch in source.stretches:
                _name_stretch(
                    passing,
                    source,
                    stretch,
                    offset_times,
                    explained=damage_by_partition,
                    named_offsets=named_offsets,
                    named=result,
                )
        for number, missing_offsets in passing.lacking.items():
            unexplained_offsets = minus(
                missing_offsets,
                union(merged(named_offsets.get(number, ())), damage_by_partition.get(number, ())),
            )
            unexplained_offsets = tuple(
                interval
                for interval in unexplained_offsets
                if not offset_times.is_too_old(number, interval)
            )
            overtaken_offsets = intersection(
                unexplained_offsets,
                union(*(later_passing.claimed.get(number, ()) for later_passing in later_passings)),
            )
            for offsets in minus(unexplained_offsets, overtaken_offsets):
                result.certain.append(_of_offsets(passing, number, offsets, offset_times))
            for offsets in overtaken_offsets:
                fault = _of_offsets(passing, number, offsets, offset_times)
                fault.doubt(FaultKind.UNPROVEN, "a later tier has read them there")
                result.certain.append(fault)
        if not in_files:
            for number, missing_offsets in passing.lacking.items():
                damage_by_partition[number] = union(
                    damage_by_partition.get(number, ()), missing_offsets
                )
    return results


def _name_stretch(
    passing: Passing,
    source: Source,
    stretch: BatchPart,
    offset_times: OffsetTimes,
    *,
    explained: Mapping[int, Intervals],
    named_offsets: dict[int, list[Interval]],
    named: NamedMissing,
) -> None:
    partition = stretch.partition
    missing_offsets = passing.lacking.get(partition, ())
    seqs = ((stretch.seq, stretch.seq + stretch.events),)
    in_files = passing.pair.later.kind is TierKind.HDFS
    landed_seqs = (
        source.landed.get(passing.pair.later, ()) if in_files else union(*source.landed.values())
    )
    shift = stretch.first - stretch.seq
    offsets = tuple((first + shift, end + shift) for first, end in minus(seqs, landed_seqs))
    if partition in explained:
        offsets = minus(offsets, explained[partition])
    if in_files:
        offsets = intersection(offsets, ((0, passing.up_to(partition)),))
        passed_offsets = minus(offsets, missing_offsets)
        named.doubtful.extend(
            _fault(passing, source, stretch, offset_times, interval) for interval in passed_offsets
        )
    if not missing_offsets:
        return
    whole_stretch = ((stretch.first, stretch.first + stretch.events),)
    absent_offsets = minus(
        intersection(whole_stretch, missing_offsets), explained.get(partition, ())
    )
    landed_offsets = tuple((first + shift, end + shift) for first, end in landed_seqs)
    later_offsets = ((_end_of(source, landed_seqs) + shift, _FOR_EVER),)
    for intervals, harmless_reason in (
        (intersection(absent_offsets, landed_offsets), words.shipped_again()),
        (intersection(minus(absent_offsets, landed_offsets), later_offsets), words.read_again()),
        (minus(minus(absent_offsets, landed_offsets), later_offsets), ""),
    ):
        for interval in intervals:
            named_offsets.setdefault(partition, []).append(interval)
            fault = _fault(passing, source, stretch, offset_times, interval)
            fault.harmless = harmless_reason
            named.certain.append(fault)


def _end_of(source: Source, landed: Intervals) -> int:
    """Returns the first seq after a file's end, if its agent reported the number of events and all
    of them have landed."""
    events = source.events_at_last
    return events if events > 0 and covers(landed, ((0, events),)) else _FOR_EVER


def _fault(
    passing: Passing,
    source: Source,
    stretch: BatchPart,
    offset_times: OffsetTimes,
    offsets: Interval,
) -> Fault:
    count = offsets[1] - offsets[0]
    return Fault(
        of_file(
            *(FaultKind.MISSING, passing.pair.later, source),
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
        since=passing.lacking_since(stretch.partition, offsets, offset_times),
    )


def _of_offsets(
    passing: Passing, number: int, offsets: Interval, offset_times: OffsetTimes
) -> Fault:
    from_time, to_time = offset_times.times_of(passing.pair.earlier, number, offsets)
    tier = passing.pair.later
    return Fault(
        Finding(
            kind=FaultKind.MISSING,
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
        since=passing.lacking_since(number, offsets, offset_times),
    )
