"""Pace, chapters, verdict and picture of a run."""

from collections.abc import Iterator
from itertools import islice
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cluster_pipeline.choosing import Verb, troubles_of
from tests.cluster_pipeline.judging import verdict
from tests.soak.chapters import added, is_closed
from tests.soak.flatness import Kind, Point
from tests.soak.pace import Pace, paced, spared
from tests.soak.plot import drawn
from tests.soak.sampling import Series
from tests.soak.verdict import judged, objections, table

MIB = 1024 * 1024
BROKERS = (1, 2, 3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def played(clock: Clock, lasting: float, until: float) -> Iterator[float]:
    for _ in paced(troubles_of(1, BROKERS), 20, until, clock, clock.sleep):
        yield clock.now
        clock.sleep(lasting)


def test_troubles_come_at_a_pace_and_end_in_time() -> None:
    clock = Clock()
    assert list(played(clock, 10, 100)) == [20, 50, 80]
    assert clock.now == 100


def test_a_trouble_that_lasts_too_long_is_the_last() -> None:
    clock = Clock()
    assert list(played(clock, 500, 100)) == [20]
    assert clock.now == 520


def test_one_broker_is_not_ended_after_the_middle() -> None:
    clock = Clock()
    chosen = list(islice(troubles_of(1, BROKERS), 60))
    found = []
    for each in spared(chosen, 3, 30, clock):
        found.append(each)
        clock.now += 1
    assert found[:30] == chosen[:30]
    assert {each.verb for each in found[30:] if each.broker == 3} == {Verb.FREEZE}
    assert [each for each in found if each.broker != 3] == [
        each for each in chosen if each.broker != 3
    ]
    assert [each.beside for each in found] == [each.beside for each in chosen]


@pytest.mark.parametrize("hours", [0.1, 0.75, 2, 24])
def test_what_is_kept_is_forgotten_while_there_is_time_to_see_it(hours: float) -> None:
    pace = Pace(hours * 3600)
    assert pace.load_every + 2 * pace.chapter < pace.keeps
    assert pace.span(Kind.THREADS).warm == pace.seconds / 2
    if hours > 0.5:
        assert pace.keeps * 1.5 <= pace.span(Kind.LOGS).warm < 0.75 * pace.seconds


def report(**changed: Any) -> dict[str, Any]:
    return {
        "state": "complete",
        "as_of": 1,
        "tiers": [{"tier": name, "events": 3} for name in ("agent", "broker", "hdfs")],
        "flow": {"read": 3, "shipped": 3, "filtered": 0, "lost": 0},
        **dict.fromkeys(("missing", "excess", "unclaimed", "pending"), 0),
        "findings": [],
        "findings_total": 0,
        "waits": [],
        "waits_total": 0,
        **changed,
    }


CELLS = ({"state": "complete"},)


def test_chapters_add_up_to_all_lines() -> None:
    whole = added([report(), report(), report()])
    assert list(verdict(whole, 0, CELLS, 9)) == []
    assert list(verdict(whole, 0, CELLS, 10))


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "missing", "findings": [{"words": "gone"}], "findings_total": 1},
        {"state": "unknown"},
        {"missing": 1},
        {"tiers": []},
        {"flow": {"read": 3, "shipped": 2, "lost": 1}},
        {"waits_total": 1},
    ],
)
def test_one_chapter_that_is_wrong_makes_the_whole_wrong(changed: dict[str, Any]) -> None:
    whole = added([report(), report(**changed), report()])
    assert list(verdict(whole, 0, CELLS, 9))


def test_no_chapter_is_nothing_accounted_for() -> None:
    assert list(verdict(added([]), 0, CELLS, 9))
    assert list(verdict(added([report(), {}]), 0, CELLS, 6))


def test_a_chapter_is_closed_when_nobody_is_waited_for() -> None:
    assert is_closed(report())
    assert not is_closed(report(state="pending"))
    assert not is_closed(report(waits_total=2))
    unloaded = [each for each in report()["tiers"] if each["tier"] != "hdfs"]
    assert not is_closed(report(tiers=unloaded))


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


def made(begin: float, hourly: float) -> tuple[Point, ...]:
    return tuple(Point(at, "1", begin + hourly * at / 3600) for at in range(0, 7200, 10))


def test_the_picture_has_a_panel_for_each_kind_and_a_line_for_each_life() -> None:
    lives = tuple(Point(at, str(at // 3600), 80.0 * MIB) for at in range(0, 7200, 10))
    series = [
        Series("broker-1 memory", Kind.MEMORY, lives),
        Series("a <threads>", Kind.THREADS, made(5, 0)),
    ]
    text = drawn("two & hours", series, {Kind.MEMORY: 3600.0}, [100.0, 200.0])
    root = ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    panels = [each for each in root.iter(f"{name}text") if each.get("class") == "panel"]
    assert len(panels) == 2
    paths = [
        each.get("d", "") for each in root.iter(f"{name}path") if each.get("class") == "series"
    ]
    assert [each.count("M") for each in paths] == [2, 1, 1, 1]  # each with its legend
    assert max(map(len, paths)) < 6000
    assert [
        each.get("d", "").count("M")
        for each in root.iter(f"{name}path")
        if each.get("class") == "trouble"
    ] == [2, 2]
