"""Derives the verdict about a topic: from offsets (missing.py), then from the sums of windows
(window_sums.py), then from faults that hold regardless of the sums (stated_faults.py).

Rule 1. What a later tier has not reported yet is pending, not faulty: offsets above the highest
that it has claimed, windows that an agent has not passed, entries of journals that may still
arrive, and windows that have just ended.
Rule 2. Everything else that an earlier tier has and a later one lacks is missing. Such an event is
named by its file and offset if a tier reported these, and otherwise counted in its window. It is a
fault of the first tier that lacks it.
Rule 3. What no earlier tier has claimed is unclaimed, not faulty. What was claimed and is there
more than once is duplicated; as many events with another sum of CRCs are changed.
Rule 4. If an entry of a tier's journal never arrived, what is missing at that tier is unproven.
Rule 5. If sums of windows differ, but offsets prove what became of each event, nothing is wrong:
the later tier has the events in other windows.
Rule 6. An unwatched time in which something happened is unknown, whatever else is there, and so are
the windows that it touches, even empty ones.
Rule 7. A copy is judged with its origin. While that is unknown, nothing of the copy is complete.
Rule 8. A window's state is the worst of its open faults and its waits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from audit.reconciling import stated_faults, uncompared, words
from audit.reconciling.faults import Fault, cut, joined, why_accepted
from audit.reconciling.findings import FaultKind, Finding, State, identified, worst
from audit.reconciling.missing import NamedMissing, OffsetTimes, Passing, missing, passed
from audit.reconciling.picture import ExpectedAgent, LandedFile, TierKind, TopicPicture, Window
from audit.reconciling.topic_verdict import (
    TopicVerdict,
    Wait,
    WindowVerdict,
    by_host,
    distinct,
    totals,
)
from audit.reconciling.window_sums import LEDGER, Tallied, Tally, attach
from audit.reconciling.windows import Axis, aligned, pairs, sums_at, with_copied, with_unwatched
from ground.intervals import Interval, Intervals, gaps, intersection, minus, size

MOST_FINDINGS: Final = 2_000
_WINDOW: Final = 60_000  # the length, if there is no window to take it from
_REBUILDABLE: Final = {FaultKind.MISSING, FaultKind.UNNAMED, FaultKind.DUPLICATED}
_KINDS: Final = list(FaultKind)


def reconcile(picture: TopicPicture) -> TopicVerdict:
    """Judges a topic in a period, and each window of the period."""
    axis = Axis(with_unwatched(with_copied(aligned(picture.windows), picture), picture))
    # By offsets: damage, and what each tier lacks of the one before it.
    offset_times = OffsetTimes(picture.open, picture.placed)
    passages = [passed(picture, pair, axis) for pair in pairs(picture.tiers)]
    missing_by_pair = missing(passages, picture.sources, picture.damaged, offset_times)
    damage_faults = cut(stated_faults.damaged(picture, offset_times), picture.accepted)
    # By sums: what is unnamed, too many, or pending.
    tally = Tally(picture, axis)
    steps = [
        tally.of(
            passing, missing_events, damage_faults, _beyond(passing, passages, missing_by_pair)
        )
        for passing, missing_events in zip(passages, missing_by_pair, strict=True)
    ]
    doubled_faults = [fault for step in steps for fault in step.doubled]
    attach([*damage_faults, *doubled_faults], axis)
    # By reports, whatever the sums are.
    faults = [*damage_faults, *(fault for step in steps for fault in step.faults), *doubled_faults]
    faults += _lost(picture, axis)
    faults += _files(picture, axis)
    faults += _stated(picture, axis, steps)
    _mark_rebuilt(picture, faults)
    judged_faults = joined(_accepted(picture, faults))
    # The result.
    young_files = stated_faults.young(picture)
    waits = distinct(_waits(picture, axis, steps, young_files))
    awaited_tiers = _awaited(axis, tally, steps, young_files)
    for number, tiers in uncompared.awaited(picture, axis).items():
        awaited_tiers.setdefault(number, set()).update(tiers)
    if picture.unjoined:
        for number in range(len(axis.windows)):
            awaited_tiers.setdefault(number, set()).add(TierKind.ORIGIN.value)
    windows = _windows(picture, axis, awaited_tiers, steps, judged_faults)
    states = {window.state for window in windows}
    states |= {fault.finding.kind.state for fault in judged_faults if fault.finding.is_open}
    complete_until = _complete_until(picture, windows, waits)
    if waits or not complete_until:
        states.add(State.PENDING)
    return TopicVerdict(
        key=picture.key,
        from_time=picture.from_time,
        to_time=picture.to_time,
        tiers=list(picture.tiers),
        state=worst(states),
        windows=windows,
        findings=_findings(picture, judged_faults),
        waits=waits,
        totals=totals(fault.finding for fault in judged_faults),
        hosts=by_host(fault.finding for fault in judged_faults),
        origin=picture.origin,
        uncounted=frozenset(tier for window in axis.windows for tier in window.uncounted),
        complete_until=complete_until,
    )


def _beyond(
    passing: Passing, passages: Sequence[Passing], named: Sequence[NamedMissing]
) -> list[NamedMissing]:
    """Returns what the tiers after this pair lack."""
    return [
        missing_events
        for other_passing, missing_events in zip(passages, named, strict=True)
        if other_passing.pair.earlier == passing.pair.later
    ]


def _lost(picture: TopicPicture, axis: Axis) -> list[Fault]:
    """Returns lost bytes, each in the window that counts it: that of its report, or of the events
    around it. Losses that are counted but not named are faults, too."""
    windows = axis.windows
    faults = list(stated_faults.lost(picture))
    attach(faults, axis)
    lossy_windows = [
        number for number, window in enumerate(windows) if window.lost_events or window.lost_bytes
    ]
    named_windows = {number for fault in faults for number in fault.windows}
    distant_faults = [
        fault for fault in faults if not set(fault.windows).intersection(lossy_windows)
    ]
    for number in lossy_windows:
        if number not in named_windows and distant_faults:
            for fault in distant_faults:
                fault.windows.append(number)
        elif number not in named_windows:
            faults.append(_lost_in(number, windows[number]))
    return faults


def _lost_in(number: int, window: Window) -> Fault:
    finding = Finding(
        kind=FaultKind.LOST,
        tier=TierKind.AGENT.value,
        events=window.lost_events or -1,
        from_time=window.start,
        to_time=window.start + window.length,
    )
    return Fault(finding, reason=words.count(window.lost_bytes, "byte"), windows=[number])


def _files(picture: TopicPicture, axis: Axis) -> list[Fault]:
    """Returns faulty files, each with the windows in which its tier has events."""
    files = list(stated_faults.of_files(picture))
    attach(files, axis)
    for fault in files:
        fault.windows = [
            number
            for number in fault.windows
            if any(
                sums.events
                for tier, sums in axis.windows[number].sums.items()
                if (tier.kind, tier.destination) == (fault.finding.tier, fault.finding.destination)
            )
        ]
    return files


def _stated(picture: TopicPicture, axis: Axis, steps: Sequence[Tallied]) -> list[Fault]:
    """Returns faults of statements: missing, contradictory, or about something unknown."""
    faults = [
        fault
        for fault in stated_faults.holes(picture)
        if _concerns(fault.finding.tier, picture, steps)
    ]
    faults += stated_faults.disputed(picture)
    faults += stated_faults.unproven(picture)
    faults += _twice(picture, axis, steps)
    faults += stated_faults.unknown(picture)
    faults += stated_faults.withdrawn(picture)
    faults += stated_faults.collided(picture)
    faults += stated_faults.untold(picture)
    faults += uncompared.uncompared(picture)
    faults = cut(faults, picture.accepted)
    faults += stated_faults.copied(picture, axis)
    attach(faults, axis)
    return faults


def _concerns(kind: str, picture: TopicPicture, steps: Sequence[Tallied]) -> bool:
    """Whether a missing entry may have been about this topic. An agent's may always; one of brokers
    or loaders claims offsets, and if it was about this topic, some are unclaimed now."""
    if kind == TierKind.AGENT or not steps:
        return True
    for step in steps:
        passing = step.passing
        if passing.pair.later.kind == kind:
            if passing.lacking or passing.waiting or step.steps:
                return True
        elif passing.pair.earlier.kind == kind and (passing.unspoken or passing.ahead):
            return True
    return any(
        gaps(offsets)
        for partition in picture.partitions
        for tier, offsets in partition.claimed.items()
        if tier.kind == kind
    )


def _twice(picture: TopicPicture, axis: Axis, steps: Sequence[Tallied]) -> list[Fault]:
    """Returns events that were shipped twice. They are harmless if loaders dropped the duplicates,
    or a log had lost one of the two. Until all loaders have passed them, they are left out."""
    faults = list(stated_faults.twice(picture))
    loaders = [tier for tier in picture.tiers if tier.kind is TierKind.HDFS]
    if not faults or not loaders:
        return faults
    awaited_windows = {
        number
        for tally in steps
        for number, waits in tally.waits.items()
        if TierKind.HDFS.value in waits
    }
    windows_by_fault = [
        axis.touched(fault.finding.from_time, fault.finding.to_time) for fault in faults
    ]
    settled_faults = [
        (fault, windows)
        for fault, windows in zip(faults, windows_by_fault, strict=True)
        if awaited_windows.isdisjoint(windows)
    ]
    doubled_windows: set[int] = set()
    for tier in loaders:
        dropped_events = [sums_at(window, tier).duplicates for window in axis.windows]
        lost_seqs = _lost_copies(steps)
        for fault, windows in settled_faults:
            uncovered_events = fault.count - _taken(lost_seqs, fault.finding)
            for number in windows:
                covered_events = min(uncovered_events, dropped_events[number])
                dropped_events[number] -= covered_events
                uncovered_events -= covered_events
            if uncovered_events:
                doubled_windows.add(id(fault))
    for fault, _ in settled_faults:
        if id(fault) not in doubled_windows:
            fault.harmless = words.landed_once()
    return [fault for fault, _ in settled_faults]


def _lost_copies(steps: Sequence[Tallied]) -> dict[str, list[Interval]]:
    """Returns, by source, seqs that a log lost and that landed nevertheless."""
    seqs_by_source: dict[str, list[Interval]] = {}
    for fault in (fault for step in steps for fault in step.faults if fault.harmless):
        finding = fault.finding
        seqs_by_source.setdefault(finding.source, []).append(
            (finding.seq, finding.seq + finding.events)
        )
    return seqs_by_source


def _taken(lost: dict[str, list[Interval]], finding: Finding) -> int:
    """Takes the finding's events out of `lost`, and returns how many there were."""
    seqs: Intervals = ((finding.seq, finding.seq + finding.events),)
    count = 0
    remaining_seqs: list[Interval] = []
    for lost_seqs in lost.get(finding.source, ()):
        shared_seqs = intersection(seqs, (lost_seqs,))
        count += size(shared_seqs)
        seqs = minus(seqs, (lost_seqs,))
        remaining_seqs += minus((lost_seqs,), shared_seqs)
    if count:
        lost[finding.source] = remaining_seqs
    return count


