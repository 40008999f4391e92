"""The verdict in one sentence: the fault, its topic, hosts, number of events, and time. Pure.

The page, `penstock status`, `penstock report` and the screen of `penstock up` begin with it. Times
are marked as UTC. Names from outside are not made printable here.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.reconciling.dead_letters import DeadLetters, dead_words
from audit.reconciling.findings import (
    WORST_FIRST,
    FaultKind,
    Finding,
    KindCount,
    Kinds,
    State,
    counted,
    summed,
)
from audit.reconciling.picture import TierKind, TopicKey
from audit.reconciling.words import accepted_kinds, between, count, moment, number, of_kinds

MARKS: Final = {
    State.EMPTY: "·",
    State.COMPLETE: "✓",
    State.PENDING: "…",
    State.UNKNOWN: "?",
    State.MISSING: "✗",
    State.DUPLICATED: "⧉",
    State.CHANGED: "≠",
}
NOT_LOADED: Final = "!"
MEANINGS: Final = {
    State.EMPTY: "no events in this time",
    State.COMPLETE: "every line is accounted for",
    State.PENDING: "nothing is known to be wrong; some lines are still on their way",
    State.UNKNOWN: "nothing is known to be missing, and something cannot be proven",
    State.MISSING: "not all events have arrived",
    State.DUPLICATED: "some events are there more than once",
    State.CHANGED: "some events are not what was written",
}
NEWER: Final = "newer lines are on their way"
MOST_SHOWN: Final = 3  # findings below the sentence
_LABELS: Final = {
    FaultKind.UNPROVEN: "not proven",
    FaultKind.UNNAMED: "missing",
    FaultKind.UNKNOWN: "possible loss",
}
_PLACES: Final = {
    TierKind.ORIGIN.value: " at the brokers of the origin",
    TierKind.BROKER.value: " at the brokers",
    TierKind.HDFS.value: " in the files",
}
_PLACED: Final = frozenset({FaultKind.MISSING, FaultKind.DUPLICATED, FaultKind.UNNAMED})
_MINUTE: Final = 60_000
_DAY: Final = len("2026-11-20")


class Unreported(StrEnum):
    """Reasons why lines have not been reported by any program."""

    UNWRITABLE = "a broker cannot write to its disk"
    SILENT = "an agent is silent"
    UNREAD = "an agent does not read all of its inputs"


class JudgedTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about all topics in a period, for a headline. `calm` replaces the sentence about
    a state without a fault. Every line before `complete_until` is accounted for; -1: all lines of
    the period; 0: unknown.

    A verdict is `settled` if that moment is recent and nothing holds up newer lines: then the
    headline has the mark of a complete one."""

    state: State
    findings: Sequence[TopicFinding] = ()  # open; may be only some of them
    kinds: Mapping[TopicKey, Kinds] = {}  # of all findings
    failing_loads: Sequence[FailingLoad] = ()
    events: int = -1  # arrived
    waits: bool = False  # a topic is waiting for something
    calm: str = ""
    unreported: Unreported | None = None
    loaded: bool = True  # there is a loader; otherwise lines are accounted for at the brokers
    complete_until: int = -1
    settled: bool = False
    held_up: bool = False  # a program hangs that newer lines need: they are not on their way
    today: int = -1  # a time on the day whose date is left out; -1: dates are always shown
    accepted: Kinds = ()  # what persons accepted
    dead: Mapping[TopicKey, DeadLetters] = {}  # in no table, though accounted for

    @property
    def all_kinds(self) -> Kinds:
        return summed(counts for kinds in self.kinds.values() for counts in kinds)


