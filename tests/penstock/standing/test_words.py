"""A standing in words."""

import msgspec
import pytest

from audit.verdicts import State
from penstock.standing.table import is_well
from penstock.standing.values import Standing
from penstock.standing.words import (
    COLOURS,
    count,
    duration,
    load_words,
    rate,
    shown,
    size,
    state_words,
    verdict_words,
    waiting_words,
)
from tests.penstock.standing.made_up import LOAD, NOW, standing, topic


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (standing(verdict=""), "· nothing to judge yet"),
        (Standing(now=NOW), "? unknown: no audit answers"),
        (
            standing([topic("t")], verdict="pending"),
            "… pending: every line up to 40 s ago is accounted for",
        ),
        (
            standing([topic("t", until=-1)], verdict="pending"),
            "… pending: nothing is known to be wrong, and not everything is there yet",
        ),
        (
            standing([topic("t")], verdict="complete", load=LOAD),
            "✓ complete: every line is accounted for",
        ),
        (
            standing([topic("t")], verdict="complete"),
            "✓ complete: every line has reached the brokers",
        ),
        (
            standing([topic("t", state="missing")], verdict="missing"),
            "✗ missing: 3 events have not arrived",
        ),
        (
            standing([topic("t")], verdict="duplicated"),
            "⧉ duplicated: some events have arrived twice",
        ),
        (
            standing([topic("t")], verdict="changed"),
            "≠ changed: some events are not what was written",
        ),
    ],
)
def test_a_verdict_in_a_line(said: Standing, words: str) -> None:
    found = verdict_words(said)
    assert f"{found.mark} {found.text}" == words


def test_every_state_has_a_sign_and_a_colour() -> None:
    assert set(COLOURS) == set(State)
    assert len({state_words(each).mark for each in State}) == len(State)
    assert state_words("").text == "-"


@pytest.mark.parametrize(
    ("verdict", "problems", "well"),
    [
        ("complete", (), True),
        ("pending", (), True),
        ("", (), True),
        ("complete", ("no agent",), False),
        ("missing", (), False),
        ("duplicated", (), False),
        ("changed", (), False),
    ],
)
def test_when_all_is_well(verdict: str, problems: tuple[str, ...], well: bool) -> None:
    assert is_well(standing(verdict=verdict, problems=problems)) is well


def test_only_who_waits_for_long_says_what_for() -> None:
    topics = [
        topic("new", waits="the loader"),
        topic("old", until=NOW - 3_600_000, waits="an \x1b[31magent"),
        topic("well", until=NOW - 3_600_000),
    ]
    assert waiting_words(standing(topics)) == ["old waits: an \\x1b[31magent"]


def test_the_last_load() -> None:
    words = "last load 12 s ago: 4,000 rows of 2 topics, 50 not landed yet"
    assert load_words(LOAD, NOW) == words
    done = msgspec.structs.replace(LOAD, topics=1, lag=0)
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
    load = msgspec.structs.replace(LOAD, time=-huge)
    assert load_words(load, NOW).startswith(f"last load {(2**63 - 1) // 86_400} d ago: ")


def test_what_came_from_outside_is_printable_and_short() -> None:
    assert shown("a\nb\x1b") == "a\\nb\\x1b"
    assert shown("x" * 500, 10) == "x" * 9 + "…"