def _mark_rebuilt(picture: TopicPicture, faults: Iterable[Fault]) -> None:
    """Gives faults in files their reason if the brokers have nothing more: another rebuild would
    not mend them."""
    for fault in faults:
        finding = fault.finding
        is_plain = not fault.reason and not fault.harmless and not finding.is_landed_file
        if is_plain and finding.kind in _REBUILDABLE and finding.from_time >= 0:
            times = finding.from_time, max(finding.to_time, finding.from_time + 1)
            if picture.is_rebuilt(finding.tier, finding.destination, *times):
                fault.reason = words.REBUILT


def _accepted(picture: TopicPicture, faults: Iterable[Fault]) -> list[Fault]:
    """Returns the faults within the picture's time, with their acceptances. What is harmless needs
    none."""
    shown_faults: list[Fault] = []
    for fault in faults:
        finding = fault.finding
        if finding.from_time < 0 or (
            finding.from_time < picture.to_time
            and picture.from_time < max(finding.to_time, finding.from_time + 1)
        ):
            acceptance = "" if fault.harmless else why_accepted(fault, picture.accepted)
            fault.finding = replace(finding, accepted=acceptance, harmless=fault.harmless)
            shown_faults.append(fault)
    return shown_faults


def _waits(
    picture: TopicPicture, axis: Axis, steps: Sequence[Tallied], young: Sequence[LandedFile]
) -> Iterator[Wait]:
    if picture.unjoined:
        yield Wait(on=TierKind.ORIGIN.value, words=picture.unjoined)
    if any(tier.kind is TierKind.AGENT for tier in picture.tiers):
        for agent in _behind(picture, axis.windows):
            yield Wait(
                on=TierKind.AGENT.value,
                words=words.behind(agent),
                host=agent.host,
                agent=agent.agent,
                since=agent.until,
            )
    for step in steps:
        passing = step.passing
        earlier_tier, later_tier = passing.pair
        kinds = {kind for waits in step.waits.values() for kind in waits}
        if later_tier.kind.value in kinds:
            offsets = sum(size(intervals) for intervals in passing.waiting.values())
            text = words.offsets_ahead(later_tier, offsets, len(passing.waiting), passing.since)
            if passing.copied is not None:
                text = words.copies_ahead(offsets, passing.origin, passing.since)
            yield Wait(on=later_tier.kind.value, words=text, since=passing.since)
        if earlier_tier.kind.value in kinds:
            yield Wait(
                on=earlier_tier.kind.value, words=words.behind_files(earlier_tier, later_tier)
            )
        if LEDGER in kinds:
            yield Wait(on=LEDGER, words=words.fresh())
    for hole in picture.holes:
        if stated_faults.is_young(hole, picture) and hole.from_time < picture.to_time:
            host = hole.host or picture.names.get(hole.journal, "")
            yield Wait(
                on=LEDGER, words=words.missing_entry(hole, host), host=host, since=hole.from_time
            )
    fresh_losses = [loss for loss in picture.withdrawn if stated_faults.is_fresh(loss, picture)]
    if fresh_losses:
        since = min(loss.from_time for loss in fresh_losses)
        yield Wait(on=LEDGER, words=words.fresh(), since=since)
    yield from uncompared.waits(picture)
    if young:
        since = min(landing.said for landing in young)
        yield Wait(on=LEDGER, words=words.untold(len(young)), since=since)


