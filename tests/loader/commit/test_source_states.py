"""Which events have landed, and how long that is known."""

from collections.abc import Mapping

from loader.commit.sources import LandedSources, after_run
from loader.manifests import SEVERAL, KnownSources
from loader.reports import MOST_INTERVALS, ClosedIntervals, Landed, SliceReport
from loader.tables import HOUR_MILLIS, Hour, hour_of
from tests.loader.commit.made_up import NOW, piece, report

DAY = 86_400_000
THIS_HOUR = hour_of(NOW)


def found_in(*reports: SliceReport) -> LandedSources:
    landed = LandedSources()
    for each in reports:
        landed.add(each)
    return landed


def known(
    landed: Mapping[str, Landed], partition: int = 0, loaded: int = THIS_HOUR, topic: str = "t"
) -> KnownSources:
    return KnownSources(topic=topic, partition=partition, loaded=Hour(loaded), landed=dict(landed))


def test_intervals_of_all_slices_and_runs_are_one_set() -> None:
    before = known({"a": 10, "z": 7}, loaded=THIS_HOUR - HOUR_MILLIS)
    found = found_in(
        report(piece(0, 0, 9), {}, sources={"a": ((10, 19),), "b": ((0, 4),)}),
        report(piece(1, 9, 18), {}, sources={"a": ((20, 29), (40, 49))}),
    )
    assert after_run([before], found, now=NOW, forget=DAY) == (
        known({"z": 7}, loaded=THIS_HOUR - HOUR_MILLIS),
        known({"a": ((0, 29), (40, 49)), "b": 5}),
    )


def test_a_source_that_was_in_two_partitions_belongs_to_none_for_ever() -> None:
    def run(before: tuple[KnownSources, ...], *reports: SliceReport) -> tuple[KnownSources, ...]:
        return after_run(before, found_in(*reports), now=NOW, forget=DAY)

    first = run((), report(piece(0, 0, 9), {}, sources={"a": ((0, 9),), "b": ((0, 4),)}))
    assert first == (known({"a": 10, "b": 5}),)
    there = report(piece(0, 0, 9, partition=3), {}, sources={"a": ((10, 19),)})
    assert run(first, there) == (known({"a": 20}, SEVERAL), known({"b": 5}))
    here = report(piece(0, 9, 18), {}, sources={"a": ((20, 20),)})
    assert run(run(first, there), here) == (known({"a": 21}, SEVERAL), known({"b": 5}))
    at_once = run((), there, report(piece(1, 0, 9), {}, sources={"a": ((0, 9),)}))
    assert at_once == (known({"a": 20}, SEVERAL),)


def test_topics_know_nothing_of_each_other() -> None:
    before = [known({"a": 10}), known({"a": 5}, topic="u", loaded=THIS_HOUR - HOUR_MILLIS)]
    found = found_in(
        report(piece(0, 0, 9, partition=3, topic="u"), {}, sources={"a": ((7, 9),)}),
        report(piece(1, 0, 9, topic="v"), {}, sources={"a": ((0, 2),)}, scattered=("b",)),
    )
    assert after_run(before, found, now=NOW, forget=DAY) == (
        known({"a": 10}),
        known({"a": ((0, 4), (7, 9))}, SEVERAL, topic="u"),
        known({"a": 3}, topic="v"),
    )


def test_finished_sources_are_forgotten_first() -> None:
    past = THIS_HOUR - DAY
    holes: ClosedIntervals = ((0, 9), (11, 12))
    before = [
        known({"lately": 10}, loaded=past),
        known({"whole": 10, "hole": holes}, loaded=past - HOUR_MILLIS),
        known({"no beginning": ((5, 9),)}, loaded=THIS_HOUR - 4 * DAY),
        known({"long ago": holes}, loaded=THIS_HOUR - 4 * DAY - HOUR_MILLIS),
    ]
    after = after_run(before, LandedSources(), now=NOW, forget=DAY)
    assert {source for each in after for source in each.landed} == {
        "lately",
        "hole",
        "no beginning",
    }


def test_scattered_sources_are_not_remembered() -> None:
    found = found_in(report(piece(0, 0, 9), {}, sources={"b": ((0, 1),)}, scattered=("a",)))
    assert after_run([known({"a": 10})], found, now=NOW, forget=DAY) == (known({"b": 2}),)


def test_sources_that_become_scattered_are_not_remembered() -> None:
    def odd(first: int) -> ClosedIntervals:
        return tuple((seq, seq) for seq in range(first, first + MOST_INTERVALS + 2, 2))

    first = report(piece(0, 0, 9), {}, sources={"a": odd(0)})
    second = report(piece(1, 9, 18), {}, sources={"a": odd(100_000)})
    assert after_run([], found_in(first, second), now=NOW, forget=DAY) == ()
    assert after_run([], found_in(first), now=NOW, forget=DAY) == (known({"a": odd(0)}),)
