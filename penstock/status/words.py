"""A `PipelineStatus` in words. Pure.

Text from outside is made printable here. Colours are those of terminals, and never the only sign.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from audit.cures.fault_cures import Cure, advice
from audit.headline import MARKS, MEANINGS, minute, tables_words
from audit.reconciling.findings import State, summed
from audit.reconciling.words import of_kinds, unsigned
from ground.printable import one_line
from penstock.report.remarks import altered_words
from penstock.report.words import faults_of, marked
from penstock.status.values import AlertStatus, LoadStatus, PipelineStatus, TopicStatus

UNKNOWN: Final = "-"
COLOURS: Final = {
    State.EMPTY: "",
    State.COMPLETE: "green",
    State.PENDING: "yellow",
    State.UNKNOWN: "cyan",
    State.MISSING: "red",
    State.DUPLICATED: "magenta",
    State.CHANGED: "red",
}
FAULTY: Final = frozenset(state for state in State if state.is_fault)

_MOST: Final = 2**63 - 1  # a server may answer any number
_LONG_WORD: Final = 40
_LONG_MILLIS: Final = 300_000
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Words(NamedTuple):
    """A sentence and the mark before it."""

    mark: str
    colour: str
    text: str


NOT_LOADED: Final = Words("!", "red", "not loaded")


def verdict_words(status: PipelineStatus) -> Words:
    """Says in one line whether every line has arrived."""
    if not status.verdict:
        if status.alerts < 0:  # the audit has not answered
            return Words("?", "yellow", "unknown: no audit answers")
        return Words("·", "", "nothing to judge yet")
    state = State(status.verdict)
    if status.failing_loads and state not in FAULTY:
        text = status.headline or f"not loaded: {_cannot_be_loaded(status)}"
        return NOT_LOADED._replace(text=shown(text, 400))
    altered_text = altered_words(status.altered)
    text = f"{_sentence(status, state)}{'; ' if altered_text else ''}{altered_text}"
    mark = status.mark or MARKS[state]
    return Words(mark, COLOURS[State.COMPLETE if mark == MARKS[State.COMPLETE] else state], text)


def _sentence(status: PipelineStatus, state: State) -> str:
    """The audit's headline, if it has one about this state, else the state with its meaning."""
    if headline := status.headline if state in FAULTY else status.calm:
        return shown(headline, 400)
    kinds = summed(count for topic in status.topics for count in topic.kinds)
    return f"{state.value}: {of_kinds(kinds) or MEANINGS[state]}"


def _cannot_be_loaded(status: PipelineStatus) -> str:
    if any(not failing_load.topic for failing_load in status.failing_loads):
        return "no load begins"
    return tables_words(len({failing_load.topic for failing_load in status.failing_loads}))


def failing_words(status: PipelineStatus) -> list[Words]:
    """Says for each table that cannot be loaded for how long, why, and what to do."""
    lines = []
    for failing_load in status.failing_loads:
        age = duration((status.now - failing_load.since) // 1000)
        subject = f"{failing_load.topic} is not loaded" if failing_load.topic else "no load begins"
        lines.append(
            NOT_LOADED._replace(text=shown(f"{subject}, for {age}: {failing_load.reason}", 400))
        )
        if failing_load.cure:
            lines.append(Words(" ", "", shown(f"what to do: {failing_load.cure}", 4_000)))
    return lines


def alert_words(alerts: Sequence[AlertStatus]) -> list[Words]:
    """Says for each raised alert when it was raised, why, and what to do."""
    lines = []
    for alert in alerts:
        words = f"{alert.kind}, raised {_moment(alert.raised)}: {alert.words}"
        lines.append(Words("!", "yellow", shown(words, 400)))
        if alert.command:
            lines.append(Words(" ", "", shown(advice(Cure.of(alert), alert.kind), 1_000)))
    return lines


def release_words(status: PipelineStatus) -> list[str]:
    """Lists the programs of each release; empty while all run the same release."""
    if len(status.releases) < 2:
        return []
    return [
        shown(f"{len(programs):,} with release {version}: {', '.join(programs)}")
        for version, programs in status.releases.items()
    ]


def unsigned_words(status: PipelineStatus) -> list[str]:
    """Says how many programs of each kind do not sign their statements."""
    return [
        unsigned(program, counts["unsigned"], sum(counts.values()))
        for program, counts in status.signatures.items()
        if counts.get("unsigned")
    ]


def waiting_words(status: PipelineStatus) -> list[str]:
    """Lists the topics that have waited for five minutes or longer, since the newest lines always
    wait for something."""
    return [
        shown(f"{topic.topic} waits: {topic.waits}")
        for topic in status.topics
        if topic.state not in {State.EMPTY, State.COMPLETE}
        and topic.waits
        and topic.complete_until < status.now - _LONG_MILLIS
    ]


def topic_words(topic: TopicStatus, now: int) -> Words:
    """Returns the verdict on a topic, or the moment up to which it is complete. A failing load
    outranks a pending state."""
    if topic.load_fails and topic.state not in FAULTY:
        return NOT_LOADED
    if not topic.state:
        return Words("", "", UNKNOWN)
    state = State(topic.state)
    text = marked(faults_of(topic.kinds, state))
    if state is State.COMPLETE and topic.complete_until > 0:
        text = f"up to {minute(topic.complete_until, now)}"
    return Words(MARKS[state], COLOURS[state], text)


def load_words(load: LoadStatus | None, now: int) -> str:
    if load is None:
        return "nothing has been loaded yet"
    age = duration((now - load.time) // 1000)
    topics = "1 topic" if load.topics == 1 else f"{load.topics:,} topics"
    lag = f", {load.lag:,} not landed yet" if load.lag > 0 else ""
    return f"last load {age} ago: {load.rows:,} rows of {topics}{lag}"


def silence_words(agent: str, host: str, heard: int, now: int) -> str:
    """Returns the text for a silent agent, or for an expected host that never reported."""
    if heard <= 0:
        return f"host {host} is in the inventory, and none of its agents was ever heard from"
    ago = duration((now - heard) // 1000)
    return f"agent {agent} on {host} is silent: last heard {ago} ago, at {_moment(heard)}"


def _moment(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):  # a server may answer any number
        return UNKNOWN


def count(number: int) -> str:
    return UNKNOWN if number < 0 else f"{min(number, _MOST):,}"


def rate(number: float) -> str:
    if number < 0:
        return UNKNOWN
    return f"{number:.1f}" if 0 < number < 9.95 else f"{number:,.0f}"


def size(number: int) -> str:
    if number < 0:
        return UNKNOWN
    value, step = float(min(number, _MOST)), 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    return f"{number} B" if step == 0 else f"{value:,.1f} {_UNITS[step]}"


def duration(seconds: float) -> str:
    """Formats a duration in whole units: 5 s, 12 min, 3 h."""
    seconds = min(seconds, _MOST)
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def pause(seconds: float) -> str:
    """Formats the time until something is due, which is at least one second."""
    return duration(max(1, math.ceil(seconds)))


def shown(text: str, longest: int = 200) -> str:
    """Returns text from outside as one printable line, shortened to `longest` characters, if
    possible between words."""
    text = one_line(text)
    if len(text) <= longest:
        return text
    head, _, rest = text[:longest].rpartition(" ")
    return f"{head if head and len(rest) < _LONG_WORD else text[: longest - 1]}…"
