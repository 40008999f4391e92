"""Which events are missing on the way between two tiers, by name: host, file, seqs, bytes.

Two things tell. Offsets that a tier lacks are missing with all that agents put there. And seqs that
have not landed are missing in files, if the loader has been past their offsets; whether they became
something else there (a dead letter has no seq that the loader could know) is for sums to decide.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from audit.picture import Damage, Interval, Intervals, Source, Stretch, TierKind
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import intersection, merged, minus, union
from audit.reconciling.passing import Passing, Told
from audit.verdicts import Finding, Kind


class Named(NamedTuple):
    """`certain` are missing whatever the sums say; `doubtful` may have become dead letters."""

    certain: list[Fault]
    doubtful: list[Fault]


def missing(
    passages: Sequence[Passing],
    sources: Sequence[Source],
    damaged: Sequence[Damage],
    told: Told,
) -> list[Named]:
    """Of each pair of tiers. An event is named once: where it is missing first. What is damaged is
    not named here at all."""
    spoilt: dict[int, list[Interval]] = {}
    for each in damaged:
        spoilt.setdefault(each.partition, []).append((each.first, each.first + each.count))
    gone = {partition: merged(batches) for partition, batches in spoilt.items()}
    found = [Named([], []) for _ in passages]
    for passing, named in zip(passages, found, strict=True):
        of_files = passing.pair.later.kind is TierKind.HDFS
        beyond = [] if of_files else [each for each in passages if each is not passing]
        known: dict[int, list[Interval]] = {}
        for source in sources:
            for stretch in source.stretches:
                _of_stretch(passing, source, stretch, told, gone=gone, known=known, named=named)
        for number, lacking in passing.lacking.items():
            rest = minus(lacking, union(merged(known.get(number, ())), gone.get(number, ())))
            rest = tuple(each for each in rest if not told.is_too_old(number, each))
            passed = intersection(rest, union(*(each.claimed.get(number, ()) for each in beyond)))
            for offsets in minus(rest, passed):
                named.certain.append(_of_offsets(passing, number, offsets, told))
            for offsets in passed:
                fault = _of_offsets(passing, number, offsets, told)
                fault.doubt(Kind.UNPROVEN, "a later one has read them there")
                named.certain.append(fault)
        if not of_files:
            for number, lacking in passing.lacking.items():
                gone[number] = union(gone.get(number, ()), lacking)
    return found


def _of_stretch(
    passing: Passing,
    source: Source,
    stretch: Stretch,
    told: Told,
    *,
    gone: Mapping[int, Intervals],
    known: dict[int, list[Interval]],
    named: Named,
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
    if lacking:
        for each in intersection(offsets, lacking):
            known.setdefault(number, []).append(each)
            named.certain.append(_fault(passing, source, stretch, told, each))


def _fault(
    passing: Passing, source: Source, stretch: Stretch, told: Told, offsets: Interval
) -> Fault:
    count = offsets[1] - offsets[0]
    tier = passing.pair.later
    return Fault(
        Finding(
            kind=Kind.MISSING,
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
        reason=passing.why_gone(stretch.partition),
        since=passing.lacking_since(stretch.partition, offsets, told),
    )


def _of_offsets(passing: Passing, number: int, offsets: Interval, told: Told) -> Fault:
    from_time, to_time = told.times_of(passing.pair.earlier, number, offsets)
    tier = passing.pair.later
    return Fault(
        Finding(
            kind=Kind.MISSING,
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
        reason=passing.why_gone(number),
        since=passing.lacking_since(number, offsets, told),
    )
