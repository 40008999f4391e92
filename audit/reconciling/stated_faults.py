"""Faults that somebody states as such, and statements that are themselves missing.

Batches that can be read and are not what was written are united before they are looked at: who
reads a dying disk says so of each batch, each time, and several readers do. However many there are,
so many findings at most come of them; of what is left there is one.

Rows of files, or of the ends of files, of which no agent has spoken, are untold. An agent says what
it has shipped some seconds after it has. If it is killed before that and its data directory is
deleted, nobody ever says it, and the next agent of that host ships the same lines again, as other
files. So where a host has had several agents, such rows may be there twice; nobody can know. Once
each agent that is left has said everything from before these rows were first heard of, it is none
of theirs. Elsewhere they are somebody's who numbers events without being an agent.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.findings import FaultKind, Finding
from audit.picture import (
    AlteredBatch,
    BatchPart,
    Hole,
    LandedFile,
    OffsetSpan,
    Source,
    Tier,
    TierKind,
    TopicPicture,
    Twice,
    UncountedLoss,
)
from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.missing import Told
from audit.reconciling.windows import Axis
from ground.intervals import (
    Interval,
    Intervals,
    gaps,
    has,
    intersection,
    merged,
    minus,
    size,
    union,
    upto,
)

MOST_DAMAGES: Final = 1_000  # findings of a topic
_HOUR: Final = 3_600_000


def lost(picture: TopicPicture) -> Iterator[Fault]:
    """Bytes that were gone before they were read."""
    for source in picture.sources:
        for each in source.lost:
            finding = Finding(
                kind=FaultKind.LOST,
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
    """Times in which nobody watched, and something happened. What would have had to happen within a
    moment is said, and waits for nobody."""
    for each in picture.unwatched:
        finding = Finding(
            kind=FaultKind.UNKNOWN,
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
        millis = each.to_time - each.from_time
        harmless = words.emptied_at_most(millis) if each.traces == "brief" else ""
        yield Fault(finding, reason=each.reason, harmless=harmless, traces=each.traces)


def withdrawn(picture: TopicPicture) -> Iterator[Fault]:
    """What logs have lost before anybody had spoken of it. Where nobody knows how much that is, the
    first offset stands for all."""
    for each in picture.withdrawn:
        if is_fresh(each, picture):
            continue
        finding = Finding(
            kind=FaultKind.MISSING if each.offsets > 0 else FaultKind.UNKNOWN,
            words="",
            tier=picture.log.value,
            partition=each.partition,
            offset=each.first,
            offsets=max(each.offsets, 1),
            from_time=each.from_time,
            to_time=each.to_time,
        )
        count = max(each.offsets, 0)
        yield Fault(finding, count=count, reason=words.uncounted(each), since=each.to_time - 1)


def collided(picture: TopicPicture) -> Iterator[Fault]:
    """Events that an agent claims and a loader made dead letters, as others have their names."""
    claimed = {
        each.number: each.claimed.get(Tier(TierKind.AGENT), ()) for each in picture.partitions
    }
    for each in picture.collided:
        offsets = ((each.first, each.first + each.events),)
        for first, after in intersection(offsets, claimed.get(each.number, ())):
            beyond = first - each.first
            finding = Finding(
                kind=FaultKind.MISSING,
                words="",
                tier=each.tier.kind.value,
                destination=each.tier.destination,
                host=each.host,
                agent=each.agent,
                path=each.path,
                source=each.source,
                seq=each.seq + beyond,
                events=after - first,
                partition=each.partition,
                offset=first,
                offsets=after - first,
                from_time=each.from_time,
                to_time=each.to_time,
            )
            kept = each.kept + beyond if each.kept >= 0 else -1
            reason = words.collision(picture.key.topic, each.kept_partition, kept, after - first)
            yield Fault(finding, count=after - first, reason=reason)


def is_fresh(loss: UncountedLoss, picture: TopicPicture) -> bool:
    """Whether somebody may still speak of what was lost."""
    return loss.to_time + picture.grace_millis > picture.now


def copied(picture: TopicPicture, axis: Axis) -> Iterator[Fault]:
    """Files that had been shipped before, as another source."""
    for source in picture.sources:
        for original in dict.fromkeys(each.original for each in source.copied):
            runs = [each for each in source.copied if each.original == original]
            for first, end in merged((each.position, each.end_position) for each in runs):
                mine = [each for each in runs if first <= each.position < end]
                finding = Finding(
                    kind=FaultKind.DUPLICATED,
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
        kind=FaultKind.DUPLICATED,
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


def _kind_of_file(fault: str, committed: int, found: int) -> FaultKind:
    if fault == "missing" or (fault == "changed" and found < committed):
        return FaultKind.MISSING
    if fault == "extra" or (fault == "changed" and found > committed >= 0):
        return FaultKind.DUPLICATED
    return FaultKind.CHANGED


def holes(picture: TopicPicture) -> Iterator[Fault]:
    """Entries of journals that are missing for longer than they can be under way."""
    for hole in picture.holes:
        if is_young(hole, picture):
            continue
        finding = Finding(
            kind=FaultKind.UNPROVEN,
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


def disputed(picture: TopicPicture) -> Iterator[Fault]:
    """Numbers of journals with two entries. What the first said may have been believed, so nothing
    is proven from then on."""
    for each in picture.disputed:
        if each.since >= picture.to_time:
            continue
        finding = Finding(
            kind=FaultKind.UNPROVEN,
            words="",
            tier=each.tier.value,
            host=each.host,
            agent=each.journal if each.tier is TierKind.AGENT else "",
            source=each.journal,
            seq=each.seq,
            from_time=each.since,
            to_time=picture.to_time,
        )
        yield Fault(finding, named=each.count, reason=words.disputed(each))


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
                kind=FaultKind.UNPROVEN,
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


class _Untold(NamedTuple):
    source: Source
    tier: Tier
    seqs: Interval
    landing: LandedFile


def untold(picture: TopicPicture) -> Iterator[Fault]:
    """Those of which nobody will speak any more."""
    of_agents = {each.agent: each.until for each in picture.agents}
    for each in _untold(picture):
        source, (first, after), landing = each.source, each.seqs, each.landing
        if not _is_settled(picture, landing):
            continue
        done = min(of_agents.get(source.agent, 0), landing.to_time - 1)
        finding = Finding(
            kind=FaultKind.UNKNOWN,
            words="",
            tier=each.tier.kind.value,
            destination=each.tier.destination,
            host=source.host or (min(picture.renewed) if len(picture.renewed) == 1 else ""),
            agent=source.agent,
            path=source.path,
            source=source.source,
            seq=first,
            events=after - first,
            from_time=max(landing.from_time, done),
            to_time=landing.to_time,
        )
        yield Fault(finding)


def young(picture: TopicPicture) -> list[LandedFile]:
    """Those of which somebody may still speak."""
    return [
        each.landing
        for each in _untold(picture)
        if not _is_settled(picture, each.landing)
        and each.landing.from_time < picture.to_time
        and picture.from_time < each.landing.to_time
    ]


def _untold(picture: TopicPicture) -> Iterator[_Untold]:
    living = {each.agent for each in picture.agents if each.agent and each.required_until is None}
    for source in picture.sources:
        is_renewed = source.host in picture.renewed if source.agent else picture.renewed
        if not is_renewed or source.agent in living:
            continue
        told = ((0, upto(source.shipped)),) if source.shipped else ()
        for tier in picture.tiers:
            for each in minus(source.landed.get(tier, ()), told):
                yield _Untold(source, tier, each, source.landings[tier])


def _is_settled(picture: TopicPicture, landing: LandedFile) -> bool:
    due = landing.said + picture.grace_millis
    return not any(
        each.required_until is None and each.until < due for each in picture.agents
    ) and not any(hole.tier is TierKind.AGENT and is_young(hole, picture) for hole in picture.holes)


class _Here(NamedTuple):
    """Stretches of one partition by their first offset, and how far any so far reaches."""

    stretches: Sequence[tuple[Source, BatchPart]]
    first: Sequence[int]
    upto: Sequence[int]

    def at(self, offsets: Interval) -> Iterator[tuple[Source, BatchPart]]:
        """Those that have something in common with these offsets; the last first."""
        for number in range(bisect_left(self.first, offsets[1]) - 1, -1, -1):
            if self.upto[number] <= offsets[0]:
                return
            source, stretch = self.stretches[number]
            if stretch.first + stretch.events > offsets[0]:
                yield source, stretch


def united(damaged: Iterable[AlteredBatch]) -> list[AlteredBatch]:
    """The same offsets, each once, by partition and offset; for several reasons, the first."""
    found: list[AlteredBatch] = []
    for each in sorted(damaged):
        last = found[-1] if found else None
        if last is None or not _goes_on(last, each):
            found.append(each)
        elif _end_of(each) > _end_of(last):
            found[-1] = _both(last, each)
    return found


def damaged(picture: TopicPicture, told: Told) -> Iterator[Fault]:
    """With the names of what is in them, as far as it is known."""
    some = [one for at in TierKind for one in united(e for e in picture.damaged if e.at is at)]
    here = _by_partition(picture.sources, {each.partition for each in some})
    spans = defaultdict(list)
    for span in picture.open:
        spans[span.partition].append(span)
    count = 0
    for number, each in enumerate(some):
        for fault in _faults_of(each, here.get(each.partition), spans[each.partition]):
            fault.since = told.said(each.partition, _offsets(fault))
            count += 1
            if count > MOST_DAMAGES:
                yield _more_damage(some[number:])
                return
            yield fault


def _faults_of(
    damage: AlteredBatch, here: _Here | None, spans: Sequence[OffsetSpan]
) -> Iterator[Fault]:
    offsets = (damage.first, _end_of(damage))
    known: list[Interval] = []
    times = [
        (one.from_time, one.to_time)
        for one in spans
        if one.first < offsets[1] and offsets[0] < one.next_offset
    ] or [(damage.from_time, damage.to_time)]
    whole = Finding(
        kind=FaultKind.CHANGED,
        words="",
        tier=damage.at.value,
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
    found: dict[int, list[tuple[Source, BatchPart]]] = defaultdict(list)
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


def _more_damage(rest: Sequence[AlteredBatch]) -> Fault:
    """Of what is left, in one."""
    known = [each for each in rest if each.from_time >= 0]
    finding = Finding(
        kind=FaultKind.CHANGED,
        words="",
        tier=TierKind.BROKER.value,
        events=sum(each.count for each in rest),
        from_time=min((each.from_time for each in known), default=-1),
        to_time=max((each.to_time for each in known), default=-1),
    )
    return Fault(finding, reason=words.more_damage(len(rest), finding.events))


def _goes_on(one: AlteredBatch, other: AlteredBatch) -> bool:
    if one.partition != other.partition or _end_of(one) < other.first:
        return False
    return one.reason == other.reason or other.first < _end_of(one)


def _both(one: AlteredBatch, other: AlteredBatch) -> AlteredBatch:
    known = [each for each in (one, other) if each.from_time >= 0]
    return AlteredBatch(
        one.partition,
        one.first,
        _end_of(other) - one.first,
        one.reason,
        min((each.from_time for each in known), default=-1),
        max((each.to_time for each in known), default=-1),
        one.at,
    )


def _end_of(damage: AlteredBatch) -> int:
    return damage.first + damage.count
