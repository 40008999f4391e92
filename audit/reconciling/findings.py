"""Findings: the single model of a fault, which the page, `penstock status`, `penstock report` and
alerts show. Pure.

A finding is one fault, or a stretch that cannot be proven. Its `id` names it, so that other parts
can refer to it.

Rule 1. The id is a digest of where the finding begins: the topic's id, the kind, the tier, and the
source or partition with the first event, byte or offset. All of these come from the ledger. So the
id is the same in each run of the audit, on another machine, and after the database was rebuilt.
Rule 2. The id does not depend on what grows or is looked up later: counts, where the finding ends,
a file's host or path, times of the run, the order of rows. Two hundred missing events that become
three hundred are the same finding.
Rule 3. A time is part of the id only where neither an event nor an offset says where the finding
is: a folder that was not watched, or sums of windows that differ. The latter begin at the first
such window of the time that was asked for, so a report that begins later gives them another id.
Rule 4. Each kind is counted by itself, and what a person accepted apart from what is open. What is
harmless is not counted: that it is was proven, and no person accepted anything.
"""

import hashlib
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from audit.reconciling.picture import Tier, TierKind, TopicKey

_ID_DIGITS: Final = 16  # hexadecimal


class State(StrEnum):
    """The state of a window, an hour or a topic; the worst is last. Only a topic can be empty:
    without faults, and without events in the requested period."""

    EMPTY = "empty"
    COMPLETE = "complete"
    PENDING = "pending"
    UNKNOWN = "unknown"
    MISSING = "missing"
    DUPLICATED = "duplicated"
    CHANGED = "changed"

    @property
    def severity(self) -> int:
        """The rank of the state; 0 for complete."""
        return _SEVERITIES[self]

    @property
    def is_fault(self) -> bool:
        """Whether the state needs attention."""
        return self.severity >= State.UNKNOWN.severity


_SEVERITIES: Final = {state: number for number, state in enumerate(State, start=-1)}


class FaultKind(StrEnum):
    """The kinds of faults."""

    LOST = "lost"  # gone before it was read
    MISSING = "missing"  # at a tier, although an earlier one has it
    DUPLICATED = "duplicated"
    CHANGED = "changed"
    UNPROVEN = "unproven"  # an entry of the ledger is missing
    UNNAMED = "unnamed"  # sums differ, by unknown events
    UNKNOWN = "unknown"  # not watched: what was there is neither proven nor missing

    @property
    def state(self) -> State:
        return _STATE_OF.get(self, State.MISSING)


_STATE_OF: Final = {
    FaultKind.DUPLICATED: State.DUPLICATED,
    FaultKind.CHANGED: State.CHANGED,
    FaultKind.UNKNOWN: State.UNKNOWN,
}
WORST_FIRST: Final = sorted(FaultKind, key=lambda kind: -kind.state.severity)


