"""What is wrong, each kind by itself, and what is known where something cannot be proven. Pure.

`penstock report`, `penstock status` and the demonstration say it with these words. Each sentence is
true by itself: that something cannot be proven is no loss, and what is still to come is no proof.
What comes from outside is not made printable here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from audit.answers import TopicReport
from audit.findings import FaultKind, Finding, KindCount, Kinds, State, summed
from penstock.cli.time_arguments import time_text

MARKS: Final = {
    State.EMPTY: "·",
    State.COMPLETE: "✓",
    State.PENDING: "…",
    State.UNKNOWN: "?",
    State.MISSING: "✗",
    State.DUPLICATED: "⧉",
    State.CHANGED: "≠",
}
_MINUTE_MILLIS: Final = 60_000
# With `{}` for how many: of one, and of several.
_WORDS: Final = {
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
        "{} event has not arrived, and nobody knows which",
        "{} events have not arrived, and nobody knows which",
    ),
    FaultKind.UNKNOWN: ("{} stretch cannot be proven", "{} stretches cannot be proven"),
}


def kind_words(kinds: Kinds) -> str:
    """Each kind with its number, the worst first; empty if nothing is wrong."""
    return "; ".join(_kind(each) for each in kinds if each.findings)


def _kind(count: KindCount) -> str:
    one, several = _WORDS[count.kind]
    if count.kind is FaultKind.UNKNOWN:
        return (one if count.findings == 1 else several).format(f"{count.findings:,}")
    if not count.events:
        return several.format("some")
    number = f"at least {count.events:,}" if count.uncounted else f"{count.events:,}"
    return (one if count.events == 1 else several).format(number)


def faults_of(kinds: Kinds, state: State) -> list[State]:
    """The states to be shown side by side, the worst first: what is wrong, or else the state."""
    found = list(dict.fromkeys(each.kind.state for each in kinds))
    return found if found and found[0] is state else [state, *(s for s in found if s is not state)]


def marked(states: Sequence[State]) -> str:
    """`changed, ✗ missing`: without the mark of the first, which stands before it."""
    first, *others = states
    return ", ".join((first.value, *(f"{MARKS[each]} {each.value}" for each in others)))


def known_words(topics: Sequence[TopicReport]) -> str:
    """What is known of topics of which nothing is wrong, but some cannot be proven."""
    return f"{_arrived(topics)}; {unproven_words(topics)}"


def _arrived(topics: Sequence[TopicReport]) -> str:
    failing = {(each.cluster, each.topic) for each in topics if each.failing_loads}
    if failing:
        tables = "1 table" if len(failing) == 1 else f"{len(failing):,} tables"
        return f"nothing is known to be missing, and {tables} cannot be loaded"
    if any(each.pending or each.waits or each.state is State.PENDING for each in topics):
        return "nothing is known to be missing, and not everything is there yet"
    events = sum(each.tiers[-1].events for each in topics if each.tiers)
    return {0: "no events are known", 1: "1 event arrived"}.get(
        events, f"all {events:,} events arrived"
    )


def unproven_words(topics: Sequence[TopicReport]) -> str:
    """`1 stretch of 3 s cannot be proven: clicks, web-3, 2026-11-20 07:02:11 to 07:02:14, why`."""
    known = list(_unproven(topics))
    total = max(
        len(known),
        sum(
            count.findings
            for count in summed(count for each in topics for count in each.kinds)
            if count.kind is FaultKind.UNKNOWN
        ),
    )
    stretches = "1 stretch" if total == 1 else f"{total:,} stretches"
    lengths = [one.to_time - one.from_time for _, one in known if 0 <= one.from_time < one.to_time]
    if lengths and len(lengths) == total:
        stretches += f" of {_length(sum(lengths))}" + (" in all" if total > 1 else "")
    if not known:
        return f"{stretches} cannot be proven"
    first = ", ".join(_place(*known[0]))
    return f"{stretches} cannot be proven{', the first' if total > 1 else ''}: {first}"


def _unproven(topics: Iterable[TopicReport]) -> Iterator[tuple[TopicReport, Finding]]:
    for topic in topics:
        for one in topic.findings:
            if one.kind is FaultKind.UNKNOWN and not one.accepted:
                yield topic, one


def _place(topic: TopicReport, one: Finding) -> Iterator[str]:
    yield topic.topic
    if one.host and one.reason:  # its words have the host in them
        yield one.host
    if 0 <= one.from_time <= one.to_time:
        begin, end = time_text(_second(one.from_time)), time_text(_second(one.to_time))
        same_day = end.removeprefix(begin[: len("2026-11-20 ")])
        yield begin if begin == end else f"{begin} to {same_day}"
    yield one.reason or one.words


def _second(millis: int) -> int:
    return millis // 1000 * 1000


def _length(millis: int) -> str:
    if millis < 1000:
        return f"{millis} ms"
    seconds = round(millis / 1000)
    if millis < _MINUTE_MILLIS:
        return f"{seconds} s"
    hours, rest = divmod(seconds, 3600)
    return f"{hours:,} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
