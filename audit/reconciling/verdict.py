"""`reconcile` derives the verdict about a topic: from offsets (missing.py), then from the sums of
windows (window_sums.py), then from faults that hold whatever the sums are (stated_faults.py).

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

from audit.reconciling import stated_faults, words
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
    """Judges a topic between two times, and each of its windows."""
    axis = Axis(with_unwatched(with_copied(aligned(picture.windows), picture), picture))
    # By offsets: damage, and what each tier lacks of the one before it.
    offset_times = OffsetTimes(picture.open, picture.placed)
    passages = [passed(picture, pair, axis) for pair in pairs(picture.tiers)]
    named = missing(passages, picture.sources, picture.damaged, offset_times)
    damaged = cut(stated_faults.damaged(picture, offset_times), picture.accepted)
    # By sums: what is unnamed, too many, or pending.
    tally = Tally(picture, axis)
    steps = [
        tally.of(passing, names, damaged, _beyond(passing, passages, named))
        for passing, names in zip(passages, named, strict=True)
    ]
    doubled = [fault for step in steps for fault in step.doubled]
    attach([*damaged, *doubled], axis)
    # By reports, whatever the sums are.
    faults = [*damaged, *(fault for step in steps for fault in step.faults), *doubled]
    faults += _lost(picture, axis)
    faults += _files(picture, axis)
    faults += _stated(picture, axis, steps)
    _mark_rebuilt(picture, faults)
    judged = joined(_accepted(picture, faults))
    # The result.
    young = stated_faults.young(picture)
    waits = distinct(_waits(picture, axis, steps, young))
    awaited = _awaited(axis, tally, steps, young)
    if picture.unjoined:
        for number in range(len(axis.windows)):
            awaited.setdefault(number, set()).add(TierKind.ORIGIN.value)
    windows = _windows(picture, axis, awaited, steps, judged)
    states = {window.state for window in windows}
    states |= {fault.finding.kind.state for fault in judged if fault.finding.is_open}
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
        findings=_findings(picture, judged),
        waits=waits,
        totals=totals(fault.finding for fault in judged),
        hosts=by_host(fault.finding for fault in judged),
        origin=picture.origin,
        uncounted=frozenset(tier for window in axis.windows for tier in window.uncounted),
        complete_until=complete_until,
    )


def _beyond(
    passing: Passing, passages: Sequence[Passing], named: Sequence[NamedMissing]
) -> list[NamedMissing]:
    """Returns what the tiers after this pair lack."""
    return [
        names
        for other, names in zip(passages, named, strict=True)
        if other.pair.earlier == passing.pair.later
    ]


def _lost(picture: TopicPicture, axis: Axis) -> list[Fault]:
    """Returns lost bytes, each in the window that counts it: that of its report, or of the events
    around it. Losses that are counted but not named are faults, too."""
    windows = axis.windows
    faults = list(stated_faults.lost(picture))
    attach(faults, axis)
    counted = [
        number for number, window in enumerate(windows) if window.lost_events or window.lost_bytes
    ]
    named = {number for fault in faults for number in fault.windows}
    away = [fault for fault in faults if not set(fault.windows).intersection(counted)]
    for number in counted:
        if number not in named and away:
            for fault in away:
                fault.windows.append(number)
        elif number not in named:
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
        gaps(claimed)
        for partition in picture.partitions
        for tier, claimed in partition.claimed.items()
        if tier.kind == kind
    )


def _twice(picture: TopicPicture, axis: Axis, steps: Sequence[Tallied]) -> list[Fault]:
    """Returns events that were shipped twice. They are harmless if loaders dropped the duplicates,
    or a log had lost one of the two. Until all loaders have passed them, they are left out."""
    faults = list(stated_faults.twice(picture))
    loaders = [tier for tier in picture.tiers if tier.kind is TierKind.HDFS]
    if not faults or not loaders:
        return faults
    awaited = {
        number
        for tallied in steps
        for number, waits in tallied.waits.items()
        if TierKind.HDFS.value in waits
    }
    times = [axis.touched(fault.finding.from_time, fault.finding.to_time) for fault in faults]
    settled = [
        (fault, touched)
        for fault, touched in zip(faults, times, strict=True)
        if awaited.isdisjoint(touched)
    ]
    doubled: set[int] = set()
    for tier in loaders:
        dropped = [sums_at(window, tier).duplicates for window in axis.windows]
        lost = _lost_copies(steps)
        for fault, touched in settled:
            remaining = fault.count - _taken(lost, fault.finding)
            for number in touched:
                covered = min(remaining, dropped[number])
                dropped[number] -= covered
                remaining -= covered
            if remaining:
                doubled.add(id(fault))
    for fault, _ in settled:
        if id(fault) not in doubled:
            fault.harmless = words.landed_once()
    return [fault for fault, _ in settled]


def _lost_copies(steps: Sequence[Tallied]) -> dict[str, list[Interval]]:
    """Returns, by source, seqs that a log lost and that landed nevertheless."""
    seqs_of: dict[str, list[Interval]] = {}
    for fault in (fault for step in steps for fault in step.faults if fault.harmless):
        finding = fault.finding
        seqs_of.setdefault(finding.source, []).append((finding.seq, finding.seq + finding.events))
    return seqs_of


def _taken(lost: dict[str, list[Interval]], finding: Finding) -> int:
    """Takes the finding's events out of `lost`, and returns how many there were."""
    seqs: Intervals = ((finding.seq, finding.seq + finding.events),)
    count = 0
    remaining: list[Interval] = []
    for lost_seqs in lost.get(finding.source, ()):
        shared = intersection(seqs, (lost_seqs,))
        count += size(shared)
        seqs = minus(seqs, (lost_seqs,))
        remaining += minus((lost_seqs,), shared)
    if count:
        lost[finding.source] = remaining
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
    shown: list[Fault] = []
    for fault in faults:
        finding = fault.finding
        if finding.from_time < 0 or (
            finding.from_time < picture.to_time
            and picture.from_time < max(finding.to_time, finding.from_time + 1)
        ):
            accepted = "" if fault.harmless else why_accepted(fault, picture.accepted)
            fault.finding = replace(finding, accepted=accepted, harmless=fault.harmless)
            shown.append(fault)
    return shown


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
        earlier, later = passing.pair
        kinds = {kind for waits in step.waits.values() for kind in waits}
        if later.kind.value in kinds:
            offsets = sum(size(waiting) for waiting in passing.waiting.values())
            text = words.offsets_ahead(later, offsets, len(passing.waiting), passing.since)
            if passing.copied is not None:
                text = words.copies_ahead(offsets, passing.origin, passing.since)
            yield Wait(on=later.kind.value, words=text, since=passing.since)
        if earlier.kind.value in kinds:
            yield Wait(on=earlier.kind.value, words=words.behind_files(earlier, later))
        if LEDGER in kinds:
            yield Wait(on=LEDGER, words=words.fresh())
    for hole in picture.holes:
        if stated_faults.is_young(hole, picture) and hole.from_time < picture.to_time:
            host = hole.host or picture.names.get(hole.journal, "")
            yield Wait(
                on=LEDGER, words=words.missing_entry(hole, host), host=host, since=hole.from_time
            )
    fresh = [loss for loss in picture.withdrawn if stated_faults.is_fresh(loss, picture)]
    if fresh:
        since = min(loss.from_time for loss in fresh)
        yield Wait(on=LEDGER, words=words.fresh(), since=since)
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
    until = min(times)
    if until >= picture.to_time:
        return -1
    return until if until > picture.from_time else 0


