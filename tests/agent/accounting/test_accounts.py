"""Runs added up and divided."""

from agent.accounting.accounts import UNKNOWN, added_up, bytes_of_events, divided, joined
from agent.accounting.runs import Excepted, Fate, Run, SourceId

RUN = Run(SourceId("a"), 5, 4, 100, 200, 6, (Excepted(Fate.FILTERED, 2, 30, "noise"),))


def test_what_is_divided_is_joined_again() -> None:
    first, second = divided(RUN, 3, 150)
    assert (first.seq, first.events, first.end_position) == (5, 3, 150)
    assert (second.seq, second.events, second.position) == (8, 1, 150)
    assert joined(first, second) == RUN


def test_what_nobody_knew_nobody_knows_of_the_sum() -> None:
    known, unknown = (Excepted(Fate.LOST, each, each, "gone") for each in (3, UNKNOWN))
    assert added_up((known, known)) == (Excepted(Fate.LOST, 6, 6, "gone"),)
    assert added_up((known, unknown, known)) == (Excepted(Fate.LOST, UNKNOWN, UNKNOWN, "gone"),)


def test_bytes_of_events_are_not_guessed() -> None:
    assert bytes_of_events(RUN) == 70
    doubtful = Run(RUN.source, 0, 1, 0, 50, 1, (Excepted(Fate.DEAD_LETTERED, 1, UNKNOWN, "large"),))
    assert bytes_of_events(doubtful) == UNKNOWN