def _complete_until(
    picture: TopicPicture, windows: Sequence[WindowVerdict], waits: Sequence[Wait]
) -> int:
    """Returns the time before which every line is accounted for: what no agent has passed may have
    lines that are in no report. -1: all lines of the picture's time are; 0: unknown."""
    if picture.unjoined:
        return 0
    times = [window.start for window in windows if window.state is State.PENDING]
    times += [wait.since for wait in waits if wait.on == LEDGER and wait.since >= 0]
    if any(tier.kind is TierKind.AGENT for tier in picture.tiers):
        times.append(picture.now)
        times += [
            agent.until
            for agent in picture.agents
            if agent.required_until is None or agent.until < agent.required_until
        ]
    else:
        times.append(picture.now - _length(windows) - picture.grace_millis)
    end = min(times)
    if end >= picture.to_time:
        return -1
    return end if end > picture.from_time else 0


def _length(windows: Sequence[Window | WindowVerdict]) -> int:
    return max((window.length for window in windows), default=_WINDOW)


def _behind(picture: TopicPicture, windows: Sequence[Window]) -> list[ExpectedAgent]:
    """Returns the agents without which this time is not complete, the one furthest behind first. A
    retired agent is required up to its retirement only. If the time is not over yet, an agent that
    is behind by no more than is usual (a window, and what may be in transit) is not listed."""
    due_time = picture.to_time
    if due_time > picture.now:
        due_time = picture.now - 2 * _length(windows) - picture.grace_millis
    late_agents = [
        agent
        for agent in picture.agents
        if agent.until < due_time
        and (agent.required_until is None or agent.until < agent.required_until)
    ]
    return sorted(late_agents, key=lambda agent: (agent.until, agent.host, agent.agent))


