"""The verdict about a topic: `reconcile`. Offsets are looked at first (missing.py), then sums of
windows (window_sums.py), then what is a fault whatever the sums are (stated_faults.py).

Rule 1. What a later tier has said nothing about yet is pending: offsets above the highest that it
has spoken of, windows that an agent has not passed, entries of journals that may still come, and
windows that ended just now. It is no fault.
Rule 2. Everything else that an earlier tier has and a later one lacks is missing. Each such event
is named by its file and offset where anybody spoke of it, and counted by its window where nobody
did; it is a fault of the first tier that lacks it.
Rule 3. What no earlier tier has spoken of is unclaimed, and no fault. What was spoken of, and is
there more than once, is duplicated; as many events with another sum of CRCs are changed.
Rule 4. Where an entry of a tier's journal never came, what is missing at that tier is not proven.
Rule 5. Where windows' sums differ, and offsets prove what became of each event, nothing is wrong:
the events are in other windows there.
Rule 6. A time in which nobody watched and something happened is unknown, whatever else is there;
the windows it touches are, even if nothing is known to have happened in them.
Rule 7. A copy is judged with its origin. Where that is not known, nothing of the copy is complete.
Rule 8. A window's state is the worst of its faults that nobody has accepted, and of its waits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from audit.api.verdicts import TopicVerdict, Wait, WindowVerdict, by_host, totals
from audit.findings import FaultKind, Finding, State, identified, worst
from audit.picture import ExpectedAgent, LandedFile, TierKind, TopicPicture, Window
from audit.reconciling import stated_faults, words
from audit.reconciling.faults import Fault, cut, joined, why_accepted
from audit.reconciling.missing import NamedMissing, Passing, Told, missing, passed
from audit.reconciling.window_sums import LEDGER, Tallied, Tally, attach
from audit.reconciling.windows import Axis, aligned, pairs, sums_at, with_copied, with_unwatched
from ground.intervals import Interval, Intervals, gaps, intersection, minus, size

MOST_FINDINGS: Final = 2_000
_WINDOW: Final = 60_000  # where there is none to tell how long they are
_KINDS: Final = list(FaultKind)


def reconcile(picture: TopicPicture) -> TopicVerdict:
    """What holds of a topic between two times, and of each of its windows."""
    axis = Axis(with_unwatched(with_copied(aligned(picture.windows), picture), picture))
    # By offsets: what is damaged, and what each tier lacks of the one before it.
    told = Told(picture.open, picture.placed)
    passages = [passed(picture, pair, axis) for pair in pairs(picture.tiers)]
    named = missing(passages, picture.sources, picture.damaged, told)
    damaged = cut(stated_faults.damaged(picture, told), picture.accepted)
    # By sums: what is not named, too much, or still to come.
    tally = Tally(picture, axis)
    steps = [
        tally.of(passing, names, damaged, _beyond(passing, passages, named))
        for passing, names in zip(passages, named, strict=True)
    ]
    doubled = [fault for step in steps for fault in step.doubled]
    attach([*damaged, *doubled], axis)
    # By what somebody states, whatever the sums are.
    faults = [*damaged, *(fault for step in steps for fault in step.faults), *doubled]
    faults += _lost(picture, axis)
    faults += _files(picture, axis)
    faults += _said(picture, axis, steps)
    judged = joined(_accepted(picture, faults))
    # What all of it comes to.
    young = stated_faults.young(picture)
    waits = list(_waits(picture, axis, steps, young))
    awaited = _awaited(axis, tally, steps, young)
    if picture.unjoined:
        for number in range(len(axis.windows)):
            awaited.setdefault(number, set()).add(TierKind.ORIGIN.value)
    windows = _windows(picture, axis, awaited, steps, judged)
    states = {each.state for each in windows}
    states |= {fault.finding.kind.state for fault in judged if not fault.finding.accepted}
    if waits:
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
        uncounted=frozenset(tier for each in axis.windows for tier in each.uncounted),
    )


def _beyond(
    passing: Passing, passages: Sequence[Passing], named: Sequence[NamedMissing]
) -> list[NamedMissing]:
    """What those lack that come after this later tier."""
    return [
        names
        for each, names in zip(passages, named, strict=True)
        if each.pair.earlier == passing.pair.later
    ]


def _lost(picture: TopicPicture, axis: Axis) -> list[Fault]:
    """Each in the window in which it is counted: that of its statement, or of the events about it.
    What is counted and has no name is a fault all the same."""
    windows = axis.windows
    faults = list(stated_faults.lost(picture))
    attach(faults, axis)
    counted = [number for number, each in enumerate(windows) if each.lost_events or each.lost_bytes]
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
        words="",
        tier=TierKind.AGENT.value,
        events=window.lost_events or -1,
        from_time=window.start,
        to_time=window.start + window.length,
    )
    return Fault(finding, reason=words.count(window.lost_bytes, "byte"), windows=[number])


def _files(picture: TopicPicture, axis: Axis) -> list[Fault]:
    """Each in the windows of which its tier has anything."""
    files = list(stated_faults.of_files(picture))
    attach(files, axis)
    for fault in files:
        fault.windows = [
            each
            for each in fault.windows
            if any(
                sums.events
                for tier, sums in axis.windows[each].sums.items()
                if (tier.kind, tier.destination) == (fault.finding.tier, fault.finding.destination)
            )
        ]
    return files


def _said(picture: TopicPicture, axis: Axis, steps: Sequence[Tallied]) -> list[Fault]:
    """Statements that are missing, that contradict others, or that say that nobody knows."""
    said = [
        fault
        for fault in stated_faults.holes(picture)
        if _concerns(fault.finding.tier, picture, steps)
    ]
    said += stated_faults.disputed(picture)
    said += stated_faults.unproven(picture)
    said += _twice(picture, axis, steps)
    said += stated_faults.unknown(picture)
    said += stated_faults.withdrawn(picture)
    said += stated_faults.collided(picture)
    said += stated_faults.untold(picture)
    said = cut(said, picture.accepted)
    said += stated_faults.copied(picture, axis)
    attach(said, axis)
    return said


def _concerns(kind: str, picture: TopicPicture, steps: Sequence[Tallied]) -> bool:
    """Whether a missing entry may have been about this topic. An agent's may; one of brokers or
    loaders speaks of offsets, and if it was about this topic, some are not spoken of now."""
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
    """What loaders have dropped does no harm, nor does what a log had lost before; as long as they
    have not come to it, nobody knows."""
    found = list(stated_faults.twice(picture))
    loaders = [tier for tier in picture.tiers if tier.kind is TierKind.HDFS]
    if not found or not loaders:
        return found
    awaited = {
        number
        for each in steps
        for number, waits in each.waits.items()
        if TierKind.HDFS.value in waits
    }
    times = [axis.touched(each.finding.from_time, each.finding.to_time) for each in found]
    settled = [
        (fault, touched)
        for fault, touched in zip(found, times, strict=True)
        if awaited.isdisjoint(touched)
    ]
    doubled: set[int] = set()
    for tier in loaders:
        dropped = [sums_at(each, tier).duplicates for each in axis.windows]
        lost = _lost_copies(steps)
        for fault, touched in settled:
            left = fault.count - _taken(lost, fault.finding)
            for number in touched:
                taken = min(left, dropped[number])
                dropped[number] -= taken
                left -= taken
            if left:
                doubled.add(id(fault))
    for fault, _ in settled:
        if id(fault) not in doubled:
            fault.harmless = words.landed_once()
    return [fault for fault, _ in settled]


def _lost_copies(steps: Sequence[Tallied]) -> dict[str, list[Interval]]:
    """By file, seqs that a log has lost and that have landed all the same."""
    found: dict[str, list[Interval]] = {}
    for fault in (each for step in steps for each in step.faults if each.harmless):
        one = fault.finding
        found.setdefault(one.source, []).append((one.seq, one.seq + one.events))
    return found


def _taken(lost: dict[str, list[Interval]], one: Finding) -> int:
    """How many of its events are among these, which they are no more."""
    mine: Intervals = ((one.seq, one.seq + one.events),)
    taken = 0
    rest: list[Interval] = []
    for each in lost.get(one.source, ()):
        mine_of_it = intersection(mine, (each,))
        taken += size(mine_of_it)
        mine = minus(mine, (each,))
        rest += minus((each,), mine_of_it)
    if taken:
        lost[one.source] = rest
    return taken


def _accepted(picture: TopicPicture, faults: Iterable[Fault]) -> list[Fault]:
    """Those of the time that is asked for, with what was accepted of them."""
    found: list[Fault] = []
    for fault in faults:
        one = fault.finding
        if one.from_time < 0 or (
            one.from_time < picture.to_time
            and picture.from_time < max(one.to_time, one.from_time + 1)
        ):
            accepted = why_accepted(fault, picture.accepted) or fault.harmless
            fault.finding = replace(one, accepted=accepted)
            found.append(fault)
    return found


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
            said = words.offsets_ahead(later, offsets, len(passing.waiting), passing.since)
            if passing.copied is not None:
                said = words.copies_ahead(offsets, passing.origin, passing.since)
            yield Wait(on=later.kind.value, words=said, since=passing.since)
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
    fresh = [each for each in picture.withdrawn if stated_faults.is_fresh(each, picture)]
    if fresh:
        since = min(each.from_time for each in fresh)
        yield Wait(on=LEDGER, words=words.fresh(), since=since)
    if young:
        since = min(each.said for each in young)
        yield Wait(on=LEDGER, words=words.untold(len(young)), since=since)


def _behind(picture: TopicPicture, windows: Sequence[Window]) -> list[ExpectedAgent]:
    """Agents without whom this time is not complete, the one furthest behind first. One that is
    retired is waited for up to then only. Where the time that is asked for is not over yet, an
    agent that is as far as agents are (a window and what may be under way) is not behind."""
    due = picture.to_time
    if due > picture.now:
        length = max((each.length for each in windows), default=_WINDOW)
        due = picture.now - 2 * length - picture.grace_millis
    late = [
        each
        for each in picture.agents
        if each.until < due and (each.required_until is None or each.until < each.required_until)
    ]
    return sorted(late, key=lambda each: (each.until, each.host, each.agent))


def _awaited(
    axis: Axis, tally: Tally, steps: Sequence[Tallied], young: Sequence[LandedFile]
) -> dict[int, set[str]]:
    """By window, who has still something to say of it."""
    found: dict[int, set[str]] = {}
    for number in tally.agents_awaited:
        found.setdefault(number, set()).add(TierKind.AGENT.value)
    for each in young:
        for number in axis.touched(each.from_time, each.to_time):
            found.setdefault(number, set()).add(LEDGER)
    for step in steps:
        for number, awaited in step.waits.items():
            found.setdefault(number, set()).update(awaited)
    return found


def _windows(
    picture: TopicPicture,
    axis: Axis,
    awaited_in: Mapping[int, Collection[str]],
    steps: Sequence[Tallied],
    faults: Iterable[Fault],
) -> list[WindowVerdict]:
    """What is said of each window. Most are as they should be, and cost little."""
    tiers = picture.tiers
    faults_of: dict[int, list[Finding]] = {}
    for fault in faults:
        for number in set(fault.windows):
            faults_of.setdefault(number, []).append(fault.finding)
    files = [number for number, tier in enumerate(tiers) if tier.kind is TierKind.HDFS]
    found: list[WindowVerdict] = []
    for number, window in enumerate(axis.windows):
        sums = [sums_at(window, tier) for tier in tiers]
        late = duplicates = dead = 0
        for file in files:
            landed = sums[file]
            late += landed.late
            duplicates += landed.duplicates
            dead += landed.dead
        some = faults_of.get(number, ())
        awaited = awaited_in.get(number, ())
        missing = pending = excess = unclaimed = yet = elsewhere = 0
        for each in steps:
            if (step := each.steps.get(number)) is not None:
                missing += step.missing
                pending += step.pending
                excess += step.excess
                unclaimed += step.unclaimed
                yet += step.unclaimed_yet
                elsewhere += step.elsewhere
        found.append(
            WindowVerdict(
                start=window.start,
                length=window.length,
                state=_state(some, awaited),
                sums=sums,
                missing=missing,
                pending=pending,
                excess=excess,
                unclaimed=unclaimed,
                unclaimed_yet=yet,
                elsewhere=elsewhere,
                changed=any(each.kind is FaultKind.CHANGED for each in some) if some else False,
                late=late,
                duplicates=duplicates,
                dead=window.dead + dead,
                filtered=window.filtered,
                lost=window.lost_events,
                waits=sorted(awaited) if awaited else [],
                accepted=all(each.accepted for each in some) if some else False,
            )
        )
    return found


def _state(findings: Collection[Finding], awaited: Collection[str]) -> State:
    if not findings and not awaited:
        return State.COMPLETE
    states = [each.kind.state for each in findings if not each.accepted]
    if awaited:
        states.append(State.PENDING)
    return worst(states)


def _findings(picture: TopicPicture, faults: Sequence[Fault]) -> list[Finding]:
    """The worst first, and what was accepted last. Of what is too many, one for each kind."""
    worst_first = sorted(faults, key=lambda fault: _rank(fault.finding))
    found = [
        replace(fault.finding, words=words.of(picture.key.topic, fault), reason=words.why(fault))
        for fault in worst_first[:MOST_FINDINGS]
    ]
    rest: dict[tuple[bool, FaultKind], list[Finding]] = {}
    for fault in worst_first[MOST_FINDINGS:]:
        one = fault.finding
        rest.setdefault((bool(one.accepted), one.kind), []).append(one)
    found += [_all_of(some) for some in rest.values()]
    return [identified(each, picture.key) for each in found]


def _all_of(findings: Sequence[Finding]) -> Finding:
    """One that stands for these, which are of one kind."""
    known = [each for each in findings if each.from_time >= 0]
    return Finding(
        kind=findings[0].kind,
        words=words.more_faults(len(findings)),
        events=sum(each.count for each in findings if each.count >= 0) or -1,
        from_time=min((each.from_time for each in known), default=-1),
        to_time=max((each.to_time for each in known), default=-1),
        accepted=findings[0].accepted,
    )


def _rank(one: Finding) -> tuple[bool, int, str, str, int, int]:
    return (bool(one.accepted), _KINDS.index(one.kind), one.host, one.path, one.from_time, one.seq)
