"""What grows is found, what only moves is not: series made on purpose."""

import random
from collections.abc import Callable, Iterable

import pytest

from tests.campaigns.pipeline.flatness import TOLERANCES, Kind, Point, Span, Trend, trend_of

MIB = 1024 * 1024
HOUR = 3600
EVERY = 10
WHOLE = Span(HOUR, 2 * HOUR, 120)


def series(
    value: Callable[[float], float], life: Callable[[float], str] = lambda _: "1"
) -> list[Point]:
    return [Point(at, life(at), value(at)) for at in range(0, 2 * HOUR, EVERY)]


def noisy(value: Callable[[float], float], most: float = 2 * MIB) -> Callable[[float], float]:
    chance = random.Random(7)
    return lambda at: value(at) + chance.uniform(0, most)


def judged(points: Iterable[Point], kind: Kind = Kind.MEMORY, span: Span = WHOLE) -> Trend:
    found = trend_of(kind, points, span)
    assert found.judged
    return found


def rising(hourly: float, begin: float = 80 * MIB) -> Callable[[float], float]:
    return lambda at: begin + hourly * at / HOUR


@pytest.mark.parametrize("hourly", [8 * MIB, 20 * MIB, 500 * MIB])
def test_a_leak_is_found(hourly: float) -> None:
    found = judged(series(noisy(rising(hourly))))
    assert found.grows
    assert found.slope == pytest.approx(hourly, rel=0.1)


@pytest.mark.parametrize("hourly", [0, 1 * MIB, 4 * MIB, -20 * MIB])
def test_what_is_within_the_tolerance_is_flat(hourly: float) -> None:
    assert not judged(series(noisy(rising(hourly)))).grows


def test_a_leak_of_descriptors_is_found_in_whole_numbers() -> None:
    found = judged(series(lambda at: 50 + at // 600 + (at // 10) % 3), Kind.DESCRIPTORS)
    assert found.grows
    assert found.slope == pytest.approx(6, rel=0.2)
    assert not judged(series(lambda at: 50 + (at // 10) % 7), Kind.DESCRIPTORS).grows


def test_a_saw_tooth_that_climbs_is_found() -> None:
    climbing = rising(30 * MIB)
    assert judged(series(lambda at: climbing(at) + 64 * MIB * (at % 140) / 140)).grows


def test_a_leak_is_found_over_restarts() -> None:
    """Each process begins anew, and all grow."""
    restarted = series(
        lambda at: 80 * MIB + 40 * MIB * (at % 1200) / HOUR, lambda at: str(at // 1200)
    )
    found = judged(restarted)
    assert found.grows
    assert found.slope == pytest.approx(40 * MIB, rel=0.1)
    assert found.lives == 3


def test_too_little_is_not_judged() -> None:
    for points in ([], [Point(4000, "1", 1.0)], series(rising(500 * MIB))[:365]):
        found = trend_of(Kind.MEMORY, points, WHOLE)
        assert not found.judged
        assert not found.grows
        assert found.word == "too short"


def test_every_kind_but_what_is_only_shown_has_a_tolerance() -> None:
    assert set(Kind) - set(TOLERANCES) == {Kind.OTHER}
    assert trend_of(Kind.OTHER, series(rising(500 * MIB)), WHOLE).word == "shown"
