"""What is wrong with lines, verdicts, registrations and series is found, and nothing else is."""

from typing import Any

import pytest

from tests.campaigns.pipeline.asking import added, is_closed, registry, verdict
from tests.campaigns.pipeline.flatness import Kind, Pace, Point, Series, judged, objections, table
from tests.campaigns.pipeline.lines import Numbers, Tally

MIB = 1024 * 1024
NAMES = ("agent", "broker", "hdfs")
GREEN = ({"state": "complete"}, {"state": "complete"})
TIERS = [{"tier": name, "events": 3} for name in NAMES]
REGISTERED = {0: 10, 1: 11}
ANSWERED = tuple(REGISTERED.items())


def report(**changed: Any) -> dict[str, Any]:
    return {
        "state": "complete",
        "as_of": 1,
        "tiers": TIERS,
        "flow": {"read": 3, "shipped": 3, "filtered": 0, "dead": 0, "lost": 0},
        **dict.fromkeys(("missing", "excess", "unclaimed", "pending"), 0),
        "findings": [],
        "findings_total": 0,
        "waits": [],
        "waits_total": 0,
        **changed,
    }


def counted(tier: str, events: int) -> dict[str, Any]:
    return report(
        tiers=[{**each, **({"events": events} if each["tier"] == tier else {})} for each in TIERS]
    )


RED = report(state="missing", findings=[{"words": "2 events are missing"}], findings_total=1)
LOSING = {"read": 3, "shipped": 2, "lost": 1}


def test_nothing_is_wrong() -> None:
    assert list(verdict(report(), 0, GREEN, 3, NAMES)) == []
    assert list(registry(ANSWERED, [REGISTERED, REGISTERED])) == []


@pytest.mark.parametrize(
    ("said", "exit_code", "words"),
    [
        (report(), 2, "the verdict: complete (2)"),
        (RED, 0, "the verdict: missing (0); 2 events are missing"),
        (report(missing=1), 0, "the verdict: missing 1"),
        (report(waits_total=1), 0, "the verdict: waits_total 1"),
        ({}, 0, "the verdict: nothing (0)"),
        (counted("agent", 2), 0, "the tier agent: 2 events of 3 lines"),
        (counted("broker", 4), 0, "the tier broker: 4 events of 3 lines"),
        (counted("hdfs", 0), 0, "the tier hdfs: 0 events of 3 lines"),
        (report(tiers=TIERS[:2]), 0, "the tier hdfs: 0 events"),
        (report(tiers=[*TIERS, TIERS[2]]), 0, "the tier hdfs: 6 events"),
        (report(flow=LOSING), 0, "the flow: {'read': 3, 'shipped': 2, 'lost': 1} of 3 lines"),
    ],
)
def test_a_wrong_verdict_is_named(said: dict[str, Any], exit_code: int, words: str) -> None:
    found = list(verdict(said, exit_code, GREEN, 3, NAMES))
    assert any(words in each for each in found), found


def test_a_window_that_is_not_complete_is_named() -> None:
    assert list(verdict(report(), 0, (), 3, NAMES)) == ["0 of 0 windows are not complete"]
    waiting = (*GREEN, {"state": "pending"})
    assert list(verdict(report(), 0, waiting, 3, NAMES)) == ["1 of 3 windows are not complete"]


def test_registrations_that_changed_are_named() -> None:
    (shared,) = registry(((0, 10), (1, 10)), [])
    assert shared == "the registry: ids given to two schemas: 10"
    (changed,) = registry(ANSWERED, [REGISTERED, {0: 10}])
    assert changed == "registry 2: 1 registrations changed: (1, 11)"


# Chapters


def test_chapters_add_up_to_all_lines() -> None:
    whole = added([report(), report(), report()])
    assert list(verdict(whole, 0, GREEN, 9, NAMES)) == []
    assert list(verdict(whole, 0, GREEN, 10, NAMES))
    assert list(verdict(added([]), 0, GREEN, 9, NAMES))
    assert list(verdict(added([report(), {}]), 0, GREEN, 6, NAMES))


@pytest.mark.parametrize(
    "wrong",
    [
        RED,
        report(state="unknown"),
        report(missing=1),
        report(tiers=[]),
        report(flow=LOSING),
        report(waits_total=1),
    ],
)
def test_one_chapter_that_is_wrong_makes_the_whole_wrong(wrong: dict[str, Any]) -> None:
    whole = added([report(), wrong, report()])
    assert list(verdict(whole, 0, GREEN, 9, NAMES))


def test_a_chapter_is_closed_when_nobody_is_waited_for() -> None:
    assert is_closed(report(), NAMES)
    assert not is_closed(report(state="pending"), NAMES)
    assert not is_closed(report(waits_total=2), NAMES)
    assert not is_closed(report(tiers=TIERS[:2]), NAMES)


# Lines


def found_everywhere(tally: Tally, lines: list[str]) -> None:
    tally.log.find(lines)
    tally.store.find(lines)


def test_all_lines_were_found_once() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    tally.write(["c"])
    found_everywhere(tally, ["b", "c"])
    found_everywhere(tally, ["a"])
    assert list(tally.objections()) == []
    assert tally.written == 3


def test_a_lost_line_is_named() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    tally.log.find(["a", "b"])
    tally.store.find(["a"])
    said = list(tally.objections())
    assert "in the store: 1 lines lost: b" in said
    assert not any("the log" in each for each in said)


def test_a_line_that_is_there_twice_or_was_never_written_is_named() -> None:
    for more in ("a", "foreign"):
        tally = Tally()
        tally.write(["a"])
        found_everywhere(tally, ["a"])
        tally.log.find([more])
        said = list(tally.objections())
        assert f"in the log: 1 lines there twice, or never written: {more}" in said
        assert not any("the store" in each for each in said)


def test_one_lost_and_another_twice_do_not_make_up_for_each_other() -> None:
    tally = Tally()
    tally.write(["a", "b"])
    found_everywhere(tally, ["a", "a"])
    assert len([each for each in tally.objections() if "lost" in each]) == 2


def test_numbers_of_sources_come_once_in_any_order() -> None:
    numbers = Numbers()
    for each in (0, 2, 3, 1, 4):
        numbers.note("a", each)
        numbers.note("b", each)
    assert list(numbers.objections()) == []
    for each in (6, 2, 6):
        numbers.note("a", each)
    assert numbers.doubled == [("a", 2), ("a", 6)]
    assert list(numbers.objections())


# Growth


def made(begin: float, hourly: float) -> tuple[Point, ...]:
    return tuple(Point(at, "1", begin + hourly * at / 3600) for at in range(0, 7200, 10))


def test_the_verdict_names_what_grows() -> None:
    pace = Pace(7200)
    leak = Series("broker-1 memory", Kind.MEMORY, made(80 * MIB, 20 * MIB))
    flat = Series("broker-2 memory", Kind.MEMORY, made(80 * MIB, 0))
    load = Series("machine load", Kind.OTHER, made(1, 5))
    found = judged([load, flat, leak], pace.span)
    assert list(objections(found)) == [
        "broker-1 memory grows by 20.0 MiB an hour; 6.0 MiB are allowed"
    ]
    rows = table(found).splitlines()
    assert len(rows) == 4
    assert len(set(map(len, rows))) == 1
    assert "GROWS" in next(each for each in rows if "broker-1" in each)
