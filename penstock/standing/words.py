"""How a `Standing` is put into words, for whoever shows it. Pure.

What came from outside is made printable here. Colours are terminals' names, and never the only
sign.
"""

import math
from typing import Final, NamedTuple

from audit.verdicts import State
from penstock.output import one_line
from penstock.report_words import MARKS, MEANINGS
from penstock.standing.values import LoadStanding, Standing

UNKNOWN: Final = "-"
COLOURS: Final = {
    State.COMPLETE: "green",
    State.PENDING: "yellow",
    State.MISSING: "red",
    State.DUPLICATED: "magenta",
    State.CHANGED: "red",
}
FAULTY: Final = frozenset({State.MISSING, State.DUPLICATED, State.CHANGED})

_MOST: Final = 2**63 - 1  # whoever answers may say any number
_LONG_MILLIS: Final = 300_000
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Words(NamedTuple):
    """A sentence with a sign in front of it."""

    mark: str
    colour: str
    text: str


def verdict_words(standing: Standing) -> Words:
    """In one line: whether everything has arrived."""
    if not standing.verdict:
        if standing.alerts < 0:  # the audit has not answered
            return Words("?", "yellow", "unknown: no audit answers")
        return Words("·", "", "nothing to judge yet")
    state = State(standing.verdict)
    words = {
        State.COMPLETE: _complete(standing),
        State.PENDING: _so_far(standing),
        State.MISSING: f"{_events(sum(each.missing for each in standing.topics))} not arrived",
        State.DUPLICATED: f"{_events(sum(each.excess for each in standing.topics))} arrived twice",
    }.get(state, MEANINGS[state])
    return Words(MARKS[state], COLOURS[state], f"{state.value}: {words}")


def _complete(standing: Standing) -> str:
    """A loader is accounted for once the ledger has heard of it."""
    if standing.last_load is None:
        return "every line has reached the brokers"
    return MEANINGS[State.COMPLETE]


def _so_far(standing: Standing) -> str:
    if standing.complete_until < 0:
        return MEANINGS[State.PENDING]
    ago = duration((standing.now - standing.complete_until) // 1000)
    return f"every line up to {ago} ago is accounted for"


def waiting_words(standing: Standing) -> list[str]:
    """What the topics wait for that have waited for long: the newest lines always do."""
    return [
        shown(f"{each.topic} waits: {each.waits}")
        for each in standing.topics
        if each.state != State.COMPLETE
        and each.waits
        and each.complete_until < standing.now - _LONG_MILLIS
    ]


def state_words(state: str) -> Words:
    """Of a topic."""
    if not state:
        return Words("", "", UNKNOWN)
    return Words(MARKS[State(state)], COLOURS[State(state)], state)


def load_words(load: LoadStanding | None, now: int) -> str:
    if load is None:
        return "nothing has been loaded yet"
    when = duration((now - load.time) // 1000)
    of = "1 topic" if load.topics == 1 else f"{load.topics:,} topics"
    left = f", {load.lag:,} not landed yet" if load.lag > 0 else ""
    return f"last load {when} ago: {load.rows:,} rows of {of}{left}"


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


def _events(number: int) -> str:
    if number <= 0:
        return "some events have"
    return "1 event has" if number == 1 else f"{number:,} events have"
