"""How a `PipelineStatus` is put into words, for whoever shows it. Pure.

What came from outside is made printable here. Colours are terminals' names, and never the only
sign.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from audit.cures.fault_cures import Cure, advice
from audit.headline import MARKS, MEANINGS, kind_words, tables_words
from audit.reconciling.findings import State, summed
from ground.printable import one_line
from penstock.report.remarks import altered_words
from penstock.report.words import faults_of, marked
from penstock.status.values import AlertStanding, LoadStanding, PipelineStatus, TopicStanding

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

_MOST: Final = 2**63 - 1  # whoever answers may say any number
_LONG_MILLIS: Final = 300_000
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Words(NamedTuple):
    """A sentence with a sign in front of it."""

    mark: str
    colour: str
    text: str


NOT_LOADED: Final = Words("!", "red", "not loaded")


def verdict_words(standing: PipelineStatus) -> Words:
    """In one line: whether everything has arrived."""
    if not standing.verdict:
        if standing.alerts < 0:  # the audit has not answered
            return Words("?", "yellow", "unknown: no audit answers")
        return Words("·", "", "nothing to judge yet")
    state = State(standing.verdict)
    if standing.failing_loads and state not in FAULTY:
        text = standing.headline or f"not loaded: {_cannot_be_loaded(standing)}"
        return NOT_LOADED._replace(text=shown(text, 400))
    altered = altered_words(standing.altered)
    text = f"{_sentence(standing, state)}{'; ' if altered else ''}{altered}"
    mark = standing.mark or MARKS[state]
    return Words(mark, COLOURS[State.COMPLETE if mark == MARKS[State.COMPLETE] else state], text)


def _sentence(standing: PipelineStatus, state: State) -> str:
    """The audit's, if it has one about this state."""
    if said := standing.headline if state in FAULTY else standing.calm:
        return shown(said, 400)
    kinds = summed(count for each in standing.topics for count in each.kinds)
    return f"{state.value}: {kind_words(kinds) or MEANINGS[state]}"


def _cannot_be_loaded(standing: PipelineStatus) -> str:
    if any(not each.topic for each in standing.failing_loads):
        return "no load begins"
    return tables_words(len({each.topic for each in standing.failing_loads}))


def failing_words(standing: PipelineStatus) -> list[Words]:
    """Each table that cannot be loaded: since when, why, and what to do."""
    found = []
    for each in standing.failing_loads:
        ago = duration((standing.now - each.since) // 1000)
        what = f"{each.topic} is not loaded" if each.topic else "no load begins"
        found.append(NOT_LOADED._replace(text=shown(f"{what}, for {ago}: {each.reason}", 400)))
        if each.cure:
            found.append(Words(" ", "", shown(f"what to do: {each.cure}", 400)))
    return found


def alert_words(alerts: Sequence[AlertStanding]) -> list[Words]:
    """What is raised since when, and what to do."""
    found = []
    for alert in alerts:
        words = f"{alert.kind}, raised {_moment(alert.raised)}: {alert.words}"
        found.append(Words("!", "yellow", shown(words, 400)))
        if alert.command:
            found.append(Words(" ", "", shown(advice(Cure.of(alert)), 1_000)))
    return found


def waiting_words(standing: PipelineStatus) -> list[str]:
    """What the topics wait for that have waited for long: the newest lines always do."""
    return [
        shown(f"{each.topic} waits: {each.waits}")
        for each in standing.topics
        if each.state not in {State.EMPTY, State.COMPLETE}
        and each.waits
        and each.complete_until < standing.now - _LONG_MILLIS
    ]


def topic_words(topic: TopicStanding) -> Words:
    """The verdict; that its table is not loaded matters more than that something is to come."""
    if topic.load_fails and topic.state not in FAULTY:
        return NOT_LOADED
    if not topic.state:
        return Words("", "", UNKNOWN)
    state = State(topic.state)
    return Words(MARKS[state], COLOURS[state], marked(faults_of(topic.kinds, state)))


def load_words(load: LoadStanding | None, now: int) -> str:
    if load is None:
        return "nothing has been loaded yet"
    when = duration((now - load.time) // 1000)
    of = "1 topic" if load.topics == 1 else f"{load.topics:,} topics"
    left = f", {load.lag:,} not landed yet" if load.lag > 0 else ""
    return f"last load {when} ago: {load.rows:,} rows of {of}{left}"


def silence_words(agent: str, host: str, heard: int, now: int) -> str:
    """Of an agent that has not been heard for too long, or of a host that never was."""
    if heard <= 0:
        return f"no agent of host {host} was ever heard, and the inventory names it"
    ago = duration((now - heard) // 1000)
    return f"agent {agent} on {host} is silent: last heard {ago} ago, at {_moment(heard)}"


def _moment(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):  # whoever answers may say any number
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
    """In whole units, as it is read at a glance: 5 s, 12 min, 3 h."""
    seconds = min(seconds, _MOST)
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def pause(seconds: float) -> str:
    """Until something is due: never nothing."""
    return duration(max(1, math.ceil(seconds)))


def shown(text: str, longest: int = 200) -> str:
    """What came from outside."""
    text = one_line(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