def _length(windows: Sequence[Window | WindowVerdict]) -> int:
    return max((window.length for window in windows), default=_WINDOW)


def _behind(picture: TopicPicture, windows: Sequence[Window]) -> list[ExpectedAgent]:
    """Returns the agents without which this time is not complete, the one furthest behind first. A
    retired agent is required up to its retirement only. If the time is not over yet, an agent that
    is behind by no more than is usual (a window, and what may be in transit) is not listed."""
    due = picture.to_time
    if due > picture.now:
        due = picture.now - 2 * _length(windows) - picture.grace_millis
    late = [
        agent
        for agent in picture.agents
        if agent.until < due
        and (agent.required_until is None or agent.until < agent.required_until)
    ]
    return sorted(late, key=lambda agent: (agent.until, agent.host, agent.agent))


def _awaited(
    axis: Axis, tally: Tally, steps: Sequence[Tallied], young: Sequence[LandedFile]
) -> dict[int, set[str]]:
    """Returns, by window, what may still report something of it."""
    awaited_in: dict[int, set[str]] = {}
    for number in tally.agents_awaited:
        awaited_in.setdefault(number, set()).add(TierKind.AGENT.value)
    for landing in young:
        for number in axis.touched(landing.from_time, landing.to_time):
            awaited_in.setdefault(number, set()).add(LEDGER)
    for step in steps:
        for number, awaited in step.waits.items():
            awaited_in.setdefault(number, set()).update(awaited)
    return awaited_in