class CommandKind(StrEnum):
    """The effect of a command beside a fault."""

    MENDS = "mends"
    ACCEPTS = "accepts"  # a loss stays a loss, and counts as known
    LOOKS = "looks"  # inspects


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, with everything known that identifies it. Unknown fields are -1 or empty."""

    id: str = ""
    kind: FaultKind
    topic: str = ""
    words: str = ""  # in one sentence, for a person
    reason: str = ""  # as far as reported
    tier: str = ""  # at which it shows
    destination: str = ""
    host: str = ""
    agent: str = ""
    path: str = ""  # of the log file, or of the faulty landed file
    source: str = ""
    seq: int = -1
    events: int = -1
    position: int = -1
    end_position: int = -1
    partition: int = -1
    offset: int = -1
    offsets: int = -1  # how many
    from_time: int = -1  # of the windows that it may be about
    to_time: int = -1
    command: str = ""  # empty: the runbook says what to do
    command_kind: CommandKind | None = None  # None without a command
    unseen_end: bool = False  # of a file whose bytes were lost: more may have followed
    accepted: str = ""  # why a person accepted it
    harmless: str = ""  # why nothing has to be accepted

    @property
    def is_open(self) -> bool:
        """Whether the fault is neither accepted nor harmless."""
        return not self.accepted and not self.harmless

    @property
    def bytes(self) -> int:
        """The number of lost bytes; -1 if unknown, or if nothing was lost."""
        is_known = self.kind is FaultKind.LOST and 0 <= self.position < self.end_position
        return self.end_position - self.position if is_known else -1

    @property
    def is_landed_file(self) -> bool:
        """Whether the finding is about a whole landed file, not about events in it."""
        return bool(self.path) and not self.source and self.tier == TierKind.HDFS

    @property
    def landed_file(self) -> str:
        """The path of the landed file, with its root; empty for other findings."""
        return f"{self.destination.rstrip('/')}/{self.path}" if self.is_landed_file else ""

    @property
    def count(self) -> int:
        """The number of events; the number of offsets if only that is known."""
        return self.events if self.events >= 0 else self.offsets


class InFile(Protocol):
    """The fields that identify a log file."""

    @property
    def host(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def source(self) -> str: ...


def of_file(kind: FaultKind, tier: Tier, file: InFile, **known: int) -> Finding:
    """Makes a finding about events or bytes of a log file, at a tier."""
    finding = Finding(
        kind=kind,
        tier=tier.kind.value,
        destination=tier.destination,
        host=file.host,
        agent=file.agent,
        path=file.path,
        source=file.source,
    )
    return replace(finding, **known)


def identified(finding: Finding, key: TopicKey) -> Finding:
    """Returns the finding with its id, which depends on the topic."""
    is_placed = finding.seq >= 0 or finding.offset >= 0
    identity = (
        key.cluster,
        key.topic_id or key.topic,
        finding.kind.value,
        finding.tier,
        finding.destination,
        finding.source or (finding.host, finding.path),
        finding.seq,
        finding.position,
        finding.partition,
        finding.offset,
        -1 if is_placed else finding.from_time,
    )
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return replace(finding, id=digest[:_ID_DIGITS], topic=key.topic)


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of findings of a kind, and of their events. `uncounted` is the number of findings
    with an unknown number of events, which lost `bytes`."""

    kind: FaultKind
    findings: int = 0
    events: int = 0
    uncounted: int = 0
    bytes: int = 0


Kinds = tuple[KindCount, ...]


def counted(findings: Iterable[Finding]) -> Kinds:
    """Counts findings by kind, the worst kind first."""
    return summed(map(_one, findings))


def summed(counts: Iterable[KindCount]) -> Kinds:
    """Adds up counts by kind, the worst kind first."""
    by_kind: dict[FaultKind, KindCount] = {}
    for count in counts:
        count_before = by_kind.get(count.kind)
        by_kind[count.kind] = count if count_before is None else _both(count_before, count)
    return tuple(by_kind[kind] for kind in WORST_FIRST if kind in by_kind)


def _one(finding: Finding) -> KindCount:
    events = finding.count
    if finding.kind is FaultKind.UNKNOWN or events < 0:
        lost_bytes = max(finding.bytes, 0)
        return KindCount(kind=finding.kind, findings=1, uncounted=1, bytes=lost_bytes)
    return KindCount(kind=finding.kind, findings=1, events=events)


def _both(first: KindCount, second: KindCount) -> KindCount:
    return KindCount(
        kind=first.kind,
        findings=first.findings + second.findings,
        events=first.events + second.events,
        uncounted=first.uncounted + second.uncounted,
        bytes=first.bytes + second.bytes,
    )


def worst(states: Iterable[State]) -> State:
    return max(states, key=lambda state: state.severity, default=State.COMPLETE)


def or_empty(state: State, events: int) -> State:
    """Returns the state of a topic with this number of events: `empty` for a complete topic without
    events."""
    return State.EMPTY if state is State.COMPLETE and events == 0 else state


def worst_first(states: Iterable[State]) -> list[State]:
    """Returns the distinct states, the worst first."""
    return sorted(set(states), key=lambda state: -state.severity)
