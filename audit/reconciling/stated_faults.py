"""Finds faults that programs report, and gaps in the reports themselves.

Reports of damaged batches are united first, since several readers of a dying disk report each batch
each time they read it. The number of findings is capped; one more finding stands for the rest.

Rows of files, or of the ends of files, that no agent has reported are untold. An agent reports what
it has shipped some seconds later. If it is killed before that and its data directory is deleted,
the report never comes, and the host's next agent ships the same lines again, as other files. So
where a host has had several agents, such rows may be duplicates, and cannot be told from others.
They are judged once every living agent has reported everything from before they were first heard
of. On other hosts they belong to programs that number events without being agents.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.findings import FaultKind, Finding, of_file
from audit.reconciling.missing import OffsetTimes
from audit.reconciling.picture import (
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
_AGENT: Final = Tier(TierKind.AGENT)


def lost(picture: TopicPicture) -> Iterator[Fault]:
    """Yields bytes that were lost before they were read."""
    for source in picture.sources:
        for loss in source.lost:
            finding = of_file(
                *(FaultKind.LOST, _AGENT, source),
                seq=loss.seq,
                events=loss.lines,
                position=loss.position,
                end_position=loss.end_position,
                from_time=loss.time,
                to_time=loss.time + 1,
            )
            yield Fault(finding, reason=loss.reason)


def unknown(picture: TopicPicture) -> Iterator[Fault]:
    """Yields unwatched periods in which something happened. Periods that are too short to matter
    are harmless."""
    for gap in picture.unwatched:
        finding = of_file(
            *(FaultKind.UNKNOWN, _AGENT, gap),
            position=gap.position,
            from_time=gap.from_time,
            to_time=gap.to_time,
        )
        millis = gap.to_time - gap.from_time
        harmless_reason = words.emptied_at_most(millis) if gap.traces == "brief" else ""
        yield Fault(finding, reason=gap.reason, harmless=harmless_reason, traces=gap.traces)


def withdrawn(picture: TopicPicture) -> Iterator[Fault]:
    """Yields losses of logs before any tier had claimed the offsets. If the amount is unknown, the
    first offset stands for all."""
    for loss in picture.withdrawn:
        if is_fresh(loss, picture):
            continue
        finding = Finding(
            kind=FaultKind.MISSING if loss.offsets > 0 else FaultKind.UNKNOWN,
            tier=picture.log.value,
            partition=loss.partition,
            offset=loss.first,
            offsets=max(loss.offsets, 1),
            from_time=loss.from_time,
            to_time=loss.to_time,
        )
        count = max(loss.offsets, 0)
        yield Fault(finding, count=count, reason=words.uncounted(loss), since=loss.to_time - 1)


def collided(picture: TopicPicture) -> Iterator[Fault]:
    """Yields events claimed by an agent that a loader made dead letters, because other events have
    the same source and sequence numbers."""
    claimed_offsets = {
        partition.number: partition.claimed.get(_AGENT, ()) for partition in picture.partitions
    }
    for collision in picture.collided:
        offsets = ((collision.first, collision.first + collision.events),)
        for first, end in intersection(offsets, claimed_offsets.get(collision.number, ())):
            skipped_events = first - collision.first
            finding = of_file(
                *(FaultKind.MISSING, collision.tier, collision),
                seq=collision.seq + skipped_events,
                events=end - first,
                partition=collision.partition,
                offset=first,
                offsets=end - first,
                from_time=collision.from_time,
                to_time=collision.to_time,
            )
            kept_offset = collision.kept + skipped_events if collision.kept >= 0 else -1
            reason = words.collision(
                picture.key.topic, collision.kept_partition, kept_offset, end - first
            )
            yield Fault(finding, count=end - first, reason=reason, since=collision.said)


def is_fresh(loss: UncountedLoss, picture: TopicPicture) -> bool:
    """Whether a tier may still claim the lost offsets."""
    return loss.to_time + picture.grace_millis > picture.now


def copied(picture: TopicPicture, axis: Axis) -> Iterator[Fault]:
    """Yields files that had been shipped earlier, as another source."""
    for source in picture.sources:
        for original in dict.fromkeys(run.original for run in source.copied):
            runs = [run for run in source.copied if run.original == original]
            for first, end in merged((run.position, run.end_position) for run in runs):
                overlapping_runs = [run for run in runs if first <= run.position < end]
                finding = of_file(
                    *(FaultKind.DUPLICATED, _AGENT, source),
                    seq=min(run.seq for run in overlapping_runs),
                    events=min(
                        size(merged((run.seq, run.end_seq) for run in overlapping_runs)),
                        overlapping_runs[0].original_events,
                    ),
                    position=first,
                    end_position=end,
                    from_time=min(run.from_time for run in overlapping_runs),
                    to_time=max(run.to_time for run in overlapping_runs),
                )
                reason = words.copy_of(overlapping_runs[0], source.agent)
                since = max(run.since for run in overlapping_runs)
                fault = Fault(finding, reason=reason, since=since)
                windows_by_run = (
                    axis.touched(run.from_time, run.to_time) for run in overlapping_runs
                )
                fault.windows = sorted({number for numbers in windows_by_run for number in numbers})
                yield fault


def landed_twice(picture: TopicPicture, tier: Tier) -> Iterator[Fault]:
    """Yields events that have more than one row in files."""
    for source in picture.sources:
        for seqs in source.landed_twice.get(tier, ()):
            yield _more_than_once(source, seqs, tier)


def twice(picture: TopicPicture) -> Iterator[Fault]:
    """Yields events that their agent reports to have shipped more than once. Events with more than
    one row are left to `landed_twice`."""
    for source in picture.sources:
        rows = merged(
            (repetition.seq, repetition.end_seq)
            for repetitions in source.landed_twice.values()
            for repetition in repetitions
        )
        for seqs in source.twice:
            if intersection(((seqs.seq, seqs.end_seq),), rows):
                continue
            yield _more_than_once(source, seqs, _AGENT)


def _more_than_once(source: Source, seqs: Twice, tier: Tier) -> Fault:
    finding = of_file(
        *(FaultKind.DUPLICATED, tier, source),
        seq=seqs.seq,
        events=seqs.end_seq - seqs.seq,
        from_time=seqs.from_time,
        to_time=seqs.to_time,
    )
    return Fault(finding, count=finding.events)


def of_files(picture: TopicPicture) -> Iterator[Fault]:
    """Yields landed files that differ from their commit."""
    for fault in picture.file_faults:
        finding = Finding(
            kind=_kind_of_file(fault.fault, fault.committed_rows, fault.found_rows),
            tier=fault.tier.kind.value,
            destination=fault.tier.destination,
            path=fault.path,
            events=abs(fault.committed_rows - fault.found_rows)
            if min(fault.committed_rows, fault.found_rows) >= 0
            else -1,
            from_time=fault.hour,
            to_time=fault.hour + _HOUR,
        )
        reason = words.file_fault(fault.fault, fault.committed_rows, fault.found_rows)
        yield Fault(finding, reason=reason)


def _kind_of_file(fault: str, committed: int, rows: int) -> FaultKind:
    if fault == "missing" or (fault == "changed" and rows < committed):
        return FaultKind.MISSING
    if fault == "extra" or (fault == "changed" and rows > committed >= 0):
        return FaultKind.DUPLICATED
    return FaultKind.CHANGED


def holes(picture: TopicPicture) -> Iterator[Fault]:
    """Yields journal entries that have been missing for longer than an entry can be in transit."""
    for hole in picture.holes:
        if is_young(hole, picture):
            continue
        finding = Finding(
            kind=FaultKind.UNPROVEN,
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
    """Yields numbers of journals with two contradictory entries, and entries that were altered. The
    audit may have used the first of the two, so nothing is proven from then on; and nothing for the
    times about which altered entries may be."""
    for dispute in picture.disputed:
        to_time = dispute.until + 1 if dispute.is_altered else picture.to_time
        if dispute.since >= picture.to_time or to_time <= picture.from_time:
            continue
        finding = Finding(
            kind=FaultKind.UNPROVEN,
            tier=dispute.tier.value,
            host=dispute.host,
            agent=dispute.journal if dispute.tier is TierKind.AGENT else "",
            source=dispute.journal,
            seq=dispute.seq,
            from_time=dispute.since,
            to_time=to_time,
        )
        reason = words.disputed(dispute)
        yield Fault(finding, named=dispute.count, reason=reason, since=dispute.since)


def is_young(hole: Hole, picture: TopicPicture) -> bool:
    """Whether the missing entries may still arrive."""
    return hole.to_time + picture.grace_millis > picture.now


def unproven(picture: TopicPicture) -> Iterator[Fault]:
    """Yields events that their agent did not report: they landed between events that it reported,
    or belong to a file that it reported as finished. Events before the first known report may have
    been reported before the ledger begins."""
    holes_by_agent: dict[str, list[Hole]] = {}
    for hole in picture.holes:
        holes_by_agent.setdefault(hole.journal, []).append(hole)
    for source in picture.sources:
        unspoken_seqs = _unspoken(source)
        nearby_holes = holes_by_agent.get(source.agent, []) if unspoken_seqs else []
        if any(is_young(hole, picture) for hole in nearby_holes):
            continue
        for first, end in unspoken_seqs:
            finding = of_file(
                *(FaultKind.UNPROVEN, _AGENT, source),
                seq=first,
                events=end - first,
                from_time=min((hole.from_time for hole in nearby_holes), default=-1),
                to_time=max((hole.to_time for hole in nearby_holes), default=-1),
            )
            yield Fault(finding, reason=_why(source, first))


def _unspoken(source: Source) -> Intervals:
    if not source.shipped:
        return ()
    inner_gaps = gaps(source.shipped)
    end = upto(source.shipped)
    if source.finished_events < 0:
        return intersection(inner_gaps, union(*source.landed.values()))
    end_gap = ((end, source.finished_events),) if end < source.finished_events else ()
    return union(inner_gaps, end_gap)


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
    """Yields landed rows that no agent will report any more."""
    done_until = {agent.agent: agent.until for agent in picture.agents}
    for untold_rows in _untold(picture):
        source, (first, end), landing = untold_rows.source, untold_rows.seqs, untold_rows.landing
        if not _is_settled(picture, landing):
            continue
        acknowledged_until = min(done_until.get(source.agent, 0), landing.to_time - 1)
        finding = of_file(
            *(FaultKind.UNKNOWN, untold_rows.tier, source),
            seq=first,
            events=end - first,
            from_time=max(landing.from_time, acknowledged_until),
            to_time=landing.to_time,
        )
        if not source.host and len(picture.renewed) == 1:
            finding = replace(finding, host=min(picture.renewed))
        yield Fault(finding, since=max(landing.said, landing.to_time))


def young(picture: TopicPicture) -> list[LandedFile]:
    """Returns landed files with rows that an agent may still report."""
    return [
        untold_rows.landing
        for untold_rows in _untold(picture)
        if not _is_settled(picture, untold_rows.landing)
        and untold_rows.landing.from_time < picture.to_time
        and picture.from_time < untold_rows.landing.to_time
    ]


def _untold(picture: TopicPicture) -> Iterator[_Untold]:
    living_agents = {
        agent.agent for agent in picture.agents if agent.agent and agent.required_until is None
    }
    for source in picture.sources:
        is_renewed = source.host in picture.renewed if source.agent else picture.renewed
        if not is_renewed or source.agent in living_agents:
            continue
        shipped_seqs = ((0, upto(source.shipped)),) if source.shipped else ()
        for tier in picture.tiers:
            for seqs in minus(source.landed.get(tier, ()), shipped_seqs):
                yield _Untold(source, tier, seqs, source.landings[tier])


def _is_settled(picture: TopicPicture, landing: LandedFile) -> bool:
    due_time = landing.said + picture.grace_millis
    return not any(
        agent.required_until is None and agent.until < due_time for agent in picture.agents
    ) and not any(hole.tier is TierKind.AGENT and is_young(hole, picture) for hole in picture.holes)


class _Stretches(NamedTuple):
    """Stretches of one partition by first offset, each with the highest end of all stretches up to
    it."""

    stretches: Sequence[tuple[Source, BatchPart]]
    first: Sequence[int]
    upto: Sequence[int]

    def at(self, offsets: Interval) -> Iterator[tuple[Source, BatchPart]]:
        """Yields the stretches that overlap these offsets, the last first."""
        for number in range(bisect_left(self.first, offsets[1]) - 1, -1, -1):
            if self.upto[number] <= offsets[0]:
                return
            source, stretch = self.stretches[number]
            if stretch.first + stretch.events > offsets[0]:
                yield source, stretch


def united(damaged: Iterable[AlteredBatch]) -> list[AlteredBatch]:
    """Merges overlapping batches, by partition and offset; of several reasons, the first is
    kept."""
    batches: list[AlteredBatch] = []
    for batch in sorted(damaged):
        last_batch = batches[-1] if batches else None
        if last_batch is None or not _goes_on(last_batch, batch):
            batches.append(batch)
        elif _end_of(batch) > _end_of(last_batch):
            batches[-1] = _both(last_batch, batch)
    return batches


def damaged(picture: TopicPicture, offset_times: OffsetTimes) -> Iterator[Fault]:
    """Yields damaged batches, and names their events where these are known."""
    batches = [
        batch
        for kind in TierKind
        for batch in united(part for part in picture.damaged if part.at is kind)
    ]
    stretches_by_partition = _by_partition(picture.sources, {batch.partition for batch in batches})
    spans = defaultdict(list)
    for span in picture.open:
        spans[span.partition].append(span)
    count = 0
    for number, batch in enumerate(batches):
        for fault in _faults_of(
            batch, stretches_by_partition.get(batch.partition), spans[batch.partition]
        ):
            claimed = offset_times.claimed_at(batch.partition, _offsets(fault))
            fault.since = max(claimed, batch.found)
            count += 1
            if count > MOST_DAMAGES:
                yield _more_damage(batches[number:])
                return
            yield fault


def _faults_of(
    damage: AlteredBatch, stretches: _Stretches | None, spans: Sequence[OffsetSpan]
) -> Iterator[Fault]:
    offsets = (damage.first, _end_of(damage))
    named_offsets: list[Interval] = []
    times = [
        (span.from_time, span.to_time)
        for span in spans
        if span.first < offsets[1] and offsets[0] < span.next_offset
    ] or [(damage.from_time, damage.to_time)]
    batch_finding = Finding(
        kind=FaultKind.CHANGED,
        tier=damage.at.value,
        partition=damage.partition,
        from_time=min(from_time for from_time, _ in times),
        to_time=max(to_time for _, to_time in times),
    )
    for source, stretch in stretches.at(offsets) if stretches is not None else ():
        first = max(stretch.first, offsets[0])
        count = min(stretch.first + stretch.events, offsets[1]) - first
        named_offsets.append((first, first + count))
        finding = replace(
            batch_finding,
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
        is_exact = count == stretch.events and not stretch.partly
        yield Fault(finding, exact=is_exact, count=count, reason=damage.reason)
    for first, end in minus((offsets,), merged(named_offsets)):
        finding = replace(batch_finding, offset=first, offsets=end - first)
        yield Fault(finding, count=end - first, reason=damage.reason)


def _offsets(fault: Fault) -> Interval:
    return fault.finding.offset, fault.finding.offset + fault.finding.offsets


def _by_partition(sources: Iterable[Source], partitions: set[int]) -> Mapping[int, _Stretches]:
    by_partition: dict[int, list[tuple[Source, BatchPart]]] = defaultdict(list)
    for source in sources:
        for stretch in source.stretches:
            if stretch.partition in partitions:
                by_partition[stretch.partition].append((source, stretch))
    stretches_by_partition = {}
    for partition, stretches in by_partition.items():
        stretches.sort(key=lambda row: row[1].first)
        ends = (stretch.first + stretch.events for _, stretch in stretches)
        stretches_by_partition[partition] = _Stretches(
            stretches, [stretch.first for _, stretch in stretches], [*accumulate(ends, max)]
        )
    return stretches_by_partition


def _more_damage(batches: Sequence[AlteredBatch]) -> Fault:
    """Returns one fault that stands for these batches."""
    dated_batches = [batch for batch in batches if batch.from_time >= 0]
    finding = Finding(
        kind=FaultKind.CHANGED,
        tier=TierKind.BROKER.value,
        events=sum(batch.count for batch in batches),
        from_time=min((batch.from_time for batch in dated_batches), default=-1),
        to_time=max((batch.to_time for batch in dated_batches), default=-1),
    )
    return Fault(finding, reason=words.more_damage(len(batches), finding.events))


def _goes_on(batch: AlteredBatch, next_batch: AlteredBatch) -> bool:
    if batch.partition != next_batch.partition or _end_of(batch) < next_batch.first:
        return False
    return batch.reason == next_batch.reason or next_batch.first < _end_of(batch)


def _both(batch: AlteredBatch, next_batch: AlteredBatch) -> AlteredBatch:
    dated_batches = [part for part in (batch, next_batch) if part.from_time >= 0]
    return AlteredBatch(
        batch.partition,
        batch.first,
        _end_of(next_batch) - batch.first,
        batch.reason,
        min((part.from_time for part in dated_batches), default=-1),
        max((part.to_time for part in dated_batches), default=-1),
        batch.at,
        min(batch.found, next_batch.found),
    )


def _end_of(damage: AlteredBatch) -> int:
    return damage.first + damage.count