def _windows(
    picture: TopicPicture,
    axis: Axis,
    awaited_in: Mapping[int, Collection[str]],
    steps: Sequence[Tallied],
    faults: Iterable[Fault],
) -> list[WindowVerdict]:
    """Judges each window. Most are complete, and cost little."""
    tiers = picture.tiers
    faults_of: dict[int, list[Finding]] = {}
    for fault in faults:
        for number in set(fault.windows):
            faults_of.setdefault(number, []).append(fault.finding)
    files = [number for number, tier in enumerate(tiers) if tier.kind is TierKind.HDFS]
    verdicts: list[WindowVerdict] = []
    for number, window in enumerate(axis.windows):
        sums = [sums_at(window, tier) for tier in tiers]
        late = duplicates = dead = 0
        for file in files:
            landed = sums[file]
            late += landed.late
            duplicates += landed.duplicates
            dead += landed.dead
        findings = faults_of.get(number, ())
        awaited = awaited_in.get(number, ())
        missing = pending = excess = unclaimed = unclaimed_yet = elsewhere = 0
        for tallied in steps:
            if (step := tallied.steps.get(number)) is not None:
                missing += step.missing
                pending += step.pending
                excess += step.excess
                unclaimed += step.unclaimed
                unclaimed_yet += step.unclaimed_yet
                elsewhere += step.elsewhere
        verdicts.append(
            WindowVerdict(
                start=window.start,
                length=window.length,
                state=_state(findings, awaited),
                sums=sums,
                missing=missing,
                pending=pending,
                excess=excess,
                unclaimed=unclaimed,
                unclaimed_yet=unclaimed_yet,
                elsewhere=elsewhere,
                changed=any(finding.kind is FaultKind.CHANGED for finding in findings)
                if findings
                else False,
                late=late,
                duplicates=duplicates,
                dead=window.dead + dead,
                filtered=window.filtered,
                lost=window.lost_events,
                waits=sorted(awaited) if awaited else [],
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
    worst_first = sorted(faults, key=lambda fault: _rank(fault.finding))
    findings = [
        replace(fault.finding, words=words.of(picture.key.topic, fault), reason=words.why(fault))
        for fault in worst_first[:MOST_FINDINGS]
    ]
    grouped: dict[tuple[bool, bool, FaultKind], list[Finding]] = {}
    for fault in worst_first[MOST_FINDINGS:]:
        finding = fault.finding
        group = finding.is_open, bool(finding.accepted), finding.kind
        grouped.setdefault(group, []).append(finding)
    findings += [_all_of(group) for group in grouped.values()]
    return [identified(finding, picture.key) for finding in findings]


def _all_of(findings: Sequence[Finding]) -> Finding:
    """Returns one finding that stands for these, all of one kind."""
    dated = [finding for finding in findings if finding.from_time >= 0]
    return Finding(
        kind=findings[0].kind,
        words=words.more_faults(len(findings)),
        events=sum(finding.count for finding in findings if finding.count >= 0) or -1,
        from_time=min((finding.from_time for finding in dated), default=-1),
        to_time=max((finding.to_time for finding in dated), default=-1),
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
