"""Passages add up to the statements that they are made of, however those are spread."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.journal.state import Shipped, WindowPassed
from agent.ledger.passages import bare_passage, merged, passages_of, run_json
from agent.runs import Excepted, Fate, Run, SourceId

A, B = SourceId("a"), SourceId("b")


def no_path(source: str) -> str:
    return ""


def shipped_of(number: int, base_offset: int, *runs: Run, **changes: Any) -> Shipped:
    events = sum(run.events for run in runs)
    fields: dict[str, Any] = {
        "number": number,
        "topic": "t",
        "topic_id": "id",
        "partition": 0,
        "leader_epoch": 3,
        "base_offset": base_offset,
        "offsets": events,
        "windows": (WindowPassed(0, events, 100 + number, 2**32 - 1),),
        "runs": runs,
        "delays": (0, events),
    }
    return Shipped(**fields | changes)


def lines_of(source: SourceId, seq: int, events: int, *excepted: Excepted) -> Run:
    """Ten bytes a line."""
    extra = sum(each.bytes for each in excepted)
    return Run(source, seq, events, seq * 10, (seq + events) * 10 + extra, events, excepted)


def test_what_touches_is_one() -> None:
    statements = [
        shipped_of(1, 10, lines_of(A, 0, 5)),
        shipped_of(2, 15, lines_of(A, 5, 5), lines_of(B, 0, 2), delays=(1, 3, 3)),
        shipped_of(3, 30, lines_of(B, 2, 2)),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 10, "count": 12}, {"first": 30, "count": 2}]
    assert passage["windows"] == [
        {"start": 0, "events": 14, "bytes": 306, "crc_sum": 3 * (2**32 - 1)}
    ]
    assert [(run["source"], run["seq"], run["events"]) for run in passage["runs"]] == [
        ("a", 0, 10),
        ("b", 0, 4),
    ]
    assert passage["delays"] == [1, 10, 3]
    assert passage["leader_epoch"] == 3


def test_delays_are_those_of_all_events_or_of_none() -> None:
    statements = [
        shipped_of(1, 0, lines_of(A, 0, 5)),
        shipped_of(2, 5, lines_of(A, 5, 5), delays=()),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["delays"] == []


def test_in_the_order_of_offsets() -> None:
    statements = [shipped_of(2, 5, lines_of(A, 5, 5)), shipped_of(1, 0, lines_of(A, 0, 5))]
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 0, "count": 10}]
    assert [run["events"] for run in passage["runs"]] == [10]


def test_partitions_topics_and_leaders_stay_apart() -> None:
    statements = [
        shipped_of(1, 0, lines_of(A, 0, 1)),
        shipped_of(2, 1, lines_of(A, 1, 1), leader_epoch=4),
        shipped_of(3, 0, lines_of(A, 2, 1), topic_id="another"),
        shipped_of(4, 0, lines_of(A, 3, 1), partition=1),
        shipped_of(5, 0, lines_of(A, 4, 1), topic="t.dead"),
    ]
    assert len(passages_of(statements, no_path)) == 5


def test_windows_are_sums_in_ascending_order() -> None:
    early, late = WindowPassed(0, 1, 10, 1), WindowPassed(60_000, 2, 0, 0)
    statements = [
        shipped_of(1, 0, lines_of(A, 0, 3), windows=(early, late)),
        shipped_of(2, 3, lines_of(A, 3, 2), windows=(WindowPassed(60_000, 2, 20, 5),)),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["windows"] == [
        {"start": 0, "events": 1, "bytes": 10, "crc_sum": 1},
        {"start": 60_000, "events": 4, "bytes": 20, "crc_sum": 5},
    ]


def test_what_was_excepted_is_summed_by_reason() -> None:
    filtered, other = Excepted(Fate.FILTERED, 1, 5, "debug"), Excepted(Fate.FILTERED, 2, 7, "x")
    first = Run(A, 0, 1, 0, 15, 1, (filtered,))
    second = Run(A, 1, 1, 15, 40, 1, (filtered, other))
    (run,) = merged([first, second])
    assert run == Run(A, 0, 2, 0, 40, 2, (Excepted(Fate.FILTERED, 2, 10, "debug"), other))
    unknown = Run(A, 2, 1, 40, 50, 1, (Excepted(Fate.FILTERED, -1, -1, "x"),))
    (run,) = merged([second, unknown])
    assert run.excepted[-1] == Excepted(Fate.FILTERED, -1, -1, "x")


def test_what_was_lost_keeps_its_name() -> None:
    lost = Run(A, 5, 0, 50, 90, 0, (Excepted(Fate.LOST, -1, 40, "truncated"),))
    after = Run(A, 5, 1, 90, 100, 1)
    runs = [lines_of(A, 0, 5), lost, after]
    assert merged(runs) == runs
    assert bare_passage("t", "id", runs, no_path)["partition"] == -1


def test_lines_are_said_where_they_are_not_events() -> None:
    assert run_json(lines_of(A, 0, 3), no_path)["lines"] == -1
    assert run_json(Run(A, 0, 3, 0, 90, 7), no_path)["lines"] == 7
    assert run_json(lines_of(A, 0, 3), lambda source: f"/{source}")["path"] == "/a"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_however_spread(sizes: list[int], data: st.DataObject) -> None:
    """Runs of two sources, alternating: what is merged says of every offset what it was."""
    statements, seqs, offset = [], {A: 0, B: 0}, 0
    for number, size in enumerate(sizes):
        source = data.draw(st.sampled_from([A, B]))
        statements.append(shipped_of(number, offset, lines_of(source, seqs[source], size)))
        seqs[source] += size
        offset += size
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 0, "count": offset}]
    said = [
        (run["source"], run["seq"] + at) for run in passage["runs"] for at in range(run["events"])
    ]
    true = [
        (run.source, run.seq + at)
        for each in statements
        for run in each.runs
        for at in range(run.events)
    ]
    assert said == true
    assert all(one["source"] != other["source"] for one, other in pairwise(passage["runs"]))
