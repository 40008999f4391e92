"""The verdict in one sentence: the fault, its topic, host, number of events, and time. Pure.

The page, `penstock status`, `penstock report` and the screen of `penstock up` begin with it. Times
are marked as UTC. Names from outside are not made printable here.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.reconciling.findings import WORST_FIRST, FaultKind, Finding, KindCount, Kinds, State
from audit.reconciling.picture import TierKind
from audit.reconciling.words import between, count, moment

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
EXCEPT_ACCEPTED: Final = "except for possible loss that is accepted"
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
# Singular and plural; `{}` is the number.
_KINDS: Final = {
    FaultKind.CHANGED: ("{} event is not what was written", "{} events are not what was written"),
    FaultKind.DUPLICATED: ("{} event arrived more than once", "{} events arrived more than once"),
    FaultKind.LOST: (
        "{} line was gone before it was read",
        "{} lines were gone before they were read",
    ),
    FaultKind.MISSING: ("{} event has not arrived", "{} events have not arrived"),
    FaultKind.UNPROVEN: (
        "{} event is not proven to have arrived",
        "{} events are not proven to have arrived",
    ),
    FaultKind.UNNAMED: (
        "{} unidentified event has not arrived",
        "{} unidentified events have not arrived",
    ),
    FaultKind.UNKNOWN: ("{} stretch cannot be proven", "{} stretches cannot be proven"),
}


class JudgedTopics(msgspec.Struct, frozen=True, kw_only=True):
    """All topics over some time, for a headline. `calm` replaces the sentence about a state without
    a fault. Every line before `complete_until` is accounted for; -1: all lines of this time; 0:
    unknown.

    A verdict is `settled` if that moment is recent and nothing holds up newer lines: then the
    headline has the mark of a complete one."""

    state: State
    findings: Sequence[TopicFinding] = ()  # unaccepted; may be only some of them
    kinds: Kinds = ()  # of all findings
    failing_loads: Sequence[FailingLoad] = ()
    events: int = -1  # arrived
    waits: bool = False  # a topic is waiting for something
    calm: str = ""
    silent: bool = False  # an agent is
    loaded: bool = True  # there is a loader; otherwise lines are accounted for at the brokers
    complete_until: int = -1
    settled: bool = False
    held_up: bool = False  # a program hangs that newer lines need: they are not on their way
    today: int = -1  # a time on the day whose date is left out; -1: dates are always shown
    accepted_unknown: bool = False  # possible loss was accepted


def headline(judged: JudgedTopics) -> Headline:
    """Makes the headline: of a fault, else of tables that cannot be loaded, else of the state."""
    state = judged.state
    total = sum(count.findings for count in judged.kinds) or len(judged.findings)
    if state.is_fault:
        first = worst_findings(judged.findings)
        if first:
            title = _fault(first[0])
            more = _beside(judged, total)
        else:
            title, more = f"{state.value}: {kind_words(judged.kinds) or MEANINGS[state]}", ""
        return Headline(
            state=state,
            mark=MARKS[state],
            title=title,
            more=more,
            badge=f"{MARKS[state]} {total}" if total else MARKS[state],
            worst=first[:MOST_SHOWN],
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
    if judged.accepted_unknown and state is not State.EMPTY:
        words = f"{words}, {EXCEPT_ACCEPTED}"
    if judged.silent:
        words = f"an agent is silent; {words}"
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
    fate = "is accounted for" if judged.loaded else "has reached the brokers"
    return f"every line up to {minute(judged.complete_until, judged.today)} UTC {fate}"


def minute(time: int, today: int) -> str:
    """`21:14` on the same day, else `2026-11-20 21:14`; with the second if that is not 0."""
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


def _fault(placed: TopicFinding) -> str:
    """`missing at the brokers: 12 events of clicks, host web-3, 2026-11-20 07:12:00 to …`"""
    finding = placed.finding
    label = _LABELS.get(finding.kind, finding.kind.value)
    where = _PLACES.get(finding.tier, "") if finding.kind in _PLACED else ""
    what = placed.topic
    if finding.kind is not FaultKind.UNKNOWN and finding.count > 0:
        unit = "line" if finding.kind is FaultKind.LOST else "event"
        what = f"{count(finding.count, unit)} of {what}"
    elif finding.kind is FaultKind.UNKNOWN and finding.events > 0:
        what = f"{what}, {count(finding.events, 'event')}"
    host = f", host {finding.host}" if finding.host else ""
    return f"{label}{where}: {what}{host}{_when(finding)}"


def _when(finding: Finding) -> str:
    """The time that the fault may be about, and its length."""
    if finding.from_time < 0:
        return ""
    if finding.to_time <= finding.from_time:
        return f", {moment(finding.from_time)} UTC"
    length = length_words(finding.to_time - finding.from_time)
    return f", {between(finding.from_time, finding.to_time)} UTC ({length})"


def _unloaded(load: FailingLoad) -> str:
    return f"{load.topic} into {load.destination}, since {moment(load.since)} UTC"


def _beside(judged: JudgedTopics, total: int) -> str:
    """The words below the title: the totals of several findings, and for an unknown state what is
    known nevertheless."""
    parts = [f"in all, {kind_words(judged.kinds)}"] if total > 1 and judged.kinds else []
    if judged.state is State.UNKNOWN:
        parts.insert(0, _arrived(judged))
        parts += [placed.finding.reason for placed in judged.findings if total == 1]
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


def kind_words(kinds: Kinds) -> str:
    """The kinds with their numbers, the worst first; empty without findings."""
    return "; ".join(_kind(counted) for counted in kinds if counted.findings)


def _kind(counted: KindCount) -> str:
    singular, plural = _KINDS[counted.kind]
    if counted.kind is FaultKind.UNKNOWN:
        return (singular if counted.findings == 1 else plural).format(f"{counted.findings:,}")
    if not counted.events:
        return plural.format("some")
    number = f"at least {counted.events:,}" if counted.uncounted else f"{counted.events:,}"
    return (singular if counted.events == 1 else plural).format(number)


def length_words(millis: int) -> str:
    """`44 s`, `2 min 8 s`, `3 h 5 min`"""
    if millis < 1000:
        return f"{millis} ms"
    seconds = round(millis / 1000)
    if millis < _MINUTE:
        return f"{seconds} s"
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours:,} h {rest // 60} min" if rest // 60 else f"{hours:,} h"
    return f"{rest // 60} min {rest % 60} s" if rest % 60 else f"{rest // 60} min"
