"""The verdict about a topic: `reconcile`.

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
Rule 7. A window's state is the worst of its faults that nobody has accepted, and of its waits.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from audit.picture import TierKind, TopicPicture, Window
from audit.reconciling import accepting, damages, statements, untold, words
from audit.reconciling.axis import Axis
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import gaps, intersection, merged, minus, size
from audit.reconciling.joining import joined
from audit.reconciling.naming import missing
from audit.reconciling.passing import Passing, Told, passed
from audit.reconciling.steps import aligned, pairs, sums_at
from audit.reconciling.tally import Tallied, Tally
from audit.reconciling.totals import by_host, totals
from audit.reconciling.waiting import behind, for_agent
from audit.reconciling.weighing import attach
from audit.reconciling.window_verdicts import window_verdicts
from audit.verdicts import Finding, Kind, State, TopicVerdict, Wait, worst

MOST_FINDINGS: Final = 2_000
_WINDOW: Final = 60_000  # where there is none to tell how long they are


def reconcile(picture: TopicPicture) -> TopicVerdict:
    """What holds of a topic between two times, and of each of its windows."""
    windows = _with_unwatched(aligned(picture.windows), picture)
    axis = Axis(windows)
    tally = Tally(picture, windows, axis)
    passages = [passed(picture, pair, axis) for pair in pairs(picture.tiers)]
    told = Told(picture.open, picture.placed)
    damaged = accepting.cut(damages.damaged(picture, told), picture.accepted)
    named = missing(passages, picture.sources, picture.damaged, told)
    doubled = [
        accepting.cut(statements.landed_twice(picture, each.pair.later), picture.accepted)
        for each in passages
    ]
    tallied = [
        tally.of(each, names, [one for one in damaged if _lacks(each, one)], again)
        for each, names, again in zip(passages, named, doubled, strict=True)
    ]
    attach((fault for again in doubled for fault in again), axis)
    faults = [*damaged, *(fault for each in tallied for fault in each.faults)]
    faults += (fault for again in doubled for fault in again)
    faults += _stated(picture, windows, axis, passages, tallied)
    attach(damaged, axis)
    judged = _judged(picture, faults)
    waits = list(_waits(picture, windows, passages, tallied))
    young = untold.young(picture)
    if young:
        since = min(each.said for each in young)
        waits.append(Wait(on="ledger", words=words.untold(len(young)), since=since))
    awaited = {
        TierKind.AGENT.value: tally.agents_awaited,
        "ledger": {at for each in young for at in axis.touched(each.from_time, each.to_time)},
    }
    verdicts = window_verdicts(picture.tiers, windows, awaited, tallied, judged)
    states = [each.state for each in verdicts]
    states += [fault.finding.kind.state for fault in judged if not fault.finding.accepted]
    if waits:
        states.append(State.PENDING)
    return TopicVerdict(
        key=picture.key,
        from_time=picture.from_time,
        to_time=picture.to_time,
        tiers=list(picture.tiers),
        state=worst(states),
        windows=verdicts,
        findings=_findings(picture, judged),
        waits=waits,
        totals=totals(fault.finding for fault in judged),
        hosts=by_host(fault.finding for fault in judged),
    )


def _with_unwatched(windows: Sequence[Window], picture: TopicPicture) -> Sequence[Window]:
    """Windows in which nothing is known to have happened are there as well, where nobody knows."""
    blind = merged(
        (max(each.from_time, picture.from_time), min(each.to_time, picture.to_time))
        for each in picture.unwatched
    )
    if not blind:
        return windows
    length = min((each.length for each in windows), default=_WINDOW)
    blind = merged((first - first % length, end + -end % length) for first, end in blind)
    known = merged((each.start, each.start + each.length) for each in windows)
    empty = [
        Window(start, min(length, end - start), {})
        for first, end in minus(blind, known)
        for start in range(first, end, length)
    ]
    return sorted([*windows, *empty], key=lambda each: each.start)


def _lacks(passing: Passing, damage: Fault) -> bool:
    one = damage.finding
    lacking = passing.lacking.get(one.partition, ())
    return bool(intersection(lacking, ((one.offset, one.offset + one.offsets),)))


def _stated(
    picture: TopicPicture,
    windows: Sequence[Window],
    axis: Axis,
    passages: Sequence[Passing],
    tallied: Sequence[Tallied],
) -> list[Fault]:
    """What is a fault whatever the sums are."""
    lost = _lost(picture, windows, axis)
    files = list(statements.of_files(picture))
    attach(files, axis)
    for fault in files:
        fault.windows = [
            each
            for each in fault.windows
            if any(
                sums.events
                for tier, sums in windows[each].sums.items()
                if (tier.kind, tier.destination) == (fault.finding.tier, fault.finding.destination)
            )
        ]
    holes = [
        fault
        for fault in statements.holes(picture)
        if _concerns(fault.finding.tier, picture, passages, tallied)
    ]
    unproven = list(statements.unproven(picture))
    twice = _twice(picture, windows, axis, tallied)
    unknown = list(statements.unknown(picture))
    unknown += untold.untold(picture)
    said = accepting.cut([*holes, *unproven, *twice, *unknown], picture.accepted)
    said += statements.copied(picture, axis)
    attach(said, axis)
    return [*lost, *files, *said]


def _twice(
    picture: TopicPicture, windows: Sequence[Window], axis: Axis, tallied: Sequence[Tallied]
) -> list[Fault]:
    """What loaders have dropped does no harm; as long as they have not come to it, nobody knows."""
    found = list(statements.twice(picture))
    loaders = [tier for tier in picture.tiers if tier.kind is TierKind.HDFS]
    if not found or not loaders:
        return found
    awaited = {
        number
        for each in tallied
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
        dropped = [sums_at(each, tier).duplicates for each in windows]
        for fault, touched in settled:
            left = fault.count
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


def _lost(picture: TopicPicture, windows: Sequence[Window], axis: Axis) -> list[Fault]:
    """Each in the window in which it is counted: that of its statement, or of the events about it.
    What is counted and has no name is a fault all the same."""
    faults = list(statements.lost(picture))
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
        kind=Kind.LOST,
        words="",
        tier=TierKind.AGENT.value,
        events=window.lost_events or -1,
        from_time=window.start,
        to_time=window.start + window.length,
    )
    return Fault(finding, reason=words.count(window.lost_bytes, "byte"), windows=[number])


def _concerns(
    kind: str, picture: TopicPicture, passages: Sequence[Passing], tallied: Sequence[Tallied]
) -> bool:
    """Whether a missing entry may have been about this topic. An agent's may; one of brokers or
    loaders speaks of offsets, and if it was about this topic, some are not spoken of now."""
    if kind == TierKind.AGENT or not passages:
        return True
    for passing, each in zip(passages, tallied, strict=True):
        if passing.pair.later.kind == kind:
            if passing.lacking or passing.waiting or each.steps:
                return True
        elif passing.pair.earlier.kind == kind and (passing.unspoken or passing.ahead):
            return True
    return any(
        gaps(claimed)
        for partition in picture.partitions
        for tier, claimed in partition.claimed.items()
        if tier.kind == kind
    )


def _judged(picture: TopicPicture, faults: Iterable[Fault]) -> list[Fault]:
    """Those of the time that is asked for, with what was accepted of them."""
    found: list[Fault] = []
    for fault in faults:
        one = fault.finding
        if one.from_time < 0 or (
            one.from_time < picture.to_time
            and picture.from_time < max(one.to_time, one.from_time + 1)
        ):
            accepted = accepting.reason(fault, picture.accepted) or fault.harmless
            fault.finding = replace(one, accepted=accepted)
            found.append(fault)
    return joined(found)


def _findings(picture: TopicPicture, faults: Sequence[Fault]) -> list[Finding]:
    """The worst first, and what was accepted last. Of what is too many, one for all."""
    worst_first = sorted(faults, key=lambda fault: _rank(fault.finding))
    found = [
        replace(fault.finding, words=words.of(picture.key.topic, fault))
        for fault in worst_first[:MOST_FINDINGS]
    ]
    rest = [fault.finding for fault in worst_first[MOST_FINDINGS:]]
    faulty = [each for each in rest if not each.accepted]
    accepted = [each for each in rest if each.accepted]
    return [*found, *(_all_of(some) for some in (faulty, accepted) if some)]


def _all_of(findings: Sequence[Finding]) -> Finding:
    """One that stands for these."""
    known = [each for each in findings if each.from_time >= 0]
    return Finding(
        kind=findings[0].kind,
        words=words.more_faults(len(findings)),
        from_time=min((each.from_time for each in known), default=-1),
        to_time=max((each.to_time for each in known), default=-1),
        accepted=findings[0].accepted,
    )


_KINDS = list(Kind)


def _rank(one: Finding) -> tuple[bool, int, str, str, int, int]:
    return (bool(one.accepted), _KINDS.index(one.kind), one.host, one.path, one.from_time, one.seq)


def _waits(
    picture: TopicPicture,
    windows: Sequence[Window],
    passages: Sequence[Passing],
    tallied: Sequence[Tallied],
) -> Iterable[Wait]:
    if any(tier.kind is TierKind.AGENT for tier in picture.tiers):
        for agent in behind(picture, windows):
            yield for_agent(agent)
    for passing, each in zip(passages, tallied, strict=True):
        kinds = {kind for waits in each.waits.values() for kind in waits}
        later = passing.pair.later
        if later.kind.value in kinds:
            offsets = sum(size(waiting) for waiting in passing.waiting.values())
            said = words.offsets_ahead(later, offsets, len(passing.waiting), passing.since)
            yield Wait(on=later.kind.value, words=said, since=passing.since)
        if passing.pair.earlier.kind.value in kinds:
            yield Wait(on=passing.pair.earlier.kind.value, words=words.behind_files(later))
        if "ledger" in kinds:
            yield Wait(on="ledger", words=words.fresh())
    for hole in picture.holes:
        if statements.is_young(hole, picture) and hole.from_time < picture.to_time:
            host = hole.host or picture.names.get(hole.journal, "")
            yield Wait(
                on="ledger", words=words.missing_entry(hole, host), host=host, since=hole.from_time
            )
