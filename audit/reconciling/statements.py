"""Faults that somebody states as such, and statements that are themselves missing."""

from collections.abc import Iterator

from audit.picture import Hole, Intervals, Source, Tier, TierKind, TopicPicture, Twice
from audit.reconciling import words
from audit.reconciling.axis import Axis
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import gaps, has, intersection, merged, size, union, upto
from audit.verdicts import Finding, Kind

_HOUR = 3_600_000


def lost(picture: TopicPicture) -> Iterator[Fault]:
    """Bytes that were gone before they were read."""
    for source in picture.sources:
        for each in source.lost:
            finding = Finding(
                kind=Kind.LOST,
                words="",
                tier=TierKind.AGENT.value,
                host=source.host,
                agent=source.agent,
                path=source.path,
                source=each.source,
                seq=each.seq,
                events=each.lines,
                position=each.position,
                end_position=each.end_position,
                from_time=each.time,
                to_time=each.time + 1,
            )
            yield Fault(finding, reason=each.reason)


def unknown(picture: TopicPicture) -> Iterator[Fault]:
    """Times in which nobody watched, and something happened."""
    for each in picture.unwatched:
        finding = Finding(
            kind=Kind.UNKNOWN,
            words="",
            tier=TierKind.AGENT.value,
            host=each.host,
            agent=each.agent,
            path=each.path,
            source=each.source,
            position=each.position,
            from_time=each.from_time,
            to_time=each.to_time,
        )
        yield Fault(finding, reason=each.reason, traces=each.traces)


def copied(picture: TopicPicture, axis: Axis) -> Iterator[Fault]:
    """Files that had been shipped before, as another source."""
    for source in picture.sources:
        for original in dict.fromkeys(each.original for each in source.copied):
            runs = [each for each in source.copied if each.original == original]
            for first, end in merged((each.position, each.end_position) for each in runs):
                mine = [each for each in runs if first <= each.position < end]
                finding = Finding(
                    kind=Kind.DUPLICATED,
                    words="",
                    tier=TierKind.AGENT.value,
                    host=source.host,
                    agent=source.agent,
                    path=source.path,
                    source=source.source,
                    seq=min(each.seq for each in mine),
                    events=min(
                        size(merged((each.seq, each.end_seq) for each in mine)),
                        mine[0].original_events,
                    ),
                    position=first,
                    end_position=end,
                    from_time=min(each.from_time for each in mine),
                    to_time=max(each.to_time for each in mine),
                )
                fault = Fault(finding, reason=words.copy_of(mine[0], source.agent))
                touched = (axis.touched(each.from_time, each.to_time) for each in mine)
                fault.windows = sorted({number for some in touched for number in some})
                yield fault


def landed_twice(picture: TopicPicture, tier: Tier) -> Iterator[Fault]:
    """Events of which files have more than one row."""
    for source in picture.sources:
        for each in source.landed_twice.get(tier, ()):
            yield _more_than_once(source, each, tier)


def twice(picture: TopicPicture) -> Iterator[Fault]:
    """Events that their agent says it has shipped more than once. Of which there are more rows than
    one is said of these rows."""
    for source in picture.sources:
        rows = merged(
            (each.seq, each.end_seq) for some in source.landed_twice.values() for each in some
        )
        for each in source.twice:
            if intersection(((each.seq, each.end_seq),), rows):
                continue
            yield _more_than_once(source, each, Tier(TierKind.AGENT))


def _more_than_once(source: Source, seqs: Twice, tier: Tier) -> Fault:
    finding = Finding(
        kind=Kind.DUPLICATED,
        words="",
        tier=tier.kind.value,
        destination=tier.destination,
        host=source.host,
        agent=source.agent,
        path=source.path,
        source=source.source,
        seq=seqs.seq,
        events=seqs.end_seq - seqs.seq,
        from_time=seqs.from_time,
        to_time=seqs.to_time,
    )
    return Fault(finding, count=finding.events)


def of_files(picture: TopicPicture) -> Iterator[Fault]:
    """Landed files that are not as they were committed."""
    for each in picture.file_faults:
        finding = Finding(
            kind=_kind_of_file(each.fault, each.committed_rows, each.found_rows),
            words="",
            tier=each.tier.kind.value,
            destination=each.tier.destination,
            path=each.path,
            events=abs(each.committed_rows - each.found_rows)
            if min(each.committed_rows, each.found_rows) >= 0
            else -1,
            from_time=each.hour,
            to_time=each.hour + _HOUR,
        )
        said = words.file_fault(each.fault, each.committed_rows, each.found_rows)
        yield Fault(finding, reason=said)


def _kind_of_file(fault: str, committed: int, found: int) -> Kind:
    if fault == "missing" or (fault == "changed" and found < committed):
        return Kind.MISSING
    if fault == "extra" or (fault == "changed" and found > committed >= 0):
        return Kind.DUPLICATED
    return Kind.CHANGED


def holes(picture: TopicPicture) -> Iterator[Fault]:
    """Entries of journals that are missing for longer than they can be under way."""
    for hole in picture.holes:
        if is_young(hole, picture):
            continue
        finding = Finding(
            kind=Kind.UNPROVEN,
            words="",
            tier=hole.tier.value,
            host=hole.host or picture.names.get(hole.journal, ""),
            agent=hole.journal if hole.tier is TierKind.AGENT else "",
            source=hole.journal,
            seq=hole.seq,
            from_time=hole.from_time,
            to_time=max(hole.to_time, hole.from_time + 1),
        )
        yield Fault(finding, named=hole.count)


def is_young(hole: Hole, picture: TopicPicture) -> bool:
    """Whether what is missing may still come."""
    return hole.to_time + picture.grace_millis > picture.now


def unproven(picture: TopicPicture) -> Iterator[Fault]:
    """Events that their agent must have spoken of, and has not: between others that it spoke of,
    they landed; or they are of a file that it called finished. What lies before the first that is
    known may have been said before the ledger begins."""
    holes_of: dict[str, list[Hole]] = {}
    for hole in picture.holes:
        holes_of.setdefault(hole.journal, []).append(hole)
    for source in picture.sources:
        absent = _unspoken(source)
        around = holes_of.get(source.agent, []) if absent else []
        if any(is_young(hole, picture) for hole in around):
            continue
        for first, after in absent:
            finding = Finding(
                kind=Kind.UNPROVEN,
                words="",
                tier=TierKind.AGENT.value,
                host=source.host,
                agent=source.agent,
                path=source.path,
                source=source.source,
                seq=first,
                events=after - first,
                from_time=min((hole.from_time for hole in around), default=-1),
                to_time=max((hole.to_time for hole in around), default=-1),
            )
            yield Fault(finding, reason=_why(source, first))


def _unspoken(source: Source) -> Intervals:
    if not source.shipped:
        return ()
    between = gaps(source.shipped)
    end = upto(source.shipped)
    if source.finished_events < 0:
        return intersection(between, union(*source.landed.values()))
    after = ((end, source.finished_events),) if end < source.finished_events else ()
    return union(between, after)


def _why(source: Source, seq: int) -> str:
    if has(union(*source.landed.values()), seq):
        return "although they have landed"
    return "although the file is finished"
