"""Which events have landed, in which partition or twice, and how long that is known."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ground.intervals import merged
from loader.commit.sources import LandedSources, after_run, seen_in
from loader.values.manifests import SEVERAL, KnownSources
from loader.values.reports import (
    MOST_INTERVALS,
    ClosedIntervals,
    Landed,
    SliceReport,
    closed,
    intervals_of,
)
from loader.values.tables import HOUR_MILLIS, Hour, Partition, Slice, hour_of
from tests.loader.commit.made_up import NOW, piece, report
from tests.loader.membership import contains

DAY = 86_400_000


def landed(*reports: SliceReport, known: tuple[KnownSources, ...] = ()) -> LandedSources:
    found = LandedSources(known)
    for each in reports:
        found.add(each)
    return found


def test_the_later_slice_is_done_again() -> None:
    found = landed(
        report(piece(0, 9, 18), {}, sources={"a": ((0, 9),)}),
        report(piece(1, 18, 20), {}, sources={"a": ((20, 22),)}),
        report(piece(2, 0, 9), {}, sources={"a": ((5, 12),)}),
        report(piece(3, 20, 22), {}, sources={"a": ((12, 13), (21, 30))}),
    )
    assert found.twice == {2: {"a": ((5, 9),)}, 3: {"a": ((12, 12), (21, 22))}}


def test_a_source_that_was_known_from_another_partition() -> None:
    """Whose tasks were not told of it."""
    known = KnownSources(topic="t", partition=0, loaded=Hour(0), landed={"a": 10, "b": 10})
    there = report(piece(0, 0, 9, partition=1), {}, sources={"a": ((8, 12),), "b": ((10, 11),)})
    found = landed(there, known=(known,))
    assert found.twice == {0: {"a": ((8, 9),)}}
    assert found.of(("t", 1), 3) == {"a": ((10, 12),), "b": ((10, 11),)}


def test_tasks_are_told_of_their_own_partition_and_of_what_is_in_several() -> None:
    known = [
        KnownSources(topic="t", partition=0, loaded=Hour(0), landed={"a": 10}),
        KnownSources(topic="t", partition=0, loaded=Hour(1), landed={"b": ((3, 4),)}),
        KnownSources(topic="t", partition=1, loaded=Hour(1), landed={"c": 1}),
        KnownSources(topic="t", partition=SEVERAL, loaded=Hour(1), landed={"d": 2}),
    ]
    several = {("t", SEVERAL): {"d": 2}}
    assert seen_in(known, [("t", 0)]) == {("t", 0): {"a": 10, "b": ((3, 4),)}} | several
    assert seen_in(known, [("t", 1), ("t", 2)]) == {("t", 1): {"c": 1}} | several
    assert seen_in(known, [("u", 0)]) == {}


def test_what_was_written_is_told_by_epoch() -> None:
    found = landed(
        report(piece(0, 0, 9), {}, sources={"a": ((0, 9),)}, leader_epoch=3),
        report(piece(1, 9, 20), {}, sources={"a": ((8, 19),), "b": ((0, 0),)}, leader_epoch=4),
        report(piece(2, 20, 22), {}, sources={"a": ((20, 21),)}, leader_epoch=4),
    )
    assert found.twice == {1: {"a": ((8, 9),)}}
    assert found.of(("t", 0), 3) == {"a": ((0, 9),)}
    assert found.of(("t", 0), 4) == {"a": ((10, 21),), "b": ((0, 0),)}
    assert found.of(("t", 0), 5) == {}


def test_topics_of_one_table_know_nothing_of_each_other() -> None:
    """A topic and its copy in another cluster have the same events, and both of them land."""
    known = KnownSources(topic="dc1.clicks", partition=0, loaded=Hour(0), landed={"a": 10})
    reports = [
        report(piece(0, 0, 9, topic="dc1.clicks"), {}, sources={"a": ((10, 19),)}),
        report(piece(1, 0, 9, topic="dc2.clicks"), {}, sources={"a": ((0, 19),)}),
    ]
    found = landed(*reports, known=(known,))
    assert found.twice == {}
    assert found.of(("dc2.clicks", 0), 3) == {"a": ((0, 19),)}


Event = tuple[str, int]
# Of each run its slices: a partition, and events.
RUNS = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), max_size=9),
        ),
        max_size=4,
    ),
    max_size=4,
)


def written(of: Slice, events: set[Event]) -> SliceReport:
    sources: dict[str, list[tuple[int, int]]] = {}
    for source, seq in events:
        sources.setdefault(source, []).append((seq, seq + 1))
    intervals = {source: closed(merged(each)) for source, each in sources.items()}
    return report(of, {}, no_events=0, sources=intervals)


@given(RUNS)
def test_whatever_comes_wherever_lands_once(runs: list[list[tuple[int, set[Event]]]]) -> None:
    """Each slice is told what its partition has had before; some are told more, once."""
    known: tuple[KnownSources, ...] = ()
    rows: Counter[Event] = Counter()
    for run in runs:
        slices = [piece(at, 0, 0, partition=each) for at, (each, _) in enumerate(run)]
        seen = seen_in(known, [each.origin for each in slices])
        found = LandedSources(known)
        wrote: list[set[Event]] = []
        for each, (_, events) in zip(slices, run, strict=True):
            told = {**seen.get((each.topic, SEVERAL), {}), **seen.get(each.origin, {})}
            new = {
                one
                for one in events
                if not contains(closed(intervals_of(told.get(one[0], ()))), one[1])
            }
            found.add(written(each, new))
            wrote.append(new)
        by_log: dict[Partition, Counter[Event]] = {}
        for each, new in zip(slices, wrote, strict=True):
            more = found.twice.get(each.number, {})
            again = {one for one in new if not contains(more.get(one[0], ()), one[1])}
            by_log.setdefault(each.origin, Counter()).update(again)
        for log, events_of_log in by_log.items():
            rows += events_of_log
            said = ((source, all_) for source, all_ in found.of(log, 3).items())
            assert (
                Counter(
                    (source, seq)
                    for source, intervals in said
                    for first, last in intervals
                    for seq in range(first, last + 1)
                )
                == events_of_log
            )
        known = after_run(known, found, now=NOW, forget=DAY)
    assert rows == Counter({event for run in runs for _, events in run for event in events})
    remembered = [source for each in known for source in each.landed]
    assert sorted(remembered) == sorted({source for source, _ in rows})


THIS_HOUR = hour_of(NOW)


def sources_of(
    seqs: Mapping[str, Landed], partition: int = 0, loaded: int = THIS_HOUR, topic: str = "t"
) -> KnownSources:
    return KnownSources(topic=topic, partition=partition, loaded=Hour(loaded), landed=dict(seqs))


def test_a_source_that_was_in_two_partitions_belongs_to_none_for_ever() -> None:
    def run(before: tuple[KnownSources, ...], *reports: SliceReport) -> tuple[KnownSources, ...]:
        return after_run(before, landed(*reports), now=NOW, forget=DAY)

    first = run((), report(piece(0, 0, 9), {}, sources={"a": ((0, 9),), "b": ((0, 4),)}))
    assert first == (sources_of({"a": 10, "b": 5}),)
    there = report(piece(0, 0, 9, partition=3), {}, sources={"a": ((10, 19),)})
    assert run(first, there) == (sources_of({"a": 20}, SEVERAL), sources_of({"b": 5}))
    here = report(piece(0, 9, 18), {}, sources={"a": ((20, 20),)})
    assert run(run(first, there), here) == (sources_of({"a": 21}, SEVERAL), sources_of({"b": 5}))
    at_once = run((), there, report(piece(1, 0, 9), {}, sources={"a": ((0, 9),)}))
    assert at_once == (sources_of({"a": 20}, SEVERAL),)


def test_topics_know_nothing_of_each_other() -> None:
    before = [
        sources_of({"a": 10}),
        sources_of({"a": 5}, topic="u", loaded=THIS_HOUR - HOUR_MILLIS),
    ]
    found = landed(
        report(piece(0, 0, 9, partition=3, topic="u"), {}, sources={"a": ((7, 9),)}),
        report(piece(1, 0, 9, topic="v"), {}, sources={"a": ((0, 2),)}, scattered=("b",)),
    )
    assert after_run(before, found, now=NOW, forget=DAY) == (
        sources_of({"a": 10}),
        sources_of({"a": ((0, 4), (7, 9))}, SEVERAL, topic="u"),
        sources_of({"a": 3}, topic="v"),
    )


def test_finished_sources_are_forgotten_first() -> None:
    past = THIS_HOUR - DAY
    holes: ClosedIntervals = ((0, 9), (11, 12))
    before = [
        sources_of({"lately": 10}, loaded=past),
        sources_of({"whole": 10, "hole": holes}, loaded=past - HOUR_MILLIS),
        sources_of({"no beginning": ((5, 9),)}, loaded=THIS_HOUR - 4 * DAY),
        sources_of({"long ago": holes}, loaded=THIS_HOUR - 4 * DAY - HOUR_MILLIS),
    ]
    after = after_run(before, LandedSources(), now=NOW, forget=DAY)
    assert {source for each in after for source in each.landed} == {
        "lately",
        "hole",
        "no beginning",
    }


def test_scattered_sources_are_not_remembered() -> None:
    found = landed(report(piece(0, 0, 9), {}, sources={"b": ((0, 1),)}, scattered=("a",)))
    assert after_run([sources_of({"a": 10})], found, now=NOW, forget=DAY) == (sources_of({"b": 2}),)


def test_sources_that_become_scattered_are_not_remembered() -> None:
    def odd(first: int) -> ClosedIntervals:
        return tuple((seq, seq) for seq in range(first, first + MOST_INTERVALS + 2, 2))

    first = report(piece(0, 0, 9), {}, sources={"a": odd(0)})
    second = report(piece(1, 9, 18), {}, sources={"a": odd(100_000)})
    assert after_run([], landed(first, second), now=NOW, forget=DAY) == ()
    assert after_run([], landed(first), now=NOW, forget=DAY) == (sources_of({"a": odd(0)}),)
