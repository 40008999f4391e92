"""The verdicts about topics and windows, as values that the API shows unchanged.

A window is in one state, the worst that applies: changed, duplicated, missing, unknown, pending,
complete. It is unknown if no agent watched and something may have been lost. What an operator has
accepted is shown, and counts as complete; so does what is harmless.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.reconciling.findings import FaultKind, Finding, Kinds, State, counted, worst
from audit.reconciling.picture import Tier, TopicKey, WindowSums

_MISSING: Final = frozenset({FaultKind.MISSING, FaultKind.UNPROVEN, FaultKind.UNNAMED})


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of open findings. `missing` includes unproven and unnamed events. `uncounted` is the
    number of findings with an unknown number of events; `unknown` is the number of unwatched
    periods and ends of files. `accepted` counts the findings that operators accepted, and their
    events."""

    missing: int = 0
    lost: int = 0
    lost_bytes: int = 0
    duplicated: int = 0
    changed: int = 0
    uncounted: int = 0
    unknown: int = 0
    state: State = State.COMPLETE
    kinds: Kinds = ()
    accepted: Kinds = ()


class HostTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A host's part of the totals."""

    host: str
    totals: Totals


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A report for which a window waits."""

    on: str  # agent, origin, mirror, broker, hdfs, ledger
    words: str
    host: str = ""
    agent: str = ""
    since: int = -1  # the time up to which it is complete


class WindowVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about one window. Sums are by tier, in the order of the picture's tiers. Between
    two tiers, the events of the earlier tier, minus `missing` and `pending`, plus `excess`,
    `unclaimed` and `elsewhere`, are those that the later tier accounts for. With more than two
    tiers, these fields are totals over all steps."""

    start: int
    length: int
    state: State
    sums: list[WindowSums]
    missing: int = 0  # events that an earlier tier has and a later one lacks
    excess: int = 0  # events that a later tier has more often than an earlier one
    pending: int = 0  # events of an earlier tier that a later one may still claim
    unclaimed: int = 0  # events that no earlier tier has claimed: other producers
    unclaimed_yet: int = 0  # of these, events that an earlier tier may still claim
    elsewhere: int = 0  # events that moved into this window at a later tier; below zero: out of it
    changed: bool = False
    late: int = 0
    duplicates: int = 0  # dropped by the loader
    dead: int = 0  # of agents and loader; of several roots, the one with the most
    filtered: int = 0
    lost: int = 0  # lines; -1 if unknown
    waits: list[str] = []  # kinds of waits: agent, broker, hdfs, ledger
    accepted: bool = False  # there is a fault, and it is accepted or harmless


class TopicVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about a topic in a period."""

    key: TopicKey
    from_time: int
    to_time: int
    tiers: list[Tier]
    state: State
    windows: list[WindowVerdict]
    findings: list[Finding]
    waits: list[Wait]
    totals: Totals = Totals()
    hosts: list[HostTotals] = []  # with a part in the totals; an empty name: unknown hosts
    origin: TopicKey | None = None  # the topic that this is a copy of
    uncounted: frozenset[Tier] = frozenset()  # tiers whose sums are too small somewhere
    complete_until: int = -1  # every earlier line is accounted for; -1: all lines; 0: unknown


def settled(verdict: TopicVerdict) -> TopicVerdict:
    """Returns the verdict about a deleted topic, which is not pending, because no more reports can
    arrive. Its faults remain."""
    windows = [
        replace(window, state=settled_state(window.state), waits=[]) if window.waits else window
        for window in verdict.windows
    ]
    return replace(
        verdict,
        state=settled_state(verdict.state),
        windows=windows,
        waits=[],
        complete_until=-1,
    )


def distinct(waits: Iterable[Wait]) -> list[Wait]:
    """Returns one wait per sentence: among equal sentences, the first wait with a known time."""
    first_waits: dict[tuple[str, str], Wait] = {}
    for wait in waits:
        key = wait.on, wait.words
        if first_waits.setdefault(key, wait).since < 0:
            first_waits[key] = wait
    return list(first_waits.values())


def settled_state(state: State) -> State:
    return State.COMPLETE if state is State.PENDING else state


def totals(findings: Iterable[Finding]) -> Totals:
    """Adds up open faults, counting each once, so that the totals of a topic, its hosts and its
    findings agree. A fault whose number of events is unknown is counted as one fault, separately
    from the event counts."""
    all_findings = list(findings)
    open_findings = [finding for finding in all_findings if finding.is_open]
    kinds = counted(open_findings)
    events = {kind.kind: kind.events for kind in kinds}
    return Totals(
        missing=sum(events.get(kind, 0) for kind in _MISSING),
        lost=events.get(FaultKind.LOST, 0),
        lost_bytes=sum(max(fault.bytes, 0) for fault in open_findings),
        duplicated=events.get(FaultKind.DUPLICATED, 0),
        changed=events.get(FaultKind.CHANGED, 0),
        uncounted=sum(kind.uncounted for kind in kinds if kind.kind is not FaultKind.UNKNOWN),
        unknown=sum(kind.findings for kind in kinds if kind.kind is FaultKind.UNKNOWN),
        state=worst(kind.kind.state for kind in kinds),
        kinds=kinds,
        accepted=counted(finding for finding in all_findings if finding.accepted),
    )


def by_host(findings: Iterable[Finding]) -> list[HostTotals]:
    """Returns the totals of hosts with open faults, by name. They add up to the topic's totals."""
    findings_by_host: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.is_open:
            findings_by_host[finding.host].append(finding)
    return [
        HostTotals(host=host, totals=totals(host_findings))
        for host, host_findings in sorted(findings_by_host.items())
    ]
