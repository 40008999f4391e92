"""The number of dead letters, and where they are. Pure.

Lines that an agent rejects are in the topic `TOPIC.dead`. Events that a loader cannot decode are in
`_dead/TOPIC` below its root. Each root has its own copy of these, so of several roots the one with
the most counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

from audit.reconciling.picture import TopicKey
from audit.reconciling.topic_verdict import WindowVerdict
from audit.reconciling.words import count

_MOST_PLACES: Final = 3  # named in a sentence


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one or several topics."""

    lines: int = 0  # that agents rejected
    events: int = 0  # that loaders could not decode

    @classmethod
    def of(cls, windows: Iterable[WindowVerdict], *, is_copy: bool) -> Self:
        """Adds up windows of a topic. The lines of a copy count at its origin."""
        lines = events = 0
        for window in windows:
            undecoded_events = max((sums.dead for sums in window.sums), default=0)
            events += undecoded_events
            lines += 0 if is_copy else window.dead - undecoded_events
        return cls(lines=lines, events=events)

    @property
    def total(self) -> int:
        return self.lines + self.events


def topic_of_dead(topic: str) -> str:
    """Returns the dead-letter topic of the lines that agents rejected."""
    return f"{topic}.dead"


def table_of_dead(topic: str, root: str = "") -> str:
    """Returns the dead-letter folder of the events that a loader could not decode."""
    folder = f"_dead/{topic}"
    return f"{root.rstrip('/')}/{folder}" if root else folder


def placed_words(number: int, place: str) -> str:
    return f"{count(number, 'dead letter')} in {place}"


def dead_words(dead: Mapping[TopicKey, DeadLetters]) -> str:
    """Counts the dead letters of these topics: `300 dead letters (in _dead/orders)`; empty if there
    are none."""
    total = sum(letters.total for letters in dead.values())
    places: list[str] = []
    for key, letters in dead.items():
        places += [topic_of_dead(key.topic)] if letters.lines else []
        places += [table_of_dead(key.topic)] if letters.events else []
    places = list(dict.fromkeys(places))
    if not total:
        return ""
    location = " and ".join(places) if len(places) <= _MOST_PLACES else f"{len(places):,} places"
    return f"{count(total, 'dead letter')} (in {location})"