def _awaited(
    axis: Axis, tally: Tally, steps: Sequence[Tallied], young: Sequence[LandedFile]
) -> dict[int, set[str]]:
    """Returns, by window, what may still report something of it."""
    awaited_tiers: dict[int, set[str]] = {}
    for number in tally.agents_awaited:
        awaited_tiers.setdefault(number, set()).add(TierKind.AGENT.value)
    for landing in young:
        for number in axis.touched(landing.from_time, landing.to_time):
            awaited_tiers.setdefault(number, set()).add(LEDGER)
    for step in steps:
        for number, tiers in step.waits.items():
            awaited_tiers.setdefault(number, set()).update(tiers)
    return awaited_tiers


def _windows(
    picture: TopicPicture,
    axis: Axis,
    awaited_in: Mapping[int, Collection[str]],
    steps: Sequence[Tallied],
    faults: Iterable[Fault],
) -> list[WindowVerdict]:
    """Judges each window. Most are complete, and cost little."""
    tiers = picture.tiers
    findings_by_window: dict[int, list[Finding]] = {}
    for fault in faults:
        for number in set(fault.windows):
            findings_by_window.setdefault(number, []).append(fault.finding)
    file_tiers = [number for number, tier in enumerate(tiers) if tier.kind is TierKind.HDFS]
    verdicts: list[WindowVerdict] = []
    for number, window in enumerate(axis.windows):
        sums = [sums_at(window, tier) for tier in tiers]
        late_events = duplicate_events = dead_events = 0
        for file in file_tiers:
            landed_sums = sums[file]
            late_events += landed_sums.late
            duplicate_events += landed_sums.duplicates
            dead_events = max(dead_events, landed_sums.dead)  # each root has a copy
        findings = findings_by_window.get(number, ())
        window_awaits = awaited_in.get(number, ())
        missing_events = pending_events = excess_events = unclaimed_events = unclaimed_so_far = (
            moved_events
        ) = 0
        for tally in steps:
            if (step := tally.steps.get(number)) is not None:
                missing_events += step.missing
                pending_events += step.pending
                excess_events += step.excess
                unclaimed_events += step.unclaimed
                unclaimed_so_far += step.unclaimed_yet
                moved_events += step.elsewhere
        verdicts.append(
            WindowVerdict(
                start=window.start,
                length=window.length,
                state=_state(findings, window_awaits),
                sums=sums,
                missing=missing_events,
                pending=pending_events,
                excess=excess_events,
                unclaimed=unclaimed_events,
                unclaimed_yet=unclaimed_so_far,
                elsewhere=moved_events,
                changed=any(finding.kind is FaultKind.CHANGED for finding in findings)
                if findings
                else False,
                late=late_events,
                duplicates=duplicate_events,
                dead=window.dead + dead_events,
                filtered=window.filtered,
                lost=window.lost_events,
                waits=sorted(window_awaits) if window_awaits else [],
                accepted=not any(finding.is_open for finding in findings) if findings else False,
            )
        )
    return verdicts


