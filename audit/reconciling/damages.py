"""Batches that can be read and are not what was written.

They are united before they are looked at: who reads a dying disk says so of each batch, each time,
and several readers do. However many there are, so many findings at most come of them; of what is
left there is one.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.picture import Damage, Interval, Source, Span, Stretch, TierKind, TopicPicture
from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import merged, minus
from audit.reconciling.passing import Told
from audit.verdicts import Finding, Kind

MOST: Final = 1_000  # findings of a topic


class _Here(NamedTuple):
    """Stretches of one partition by their first offset, and how far any so far reaches."""

    stretches: Sequence[tuple[Source, Stretch]]
    first: Sequence[int]
    upto: Sequence[int]

    def at(self, offsets: Interval) -> Iterator[tuple[Source, Stretch]]:
        """Those that have something in common with these offsets; the last first."""
        for number in range(bisect_left(self.first, offsets[1]) - 1, -1, -1):
            if self.upto[number] <= offsets[0]:
                return
            source, stretch = self.stretches[number]
            if stretch.first + stretch.events > offsets[0]:
                yield source, stretch


def united(damaged: Iterable[Damage]) -> list[Damage]:
    """The same offsets, each once, by partition and offset; for several reasons, the first."""
    found: list[Damage] = []
    for each in sorted(damaged):
        last = found[-1] if found else None
        if last is None or not _goes_on(last, each):
            found.append(each)
        elif _end(each) > _end(last):
            found[-1] = _with(last, each)
    return found


def damaged(picture: TopicPicture, told: Told) -> Iterator[Fault]:
    """With the names of what is in them, as far as it is known."""
    some = united(picture.damaged)
    here = _by_partition(picture.sources, {each.partition for each in some})
    spans = defaultdict(list)
    for span in picture.open:
        spans[span.partition].append(span)
    count = 0
    for number, each in enumerate(some):
        for fault in _faults(each, here.get(each.partition), spans[each.partition]):
            fault.since = told.said(each.partition, _offsets(fault))
            count += 1
            if count > MOST:
                yield _more(some[number:])
                return
            yield fault


def _faults(damage: Damage, here: _Here | None, spans: Sequence[Span]) -> Iterator[Fault]:
    offsets = (damage.first, _end(damage))
    known: list[Interval] = []
    times = [
        (one.from_time, one.to_time)
        for one in spans
        if one.first < offsets[1] and offsets[0] < one.next_offset
    ] or [(damage.from_time, damage.to_time)]
    whole = Finding(
        kind=Kind.CHANGED,
        words="",
        tier=TierKind.BROKER.value,
        partition=damage.partition,
        from_time=min(one for one, _ in times),
        to_time=max(one for _, one in times),
    )
    for source, stretch in here.at(offsets) if here is not None else ():
        first = max(stretch.first, offsets[0])
        count = min(stretch.first + stretch.events, offsets[1]) - first
        known.append((first, first + count))
        finding = replace(
            whole,
            host=source.host,
            agent=source.agent,
            path=source.path,
            source=source.source,
            seq=stretch.seq + first - stretch.first,
            events=count,
            position=stretch.position,
            end_position=stretch.end_position,
            offset=first,
            offsets=count,
            from_time=stretch.from_time,
            to_time=stretch.to_time,
        )
        exact = count == stretch.events and not stretch.partly
        yield Fault(finding, exact=exact, count=count, reason=damage.reason)
    for first, end in minus((offsets,), merged(known)):
        finding = replace(whole, offset=first, offsets=end - first)
        yield Fault(finding, count=end - first, reason=damage.reason)


def _offsets(fault: Fault) -> Interval:
    return fault.finding.offset, fault.finding.offset + fault.finding.offsets


def _by_partition(sources: Iterable[Source], partitions: set[int]) -> Mapping[int, _Here]:
    found: dict[int, list[tuple[Source, Stretch]]] = defaultdict(list)
    for source in sources:
        for stretch in source.stretches:
            if stretch.partition in partitions:
                found[stretch.partition].append((source, stretch))
    here = {}
    for partition, some in found.items():
        some.sort(key=lambda each: each[1].first)
        ends = (each.first + each.events for _, each in some)
        here[partition] = _Here(some, [each.first for _, each in some], [*accumulate(ends, max)])
    return here


def _more(rest: Sequence[Damage]) -> Fault:
    """Of what is left, in one."""
    known = [each for each in rest if each.from_time >= 0]
    finding = Finding(
        kind=Kind.CHANGED,
        words="",
        tier=TierKind.BROKER.value,
        events=sum(each.count for each in rest),
        from_time=min((each.from_time for each in known), default=-1),
        to_time=max((each.to_time for each in known), default=-1),
    )
    return Fault(finding, reason=words.more_damage(len(rest), finding.events))


def _goes_on(one: Damage, other: Damage) -> bool:
    if one.partition != other.partition or _end(one) < other.first:
        return False
    return one.reason == other.reason or other.first < _end(one)


def _with(one: Damage, other: Damage) -> Damage:
    known = [each for each in (one, other) if each.from_time >= 0]
    return Damage(
        one.partition,
        one.first,
        _end(other) - one.first,
        one.reason,
        min((each.from_time for each in known), default=-1),
        max((each.to_time for each in known), default=-1),
    )


def _end(damage: Damage) -> int:
    return damage.first + damage.count
