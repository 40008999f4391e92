"""Runs that are cut name the same events and the same bytes as before."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.runs import Excepted, Fate, Run, SourceId, WindowCount
from agent.shipping.replacing import cut_delays, cut_runs, dead_lettered, window_counts


@st.composite
def runs_and_places(draw: st.DrawFn) -> tuple[list[Run], list[int]]:
    """Runs of a batch, and where in its file each event starts."""
    runs, places = [], []
    for number in range(draw(st.integers(1, 4))):
        events = draw(st.integers(1, 5))
        start = draw(st.integers(0, 100))
        sizes = draw(st.lists(st.integers(1, 9), min_size=events, max_size=events))
        places += [start + sum(sizes[:at]) for at in range(events)]
        excepted = draw(st.sampled_from([(), (Excepted(Fate.FILTERED, 1, 1),)]))
        lines = events + draw(st.integers(0, 3))
        end = start + sum(sizes)
        runs.append(Run(SourceId(f"s{number}"), 10, events, start, end, lines, excepted))
    return runs, places


@given(runs_and_places(), st.data())
def test_parts_add_up(made: tuple[list[Run], list[int]], data: st.DataObject) -> None:
    runs, places = made
    cuts = data.draw(st.sets(st.integers(1, len(places) - 1))) if len(places) > 1 else set()
    bounds = [0, *sorted(cuts), len(places)]
    counts = [end - start for start, end in pairwise(bounds)]
    parts = list(cut_runs(runs, counts, [places[at] for at in bounds[:-1]]))
    assert [sum(run.events for run in part) for part in parts] == counts
    for run in runs:
        mine = [each for part in parts for each in part if each.source == run.source]
        assert mine[0].position == run.position
        assert mine[-1].end_position == run.end_position
        assert all(one.end_position == other.position for one, other in pairwise(mine))
        assert all(one.seq + one.events == other.seq for one, other in pairwise(mine))
        assert mine[0].seq == run.seq
        assert sum(each.lines for each in mine) == run.lines
        assert [each for part in mine for each in part.excepted] == list(run.excepted)
    firsts = [part[0].position for part in parts]
    assert firsts == [places[at] for at in bounds[:-1]]


def test_an_event_that_is_none_any_more() -> None:
    run = Run(SourceId("s"), 10, 1, 100, 150, 2, (Excepted(Fate.FILTERED, 1, 20),))
    dead = dead_lettered(run, "too large")
    assert (dead.seq, dead.events, dead.position, dead.end_position) == (10, 0, 100, 150)
    assert dead.excepted[-1] == Excepted(Fate.DEAD_LETTERED, 2, 30, "too large")


def test_windows() -> None:
    assert window_counts([65_000, 0, 59_999, 60_000, -1], 60_000) == (
        WindowCount(-60_000, 1),
        WindowCount(0, 2),
        WindowCount(60_000, 2),
    )


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20), st.data())
def test_delays_are_those_of_the_events(times: list[int], data: st.DataObject) -> None:
    now = data.draw(st.integers(0, 1 << 21))
    cut = data.draw(st.integers(0, len(times)))
    parts = [times[:cut], times[cut:]]
    whole = delays_at(now, times)
    found = cut_delays(whole, parts)
    assert found == [delays_at(now, part) for part in parts]
    assert cut_delays((), parts) == [(), ()]


def delays_at(now: int, times: list[int]) -> tuple[int, ...]:
    """As the ledger has them: below 1 ms, below 2, below 4 and so on."""
    counts = [0] * 24
    for time in times:
        counts[max(0, now - time).bit_length()] += 1
    return tuple(counts)
