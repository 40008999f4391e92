"""What is said of a topic, its windows and its faults. Values that are shown as they are.

A window is in one state, the worst of what holds for it: changed, duplicated, missing, unknown,
pending, complete. It is unknown where nobody watched, and something may have been lost. What an
operator has accepted is shown, and counts as complete.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.findings import FaultKind, Finding, Kinds, State, counted, worst
from audit.picture import Tier, TopicKey, WindowSums

_MISSING: Final = frozenset({FaultKind.MISSING, FaultKind.UNPROVEN, FaultKind.UNNAMED})


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Events by what is wrong with them, as findings that nobody has accepted say. `missing` has
    those that are not proven, or have no name, as well. `uncounted` are findings of nobody knows
    how many events; `unknown` are times, and ends of files, that nobody watched."""

    missing: int = 0
    lost: int = 0
    lost_bytes: int = 0
    duplicated: int = 0
    changed: int = 0
    uncounted: int = 0
    unknown: int = 0
    state: State = State.COMPLETE
    kinds: Kinds = ()


class HostTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A host's part of them."""

    host: str
    totals: Totals


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """What a window still waits for."""

    on: str  # agent, origin, mirror, broker, hdfs, ledger
    words: str
    host: str = ""
    agent: str = ""
    since: int = -1  # up to when it is there


class WindowVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Sums by tier, in the order of the picture's tiers. From one tier to the next: what the
    earlier one has, less missing and pending, plus excess, unclaimed and elsewhere, is what the
    later one accounts for. With several steps these are their totals."""

    start: int
    length: int
    state: State
    sums: list[WindowSums]
    missing: int = 0  # events that an earlier tier has and a later one lacks
    excess: int = 0  # events that a later tier has more often than an earlier one
    pending: int = 0  # events of an earlier tier that a later one may still speak of
    unclaimed: int = 0  # events of which no earlier tier has spoken: other producers
    unclaimed_yet: int = 0  # of these, events of which an earlier tier may still speak
    elsewhere: int = 0  # more in this window than earlier, as they are fewer in another; or fewer
    changed: bool = False
    late: int = 0
    duplicates: int = 0  # that the loader dropped
    dead: int = 0  # of agents and loader
    filtered: int = 0
    lost: int = 0  # lines; -1 if nobody can know how many
    waits: list[str] = []  # kinds of waits: agent, broker, hdfs, ledger
    accepted: bool = False  # there is a fault, and it is accepted


class TopicVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A topic between two times."""

    key: TopicKey
    from_time: int
    to_time: int
    tiers: list[Tier]
    state: State
    windows: list[WindowVerdict]
    findings: list[Finding]
    waits: list[Wait]
    totals: Totals = Totals()
    hosts: list[HostTotals] = []  # that have a part in the totals; empty: nobody knows whose
    origin: TopicKey | None = None  # what it is a copy of
    uncounted: frozenset[Tier] = frozenset()  # whose sums are too small somewhere


def settled(verdict: TopicVerdict) -> TopicVerdict:
    """The verdict of a topic that was deleted: nobody can bring any more what it waits for, so that
    it is not pending. What is wrong with it stays."""
    windows = [
        replace(each, state=settled_state(each.state), waits=[]) if each.waits else each
        for each in verdict.windows
    ]
    return replace(verdict, state=settled_state(verdict.state), windows=windows, waits=[])


def settled_state(state: State) -> State:
    return State.COMPLETE if state is State.PENDING else state


def totals(findings: Iterable[Finding]) -> Totals:
    """What faults that nobody has accepted add up to: one computation, from which everybody has his
    numbers. What a topic lacks, what its hosts lack, and what its findings say are the same events:
    each fault is counted once. Of faults of which nobody knows how many events they are, the number
    of faults is counted instead."""
    faults = [each for each in findings if not each.accepted]
    kinds = counted(faults)
    events = {each.kind: each.events for each in kinds}
    return Totals(
        missing=sum(events.get(kind, 0) for kind in _MISSING),
        lost=events.get(FaultKind.LOST, 0),
        lost_bytes=sum(
            each.end_position - each.position
            for each in faults
            if each.kind is FaultKind.LOST and 0 <= each.position < each.end_position
        ),
        duplicated=events.get(FaultKind.DUPLICATED, 0),
        changed=events.get(FaultKind.CHANGED, 0),
        uncounted=sum(each.uncounted for each in kinds if each.kind is not FaultKind.UNKNOWN),
        unknown=sum(each.findings for each in kinds if each.kind is FaultKind.UNKNOWN),
        state=worst(each.kind.state for each in kinds),
        kinds=kinds,
    )


def by_host(findings: Iterable[Finding]) -> list[HostTotals]:
    """Those of which anything is wrong, by name. Together they are what the topic has."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        if not each.accepted:
            found[each.host].append(each)
    return [HostTotals(host=host, totals=totals(some)) for host, some in sorted(found.items())]
