"""The verdict in one sentence: what is wrong, with which topic, on which host, of how many events
and since when. Pure.

The page, `penstock status`, `penstock report` and the screen of `penstock up` all begin with this
sentence. Times are UTC, and say so. What comes from outside is not made printable here.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.findings import WORST_FIRST, FaultKind, Finding, KindCount, Kinds, State
from audit.picture import TierKind
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
# With `{}` for how many: of one, and of several.
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
    """What a headline is made of: the topics of some time together. `calm` replaces the meaning of
    a state without a fault. Every line before `complete_until` is accounted for; -1: not known.

    A pending verdict is `settled` if that moment is recent and nothing keeps newer lines from being
    accounted for, too: then the headline has the mark of a complete one."""

    state: State
    findings: Sequence[TopicFinding] = ()  # not accepted, as many as are known
    kinds: Kinds = ()  # all of them
    failing_loads: Sequence[FailingLoad] = ()
    events: int = -1  # that arrived
    waits: bool = False  # whether any topic waits for something
    calm: str = ""
    complete_until: int = -1
    settled: bool = False
    held_up: bool = False  # a program hangs that newer lines need: they are not on their way
    today: int = -1  # a moment of the day that times need not name; -1: they name theirs
    accepted_unknown: bool = False  # a time without an agent is accepted


def headline(judged: JudgedTopics) -> Headline:
    """A fault first, then tables that cannot be loaded, as waiting does not help there."""
    state = judged.state
    total = sum(each.findings for each in judged.kinds) or len(judged.findings)
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
        )
    if judged.failing_loads:
        tables = tables_of(judged.failing_loads)
        return Headline(
            state=state,
            mark=NOT_LOADED,
            title=f"not loaded: {_unloaded(judged.failing_loads[0])}",
            more=f"in all, {tables_words(tables)}" if tables > 1 else "",
            badge=f"{NOT_LOADED} {tables}",
        )
    is_known = state is State.PENDING and not judged.calm and judged.complete_until > 0
    if is_known:
        until = _minute(judged.complete_until, judged.today)
        words = f"every line up to {until} UTC is accounted for"
    else:
        words = judged.calm or MEANINGS[state]
    if judged.accepted_unknown and state is not State.EMPTY:
        words = f"{words}, {EXCEPT_ACCEPTED}"
    is_settled = is_known and judged.settled
    mark = MARKS[State.COMPLETE if is_settled else state]
    return Headline(
        state=state,
        mark=mark,
        title=words if is_settled else f"{state.value}: {words}",
        more=NEWER if is_known and not judged.held_up else "",
        badge=mark,
    )


def _minute(time: int, today: int) -> str:
    """`21:14` on the same day, else `2026-11-20 21:14`; with the second if that is not 0."""
    said = moment(time).removesuffix(":00")
    day = moment(today)[:_DAY] if today >= 0 else ""
    return said.removeprefix(f"{day} ") if day else said


def worst_findings(findings: Iterable[TopicFinding]) -> list[TopicFinding]:
    """What is certain comes before what is not known, many events before few, old before new."""
    return sorted(
        findings,
        key=lambda each: (
            WORST_FIRST.index(each.finding.kind),
            -each.finding.count,
            each.finding.from_time,
        ),
    )


def tables_of(loads: Iterable[FailingLoad]) -> int:
    return len({(each.cluster, each.topic) for each in loads})


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
    """From the first to the last moment that the fault may be about, and how long that is."""
    if finding.from_time < 0:
        return ""
    if finding.to_time <= finding.from_time:
        return f", {moment(finding.from_time)} UTC"
    length = length_words(finding.to_time - finding.from_time)
    return f", {between(finding.from_time, finding.to_time)} UTC ({length})"


def _unloaded(load: FailingLoad) -> str:
    return f"{load.topic} into {load.destination}, since {moment(load.since)} UTC"


def _beside(judged: JudgedTopics, total: int) -> str:
    """What is wrong in all, if that is more than one finding; of what cannot be proven, what is
    known nevertheless."""
    said = [f"in all, {kind_words(judged.kinds)}"] if total > 1 and judged.kinds else []
    if judged.state is State.UNKNOWN:
        said.insert(0, _arrived(judged))
        said += [each.finding.reason for each in judged.findings if total == 1]
    elif judged.failing_loads:
        said.append(tables_words(tables_of(judged.failing_loads)))
    return "; ".join(filter(None, said))


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
    """Each kind with its number, the worst first; empty if nothing is wrong."""
    return "; ".join(_kind(each) for each in kinds if each.findings)


def _kind(counted: KindCount) -> str:
    one, several = _KINDS[counted.kind]
    if counted.kind is FaultKind.UNKNOWN:
        return (one if counted.findings == 1 else several).format(f"{counted.findings:,}")
    if not counted.events:
        return several.format("some")
    number = f"at least {counted.events:,}" if counted.uncounted else f"{counted.events:,}"
    return (one if counted.events == 1 else several).format(number)


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