def headline(judged: JudgedTopics) -> Headline:
    """Makes the headline: about a fault if there is one, else about tables that cannot be loaded,
    else about the state."""
    state = judged.state
    kinds = judged.all_kinds
    total = sum(counts.findings for counts in kinds) or len(judged.findings)
    if state.is_fault:
        ranked_findings = worst_findings(judged.findings)
        if ranked_findings:
            group = _group_of(ranked_findings[0], judged)
            title = _fault(*group)
            details = _beside(judged, kinds, total, is_all=group.counts.findings >= total)
        else:
            title, details = f"{state.value}: {of_kinds(kinds) or MEANINGS[state]}", ""
        return Headline(
            state=state,
            mark=MARKS[state],
            title=title,
            more=details,
            badge=f"{MARKS[state]} {total}" if total else MARKS[state],
            worst=ranked_findings[:MOST_SHOWN],
            complete_until=judged.complete_until,
        )
    if judged.failing_loads:
        tables = tables_of(judged.failing_loads)
        return Headline(
            state=state,
            mark=NOT_LOADED,
            title=f"not loaded: {_unloaded(judged.failing_loads[0])}",
            more=f"in all, {tables_words(tables)}" if tables > 1 else "",
            badge=f"{NOT_LOADED} {tables}",
            complete_until=judged.complete_until,
        )
    has_moment = not judged.calm and state is not State.EMPTY and judged.complete_until >= 0
    is_settled = has_moment and judged.settled and judged.complete_until > 0
    are_newer = state is State.PENDING and judged.complete_until > 0 and not judged.held_up
    if has_moment and not is_settled:
        state = State.PENDING
    words = _words(judged) if has_moment else judged.calm or MEANINGS[state]
    accepted = judged.accepted if state is not State.EMPTY else ()
    exceptions = [accepted_kinds(accepted)] if accepted else []
    exceptions += filter(None, [dead_words(judged.dead)])
    if exceptions:
        words = f"{words}, except for {', and '.join(exceptions)}"
    if judged.unreported:
        words = f"{judged.unreported.value}; {words}"
    mark = MARKS[State.COMPLETE if is_settled else state]
    return Headline(
        state=state,
        mark=mark,
        title=words if is_settled else f"{state.value}: {words}",
        more=NEWER if has_moment and are_newer else "",
        badge=mark,
        complete_until=judged.complete_until,
    )


def _words(judged: JudgedTopics) -> str:
    """The sentence about a time that is not over: true up to a moment, which it names."""
    if judged.complete_until <= 0:
        return MEANINGS[State.PENDING]
    progress = "is accounted for" if judged.loaded else "has reached the brokers"
    subject = "every line read" if judged.unreported is Unreported.UNREAD else "every line"
    return f"{subject} up to {minute(judged.complete_until, judged.today)} UTC {progress}"


def minute(time: int, today: int) -> str:
    """Formats a time as `21:14` if it is on the day of `today`, else as `2026-11-20 21:14`, with
    the seconds unless they are 0."""
    text = moment(time).removesuffix(":00")
    day = moment(today)[:_DAY] if today >= 0 else ""
    return text.removeprefix(f"{day} ") if day else text


def worst_findings(findings: Iterable[TopicFinding]) -> list[TopicFinding]:
    """Sorts findings: certain before unknown, many events before few, old before new."""
    return sorted(
        findings,
        key=lambda placed: (
            WORST_FIRST.index(placed.finding.kind),
            -placed.finding.count,
            placed.finding.from_time,
        ),
    )


def tables_of(loads: Iterable[FailingLoad]) -> int:
    return len({(load.cluster, load.topic) for load in loads})


def tables_words(tables: int) -> str:
    return "1 table cannot be loaded" if tables == 1 else f"{tables:,} tables cannot be loaded"


class _FindingGroup(NamedTuple):
    """The known findings of one kind and topic, and the counts of all of them."""

    placed: Sequence[TopicFinding]
    counts: KindCount


def _key(placed: TopicFinding) -> TopicKey:
    return TopicKey(placed.cluster, placed.topic, placed.topic_id)


def _group_of(worst: TopicFinding, judged: JudgedTopics) -> _FindingGroup:
    """Findings like the worst one. Of an hour that is not judged yet the numbers may be missing."""
    kind, key = worst.finding.kind, _key(worst)
    findings = [row for row in judged.findings if (row.finding.kind, _key(row)) == (kind, key)]
    counts = [
        *counted(row.finding for row in findings),
        *(counts for counts in judged.kinds.get(key, ()) if counts.kind is kind),
    ]
    return _FindingGroup(findings, max(counts, key=lambda counts: counts.findings))


