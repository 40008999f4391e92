"""What was written of each topic, what every tier had of it, and where the two differ. Pure.

What was written is known from the applications' own tallies. Shipped is what the agent told the
ledger; stored, mirrored and landed were counted where the events are. All agree, or it is said in
words what does not.

Applications number their events 0, 1, 2 and so on. So it can be said of each, not only of their
count, whether it arrived, and whether once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from audit.api.answers import TopicReport
from audit.reconciling.findings import State
from penstock.demo.applications.writing import WrittenTally
from penstock.demo.kills import KILLED, Kill
from penstock.report.words import failing_words, headline_on, headline_words

NO_NUMBER: Final = -1  # of what arrived and has none
_MOST_SHOWN: Final = 3
_MOST_WORDS = 3  # of the audit's, of one kind


class Arrivals(NamedTuple):
    """What arrived, in whatever order."""

    events: int
    distinct: int
    twice: tuple[int, ...]  # numbers that arrived more than once, in ascending order
    missing: tuple[range, ...]  # numbers below `written` that did not, likewise
    unknown: tuple[int, ...]  # numbers that nobody has written

    @property
    def events_missing(self) -> int:
        return sum(map(len, self.missing))

    def faults(self, where: str) -> Iterator[str]:
        """What is not as it should be, in words. `where`: stored, mirrored, landed."""
        if self.missing:
            yield f"{_events(self.events_missing)} not {where}: {_ranges(self.missing)}"
        if self.twice:
            again = self.events - self.distinct
            numbers = _shown([f"{number:,}" for number in self.twice])
            yield f"{where} more than once: {_numbers(self.twice)} {numbers} ({again:,} too many)"
        if self.unknown:
            numbers = _shown([_number(number) for number in self.unknown])
            yield f"{where}, but never written: {numbers}"


def arrivals(numbers: Iterable[int], written: int) -> Arrivals:
    """Of events that were numbered from 0 up to, and without, `written`."""
    counted = Counter(numbers)
    return Arrivals(
        events=counted.total(),
        distinct=len(counted),
        twice=tuple(sorted(number for number, times in counted.items() if times > 1)),
        missing=tuple(_gaps(sorted(each for each in counted if 0 <= each < written), written)),
        unknown=tuple(sorted(each for each in counted if not 0 <= each < written)),
    )


def _gaps(there: list[int], end: int) -> Iterator[range]:
    due = 0
    for number in [*there, end]:
        if number > due:
            yield range(due, number)
        due = number + 1


def _events(count: int) -> str:
    return "1 event was" if count == 1 else f"{count:,} events were"


def _numbers(numbers: tuple[int, ...]) -> str:
    return "number" if len(numbers) == 1 else "numbers"


def _ranges(ranges: tuple[range, ...]) -> str:
    several = len(ranges) > 1 or len(ranges[0]) > 1
    shown = _shown(
        [f"{each[0]:,}" if len(each) == 1 else f"{each[0]:,} to {each[-1]:,}" for each in ranges]
    )
    return f"{'numbers' if several else 'number'} {shown}"


def _number(number: int) -> str:
    return "an event without number" if number == NO_NUMBER else f"number {number:,}"


def _shown(texts: list[str]) -> str:
    more = len(texts) - _MOST_SHOWN
    return ", ".join(texts[:_MOST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's, which has the name of its application."""

    tally: WrittenTally
    said: TopicReport | None  # by the audit, of the copy; None if it knows no such topic
    stored: Arrivals
    mirrored: Arrivals
    landed: Arrivals

    @property
    def topic(self) -> str:
        return self.tally.application

    @property
    def shipped(self) -> int:
        """Events of which the agent has told the ledger."""
        tiers = self.said.tiers if self.said else []
        return sum(each.events for each in tiers if each.tier == "agent")

    @property
    def verdict(self) -> State | None:
        return self.said.state if self.said else None

    @property
    def places(self) -> tuple[Arrivals, ...]:
        return self.stored, self.mirrored, self.landed

    @property
    def arrived_once(self) -> bool:
        """Whether each event is where it should be, and nothing else is."""
        return not [*self._arrival_faults()]

    @property
    def is_unproven(self) -> bool:
        """Whether the audit knows of nothing wrong, and cannot prove all of it."""
        return self.verdict is State.UNKNOWN

    def differences(self) -> Iterator[str]:
        """In words; none if every line is accounted for."""
        yield from self.miscounts()
        yield from self._arrival_faults()
        if words := self.doubt():
            yield words

    def miscounts(self) -> Iterator[str]:
        """What the agent says that is not what was written."""
        events, lines = self.tally.events, self.tally.lines
        if self.said is None:
            return
        if self.shipped != events:
            yield f"the agent says that it shipped {self.shipped:,} of {events:,} events"
        if self.said.flow.read != lines:
            yield f"the agent says that it read {self.said.flow.read:,} of {lines:,} lines"

    def _arrival_faults(self) -> Iterator[str]:
        yield from self.stored.faults("stored")
        yield from self.mirrored.faults("mirrored")
        yield from self.landed.faults("landed")

    def doubt(self) -> str:
        """What the audit says if that is not `complete`."""
        if self.said is None:
            return "the audit knows no such topic"
        if self.is_unproven:
            headline = headline_on(self.said.state, [self.said])
            return f"the audit says unknown; {headline_words(headline)}"
        if self.said.state is not State.COMPLETE:
            found = [failing_words(each) for each in self.said.failing_loads]
            found += [each.words for each in self.said.findings if not each.accepted]
            waits = [f"it waits for {each.words}" for each in self.said.waits]
            words = [*found[:_MOST_WORDS], *waits[:_MOST_WORDS]]
            return f"the audit says {self.said.state.value}" + "".join(
                f"; {each}" for each in words
            )
        return ""


class DemonstrationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A demonstration that has come to its end."""

    figures: tuple[Figures, ...]
    seconds: float  # for which the applications wrote
    seed: int | None = None  # that the kills were drawn from; None: no program was killed
    kills: tuple[Kill, ...] = ()
    unsettled: str = ""  # what had not arrived when waiting for it was given up

    @property
    def differences(self) -> list[str]:
        found = [f"{each.topic}: {words}" for each in self.figures for words in each.differences()]
        return [*found, self.unsettled] if self.unsettled else found

    @property
    def killed(self) -> tuple[str, ...]:
        """By name, each once."""
        programs = {each.program for each in self.kills}
        return tuple(each for each in KILLED if each in programs)

    @property
    def agrees(self) -> bool:
        return bool(self.figures) and not self.differences

    @property
    def arrived_once(self) -> bool:
        return bool(self.figures) and all(each.arrived_once for each in self.figures)

    @property
    def any_missing(self) -> bool:
        return not self.figures or any(at.missing for each in self.figures for at in each.places)

    @property
    def any_twice(self) -> bool:
        return any(at.twice for each in self.figures for at in each.places)

    @property
    def only_unproven(self) -> bool:
        """Whether that the audit cannot prove something is all that differs."""
        doubts = [f"{each.topic}: {each.doubt()}" for each in self.figures if each.is_unproven]
        return self.arrived_once and bool(doubts) and self.differences == doubts

    def reservations(self) -> Iterator[str]:
        """What is not as it should be although every line arrived, in words."""
        if unproven := sum(each.is_unproven for each in self.figures):
            yield f"{self._of_topics(unproven)} cannot be proven"
        doubted = sum(bool(each.doubt()) and not each.is_unproven for each in self.figures)
        if doubted:
            yield f"the audit does not call {self._of_topics(doubted)} complete"
        if miscounted := sum(bool([*each.miscounts()]) for each in self.figures):
            yield f"the agent counted {self._of_topics(miscounted)} otherwise"
        if self.unsettled:
            yield "there was no verdict in time"

    def _of_topics(self, number: int) -> str:
        return f"{number:,} of {len(self.figures):,} topics"


def totals(figures: Sequence[Figures]) -> dict[str, int]:
    return {
        "files": sum(each.tally.files for each in figures),
        "lines": sum(each.tally.lines for each in figures),
        "events": sum(each.tally.events for each in figures),
        "shipped": sum(each.shipped for each in figures),
        "stored": sum(each.stored.events for each in figures),
        "mirrored": sum(each.mirrored.events for each in figures),
        "landed": sum(each.landed.events for each in figures),
    }


def document(outcome: DemonstrationOutcome) -> dict[str, Any]:
    """What `--json` prints of it."""
    return {
        "agrees": outcome.agrees,
        "seconds": round(outcome.seconds, 1),
        "killed": outcome.killed,
        "seed": outcome.seed,
        "kills": [
            {"program": each.program, "after": round(each.after, 1)} for each in outcome.kills
        ],
        "topics": [
            {
                "topic": each.topic,
                "files": each.tally.files,
                "lines": each.tally.lines,
                "events": each.tally.events,
                "shipped": each.shipped,
                "stored": each.stored.events,
                "mirrored": each.mirrored.events,
                "landed": each.landed.events,
                "verdict": each.verdict,
            }
            for each in outcome.figures
        ],
        "totals": totals(outcome.figures),
        "differences": outcome.differences,
    }