def _state(findings: Collection[Finding], awaited: Collection[str]) -> State:
    if not findings and not awaited:
        return State.COMPLETE
    states = [finding.kind.state for finding in findings if finding.is_open]
    if awaited:
        states.append(State.PENDING)
    return worst(states)


def _findings(picture: TopicPicture, faults: Sequence[Fault]) -> list[Finding]:
    """Returns the findings, open ones first, and the worst of these. Beyond the limit, one
    finding of each kind stands for the rest."""
    ranked_faults = sorted(faults, key=lambda fault: _rank(fault.finding))
    findings = [
        replace(fault.finding, words=words.of(picture.key.topic, fault), reason=words.why(fault))
        for fault in ranked_faults[:MOST_FINDINGS]
    ]
    groups: dict[tuple[bool, bool, FaultKind], list[Finding]] = {}
    for fault in ranked_faults[MOST_FINDINGS:]:
        finding = fault.finding
        key = finding.is_open, bool(finding.accepted), finding.kind
        groups.setdefault(key, []).append(finding)
    findings += [_all_of(group) for group in groups.values()]
    return [identified(finding, picture.key) for finding in findings]


def _all_of(findings: Sequence[Finding]) -> Finding:
    """Returns one finding that stands for these, all of one kind."""
    dated_findings = [finding for finding in findings if finding.from_time >= 0]
    return Finding(
        kind=findings[0].kind,
        words=words.more_faults(len(findings)),
        events=sum(finding.count for finding in findings if finding.count >= 0) or -1,
        from_time=min((finding.from_time for finding in dated_findings), default=-1),
        to_time=max((finding.to_time for finding in dated_findings), default=-1),
        accepted=findings[0].accepted,
        harmless=findings[0].harmless,
    )


def _rank(finding: Finding) -> tuple[bool, int, str, str, int, int]:
    return (
        not finding.is_open,
        _KINDS.index(finding.kind),
        finding.host,
        finding.path,
        finding.from_time,
        finding.seq,
    )
