"""A status in words."""

import pytest
from msgspec.structs import replace

from audit.reconciling.findings import FaultKind, KindCount, State
from penstock.status.command import is_well
from penstock.status.values import FailingLoadStatus, PipelineStatus
from penstock.status.words import (
    COLOURS,
    count,
    duration,
    failing_words,
    load_words,
    rate,
    shown,
    size,
    topic_words,
    verdict_words,
    waiting_words,
)
from tests.penstock.status.made_up import CALM, LOAD, MISSING, NOW, status_of, topic

CHANGED = KindCount(kind=FaultKind.CHANGED, findings=2, events=1_200, uncounted=1)
BLIND = KindCount(kind=FaultKind.UNKNOWN, findings=2, uncounted=2)


def failing_of(load: FailingLoadStatus) -> PipelineStatus:
    return replace(status_of([topic("t")], verdict="complete", load=LOAD), failing_loads=(load,))


FAILING = failing_of(
    FailingLoadStatus(
        topic="t",
        since=NOW - 200_000,
        reason="1 of 1 records are \x1b[31mdead",
        cure="raise dead_share",
    )
)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (status_of(verdict=""), "· nothing to judge yet"),
        (PipelineStatus(now=NOW), "? unknown: no audit answers"),
        (status_of([topic("t")], verdict="pending"), f"✓ {CALM}"),
        (
            replace(status_of(verdict="pending"), calm="", mark=""),
            "… pending: nothing is known to be wrong; some lines are still on their way",
        ),
        (status_of(verdict="complete"), "✓ complete: every line is accounted for"),
        (
            status_of([topic("t", state="missing", kinds=(MISSING,))], verdict="missing"),
            "✗ missing: 3 events have not arrived",
        ),
        (
            status_of(
                [topic("t", kinds=(CHANGED, MISSING)), topic("u", kinds=(MISSING, BLIND))],
                verdict="changed",
            ),
            "≠ changed: at least 1,200 events are not what was written; "
            "6 events have not arrived; 2 stretches cannot be proven",
        ),
        (
            status_of([topic("t", state="unknown", kinds=(BLIND,))], verdict="unknown"),
            "? unknown: 2 stretches cannot be proven",
        ),
        (
            replace(status_of([topic("t")], verdict="unknown"), headline="possible loss: t\x1b"),
            "? possible loss: t\\x1b",
        ),
        (FAILING, "! not loaded: 1 table cannot be loaded"),
        (replace(FAILING, verdict="missing"), "✗ missing: not all events have arrived"),
    ],
)
def test_a_verdict_in_a_line(said: PipelineStatus, words: str) -> None:
    found = verdict_words(said)
    assert f"{found.mark} {found.text}" == words


def test_every_state_has_a_sign_and_a_colour() -> None:
    assert set(COLOURS) == set(State)
    assert len({topic_words(topic("t", state=each), NOW).mark for each in State}) == len(State)
    assert topic_words(topic("t", state=""), NOW).text == "-"
    assert topic_words(topic("t", state="complete"), NOW).text == "up to 08:29:20"


def test_a_topic_that_is_not_loaded_is_not_complete() -> None:
    failing = replace(topic("t", state="complete"), load_fails=True)
    assert topic_words(failing, NOW) == ("!", "red", "not loaded")
    assert topic_words(replace(failing, state="missing"), NOW).text == "missing"


def test_the_worst_of_a_topic_hides_nothing_else() -> None:
    several = topic("t", state="changed", kinds=(CHANGED, MISSING, BLIND))
    assert topic_words(several, NOW) == ("≠", "red", "changed, ✗ missing, ? unknown")
    # A window of an hour is in a state of which no finding is said.
    other = topic("t", state="changed", kinds=(MISSING,))
    assert topic_words(other, NOW).text == "changed, ✗ missing"


def test_of_a_topic_without_events_nothing_is_proven() -> None:
    quiet = topic("t", state="empty")
    assert topic_words(quiet, NOW) == ("·", "", "empty")
    assert verdict_words(status_of([quiet], verdict="empty")) == (
        *("·", "", "empty: no events in this time"),
    )
    both = status_of([quiet, topic("other")], verdict="complete")
    assert verdict_words(both).mark == "✓"


def test_why_a_table_is_not_loaded_and_what_to_do() -> None:
    assert [f"{each.mark} {each.text}" for each in failing_words(FAILING)] == [
        "! t is not loaded, for 3 min: 1 of 1 records are \\x1b[31mdead",
        "  what to do: raise dead_share",
    ]
    none = replace(FAILING.failing_loads[0], topic="", cure="")
    assert [each.text for each in failing_words(failing_of(none))] == [
        "no load begins, for 3 min: 1 of 1 records are \\x1b[31mdead"
    ]


@pytest.mark.parametrize("verdict", ["", *State])
def test_when_all_is_well(verdict: str) -> None:
    assert is_well(status_of(verdict=verdict)) is (verdict in {"", "empty", "complete", "pending"})
    assert not is_well(status_of(verdict=verdict, problems=("no agent",)))
    assert not is_well(FAILING)


def test_only_who_waits_for_long_says_what_for() -> None:
    topics = [
        topic("new", waits="the loader"),
        topic("old", until=NOW - 3_600_000, waits="an \x1b[31magent"),
        topic("well", until=NOW - 3_600_000),
    ]
    assert waiting_words(status_of(topics)) == ["old waits: an \\x1b[31magent"]


def test_the_last_load() -> None:
    words = "last load 12 s ago: 4,000 rows of 2 topics, 50 not landed yet"
    assert load_words(LOAD, NOW) == words
    done = replace(LOAD, topics=1, lag=0)
    assert load_words(done, NOW) == "last load 12 s ago: 4,000 rows of 1 topic"
    assert load_words(None, NOW) == "nothing has been loaded yet"


def test_numbers_are_short() -> None:
    assert [duration(each) for each in (-1, 0.9, 59.9, 60, 7_199, 90_000)] == [
        *("0 s", "0 s", "59 s", "1 min", "1 h", "1 d")
    ]
    assert [size(each) for each in (-1, 0, 1023, 1024, 5 << 20)] == [
        *("-", "0 B", "1023 B", "1.0 KiB", "5.0 MiB")
    ]
    assert [rate(each) for each in (-1.0, 0.0, 0.25, 9.94, 9.96, 1_234.5)] == [
        *("-", "0", "0.2", "9.9", "10", "1,234")
    ]
    assert (count(-1), count(12_345)) == ("-", "12,345")


def test_whatever_number_somebody_answers_is_shown_as_one() -> None:
    huge = 10**400
    assert size(huge) == "8,192.0 PiB"
    assert (count(huge), duration(huge)) == (f"{2**63 - 1:,}", f"{(2**63 - 1) // 86_400} d")
    load = replace(LOAD, time=-huge)
    assert load_words(load, NOW).startswith(f"last load {(2**63 - 1) // 86_400} d ago: ")


def test_what_came_from_outside_is_printable_and_short() -> None:
    assert shown("a\nb\x1b") == "a\\nb\\x1b"
    assert shown("x" * 500, 10) == "x" * 9 + "…"
    assert shown("one two three", 10) == "one two…"