def _fault(group: Sequence[TopicFinding], counts: KindCount) -> str:
    """`missing at the brokers: 12 events of clicks, host web-3, 2026-11-20 07:12:00 to …`: the
    numbers are those of all findings of one kind and topic."""
    findings = [topic_finding.finding for topic_finding in group]
    kind, words = counts.kind, group[0].topic
    label = _LABELS.get(kind, kind.value)
    tiers = {finding.tier for finding in findings}
    place = _PLACES.get(findings[0].tier, "") if kind in _PLACED and len(tiers) == 1 else ""
    events = sum(max(finding.events, 0) for finding in findings)
    if kind is not FaultKind.UNKNOWN and counts.events > 0:
        unit = "line" if kind is FaultKind.LOST else "event"
        at_least = "at least " if counts.uncounted else ""
        words = f"{at_least}{count(counts.events, unit)} of {words}"
    elif counts.bytes:
        words = f"{count(counts.bytes, 'byte')} of {words}"
    elif kind is FaultKind.UNKNOWN and events:
        words = f"{words}, {count(events, 'event')}"
    return f"{label}{place}: {words}{_spread(findings, counts)}{_hosts(findings)}{_when(findings)}"


def _spread(findings: Sequence[Finding], counts: KindCount) -> str:
    """` in 2 files`; empty for one finding."""
    if counts.findings < 2:
        return ""
    are_files = all(finding.is_landed_file for finding in findings)
    unit = "stretches" if counts.kind is FaultKind.UNKNOWN else "files" if are_files else "findings"
    return f" in {number(counts.findings)} {unit}"


def _hosts(findings: Sequence[Finding]) -> str:
    hosts = sorted({finding.host for finding in findings if finding.host})
    if len(hosts) > MOST_SHOWN:
        return f", {len(hosts):,} hosts"
    return f", host{'s' if len(hosts) > 1 else ''} {' and '.join(hosts)}" if hosts else ""


def _when(findings: Sequence[Finding]) -> str:
    """The time that the faults may be about, and its length."""
    dated_findings = [finding for finding in findings if finding.from_time >= 0]
    if not dated_findings:
        return ""
    from_time = min(finding.from_time for finding in dated_findings)
    to_time = max(finding.to_time for finding in dated_findings)
    if to_time <= from_time:
        return f", {moment(from_time)} UTC"
    return f", {between(from_time, to_time)} UTC ({length_words(to_time - from_time)})"


def _unloaded(load: FailingLoad) -> str:
    return f"{load.topic} into {load.destination}, since {moment(load.since)} UTC"


def _beside(judged: JudgedTopics, kinds: Kinds, total: int, *, is_all: bool) -> str:
    """The words below the title: the totals of several findings unless it has them, and for an
    unknown state what is known nevertheless."""
    parts = [] if is_all or not kinds else [f"in all, {of_kinds(kinds)}"]
    if judged.state is State.UNKNOWN:
        parts.insert(0, _arrived(judged))
        parts += [topic_finding.finding.reason for topic_finding in judged.findings if total == 1]
    elif judged.failing_loads:
        parts.append(tables_words(tables_of(judged.failing_loads)))
    return "; ".join(filter(None, parts))


def _arrived(judged: JudgedTopics) -> str:
    if judged.failing_loads:
        tables = tables_words(tables_of(judged.failing_loads))
        return f"nothing is known to be missing, and {tables}"
    if judged.waits:
        return "nothing is known to be missing; the newest lines are still on their way"
    if judged.events < 0:
        return "nothing is known to be missing"
    return {0: "no events are known", 1: "1 event arrived"}.get(
        judged.events, f"all {judged.events:,} events arrived"
    )


def length_words(millis: int) -> str:
    """Formats a duration: `44 s`, `2 min 8 s`, `3 h 5 min`."""
    if millis < 1000:
        return f"{millis} ms"
    seconds = round(millis / 1000)
    if millis < _MINUTE:
        return f"{seconds} s"
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours:,} h {rest // 60} min" if rest // 60 else f"{hours:,} h"
    return f"{rest // 60} min {rest % 60} s" if rest % 60 else f"{rest // 60} min"
