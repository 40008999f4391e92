"""Compares the written events of each topic with those of every tier. Pure.

Written events are those of the applications' own tallies. Shipped ones are those that the agent
reported to the ledger; stored, mirrored and landed ones were counted where they are. Differences
are described in words.

Applications number their events from 0, so that not only their count is compared: each must have
arrived, once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from audit.api.answers import TopicReport
from audit.reconciling.findings import State
from penstock.demo.applications.log_writer import WrittenTally
from penstock.demo.kills import KILLED, Kill
from penstock.report.words import failing_words, headline_on, headline_words

NO_NUMBER: Final = -1  # stands for an event without a number
_MOST_SHOWN: Final = 3
_MOST_WORDS = 3  # sentences of the audit of one kind


class Arrivals(NamedTuple):
    """The events that arrived at one place."""

    events: int
    distinct: int
    twice: tuple[int, ...]  # numbers that arrived more than once, in ascending order
    missing: tuple[range, ...]  # numbers below `written` that did not arrive, likewise
    unknown: tuple[int, ...]  # numbers that were not written

    @property
    def events_missing(self) -> int:
        return sum(map(len, self.missing))

    def faults(self, where: str) -> Iterator[str]:
        """Describes the differences in words. `where` is stored, mirrored or landed."""
        if self.missing:
            yield f"{_events(self.events_missing)} not {where}: {_ranges(self.missing)}"
        if self.twice:
            excess = self.events - self.distinct
            numbers = _shown([f"{number:,}" for number in self.twice])
            yield f"{where} more than once: {_numbers(self.twice)} {numbers} ({excess:,} too many)"
        if self.unknown:
            numbers = _shown([_number(number) for number in self.unknown])
            yield f"{where}, but never written: {numbers}"


def arrivals(numbers: Iterable[int], written: int) -> Arrivals:
    """Sorts the numbers of arrived events into duplicate, missing and unknown ones. Numbers below
    `written` were written."""
    counts = Counter(numbers)
    return Arrivals(
        events=counts.total(),
        distinct=len(counts),
        twice=tuple(sorted(number for number, count in counts.items() if count > 1)),
        missing=tuple(_gaps(sorted(number for number in counts if 0 <= number < written), written)),
        unknown=tuple(sorted(number for number in counts if not 0 <= number < written)),
    )


def _gaps(there: list[int], end: int) -> Iterator[range]:
    next_number = 0
    for number in [*there, end]:
        if number > next_number:
            yield range(next_number, number)
        next_number = number + 1


def _events(count: int) -> str:
    return "1 event was" if count == 1 else f"{count:,} events were"


def _numbers(numbers: tuple[int, ...]) -> str:
    return "number" if len(numbers) == 1 else "numbers"


def _ranges(ranges: tuple[range, ...]) -> str:
    has_several = len(ranges) > 1 or len(ranges[0]) > 1
    texts = _shown(
        [
            f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
            for numbers in ranges
        ]
    )
    return f"{'numbers' if has_several else 'number'} {texts}"


def _number(number: int) -> str:
    return "an event without number" if number == NO_NUMBER else f"number {number:,}"


def _shown(texts: list[str]) -> str:
    rest_count = len(texts) - _MOST_SHOWN
    return ", ".join(texts[:_MOST_SHOWN]) + (f" and {rest_count:,} more" if rest_count > 0 else "")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one topic, which has the name of its application."""

    tally: WrittenTally
    report: TopicReport | None  # the audit's, on the copy; None if it does not know the topic
    stored: Arrivals
    mirrored: Arrivals
    landed: Arrivals

    @property
    def topic(self) -> str:
        return self.tally.application

    @property
    def shipped(self) -> int:
        """The number of events that the agent reported to the ledger."""
        tiers = self.report.tiers if self.report else []
        return sum(tier.events for tier in tiers if tier.tier == "agent")

    @property
    def verdict(self) -> State | None:
        return self.report.state if self.report else None

    @property
    def places(self) -> tuple[Arrivals, ...]:
        return self.stored, self.mirrored, self.landed

    @property
    def arrived_once(self) -> bool:
        """Whether every place has each event once, and no other events."""
        return not [*self._arrival_faults()]

    @property
    def is_unproven(self) -> bool:
        """Whether the audit knows of no loss, but cannot rule it out."""
        return self.verdict is State.UNKNOWN

    def differences(self) -> Iterator[str]:
        """The differences in words; empty if every line is accounted for."""
        yield from self.miscounts()
        yield from self._arrival_faults()
        if words := self.doubt():
            yield words

    def miscounts(self) -> Iterator[str]:
        """The differences between the agent's counts and the tally, in words."""
        events, lines = self.tally.events, self.tally.lines
        if self.report is None:
            return
        if self.shipped != events:
            yield f"the agent reports {self.shipped:,} of {events:,} events as shipped"
        if self.report.flow.read != lines:
            yield f"the agent reports {self.report.flow.read:,} of {lines:,} lines as read"

    def _arrival_faults(self) -> Iterator[str]:
        yield from self.stored.faults("stored")
        yield from self.mirrored.faults("mirrored")
        yield from self.landed.faults("landed")

    def doubt(self) -> str:
        """Returns the audit's verdict in words; empty if it is `complete`."""
        if self.report is None:
            return "the topic is unknown to the audit"
        if self.is_unproven:
            headline = headline_on(self.report.state, [self.report])
            return f"the audit's verdict is unknown; {headline_words(headline)}"
        if self.report.state is not State.COMPLETE:
            faults = [failing_words(failing_load) for failing_load in self.report.failing_loads]
            faults += [finding.words for finding in self.report.findings if finding.is_open]
            waits = [f"it waits for {wait.words}" for wait in self.report.waits]
            words = [*faults[:_MOST_WORDS], *waits[:_MOST_WORDS]]
            return f"the audit's verdict is {self.report.state.value}" + "".join(
                f"; {word}" for word in words
            )
        return ""


class DemonstrationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a demonstration."""

    figures: tuple[Figures, ...]
    seconds: float  # how long the applications wrote
    seed: int | None = None  # of the kills; None: no program was killed
    kills: tuple[Kill, ...] = ()
    unsettled: str = ""  # what was still missing when waiting ended

    @property
    def differences(self) -> list[str]:
        lines = [
            f"{figure.topic}: {words}" for figure in self.figures for words in figure.differences()
        ]
        return [*lines, self.unsettled] if self.unsettled else lines

    @property
    def killed(self) -> tuple[str, ...]:
        """The names of the killed programs, without repetition."""
        programs = {kill.program for kill in self.kills}
        return tuple(name for name in KILLED if name in programs)

    @property
    def agrees(self) -> bool:
        return bool(self.figures) and not self.differences

    @property
    def arrived_once(self) -> bool:
        return bool(self.figures) and all(figure.arrived_once for figure in self.figures)

    @property
    def any_missing(self) -> bool:
        return not self.figures or any(
            place.missing for figure in self.figures for place in figure.places
        )

    @property
    def any_twice(self) -> bool:
        return any(place.twice for figure in self.figures for place in figure.places)

    @property
    def only_unproven(self) -> bool:
        """Whether the audit's verdict of unknown is the only difference."""
        verdicts = [
            f"{figure.topic}: {figure.doubt()}" for figure in self.figures if figure.is_unproven
        ]
        return self.arrived_once and bool(verdicts) and self.differences == verdicts

    def reservations(self) -> Iterator[str]:
        """The differences in words, given that every line arrived."""
        if unproven_count := sum(figure.is_unproven for figure in self.figures):
            yield f"{self._of_topics(unproven_count)} cannot be proven"
        doubts = sum(bool(figure.doubt()) and not figure.is_unproven for figure in self.figures)
        if doubts:
            yield f"the audit does not call {self._of_topics(doubts)} complete"
        if miscounted_count := sum(bool([*figure.miscounts()]) for figure in self.figures):
            yield f"the agent's counts differ for {self._of_topics(miscounted_count)}"
        if self.unsettled:
            yield "there was no verdict in time"

    def _of_topics(self, number: int) -> str:
        return f"{number:,} of {len(self.figures):,} topics"


def totals(figures: Sequence[Figures]) -> dict[str, int]:
    return {
        "files": sum(figure.tally.files for figure in figures),
        "lines": sum(figure.tally.lines for figure in figures),
        "events": sum(figure.tally.events for figure in figures),
        "shipped": sum(figure.shipped for figure in figures),
        "stored": sum(figure.stored.events for figure in figures),
        "mirrored": sum(figure.mirrored.events for figure in figures),
        "landed": sum(figure.landed.events for figure in figures),
    }


def document(outcome: DemonstrationOutcome) -> dict[str, Any]:
    """The outcome as `--json` prints it."""
    return {
        "agrees": outcome.agrees,
        "seconds": round(outcome.seconds, 1),
        "killed": outcome.killed,
        "seed": outcome.seed,
        "kills": [
            {"program": kill.program, "after": round(kill.after, 1)} for kill in outcome.kills
        ],
        "topics": [
            {
                "topic": figure.topic,
                "files": figure.tally.files,
                "lines": figure.tally.lines,
                "events": figure.tally.events,
                "shipped": figure.shipped,
                "stored": figure.stored.events,
                "mirrored": figure.mirrored.events,
                "landed": figure.landed.events,
                "verdict": figure.verdict,
            }
            for figure in outcome.figures
        ],
        "totals": totals(outcome.figures),
        "differences": outcome.differences,
    }
