"""The witness judged: fed with a verdict that is wrong, it objects, by each of its rules; fed with
one that is right, it does not."""

import pytest
from msgspec.structs import replace

from tests.campaigns.reading import DeadLetter, Row
from tests.campaigns.witness.examples import (
    GREEN,
    PATH,
    judged,
    landed,
    logged,
    missing,
    numbers_of,
    of_others,
    offsets,
    red,
    row_of,
    rules,
    theirs,
    written,
)
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.truth import Blind, Change
from tests.campaigns.witness.verdict import Called, Cell, Seen, Verdict

ALL, LOSING, TWO = landed(0, 1, 2, 3, 4), landed(0, 1, 4), landed(0, 1)
THREE, DOUBLE = landed(0, 1, 2), [*landed(0, 1, 2), *landed(1, source="s2")]
EXACT = red(missing(2, 2), missing=2)
AROUND = replace(missing(0, 2, words="within bytes 0 to 50"), seq=-1, end_position=50)
LOST = Called("lost", "3 lines were gone", path=PATH, position=20, end_position=40, events=3)
TWICE = Called("duplicated", "twice", source="s1", seq=1, events=1)
NOBODY = Called("duplicated", "206 events have arrived twice")
UNNAMED = red(Called("unnamed", "2 events", events=2, from_time=0, to_time=10_000), missing=2)
NAMELESS = replace(offsets(2, 2), events=-1)
PENDING = Verdict(2, "pending", waits=("web-1: the agent is done up to …",))
FLOW = {"read": 5, "shipped": 3, "filtered": 0, "dead": 0, "lost": 0}


@pytest.mark.parametrize(
    ("lines", "rows", "verdict", "broken"),
    [
        (5, ALL, GREEN, []),
        (5, ALL, EXACT, ["not lost"]),
        (5, ALL, replace(GREEN, findings=(replace(missing(2, 2), accepted="known"),)), []),
        (5, ALL, UNNAMED, ["unexplained"]),
        (5, LOSING, EXACT, []),
        (5, LOSING, red(missing(1, 3), missing=3), ["not lost"]),
        (5, LOSING, red(AROUND, missing=2), []),
        (5, LOSING, red(replace(AROUND, events=3), missing=3), ["count"]),
        (5, LOSING, red(LOST), ["count"]),
        (5, LOSING, red(replace(LOST, events=2)), []),
        (5, LOSING, red(offsets(2, 2), missing=2), []),
        (5, landed(0, 1, 2, 4), red(offsets(2, 2), missing=2), ["not lost"]),
        (5, LOSING, UNNAMED, []),
        (5, landed(0, 1, 3, 4), UNNAMED, ["count"]),
        # What is still waited for is no hole, and is stuck, whatever else is wrong.
        (5, TWO, PENDING, ["stuck"]),
        (
            5,
            landed(0, 1, 2, 3),
            replace(red(missing(4, 1), missing=1), waits=PENDING.waits),
            ["stuck"],
        ),
        (3, DOUBLE, GREEN, ["double", "green"]),
        (3, DOUBLE, red(TWICE, state="duplicated"), []),
        (3, DOUBLE, red(NOBODY, state="duplicated"), ["double", "not double"]),
        (3, THREE, red(TWICE, state="duplicated"), ["not double"]),
        (3, [*THREE, Row("part.parquet", "", 0, 0, 7, "line 9999")], GREEN, ["rows"]),
        (3, [*TWO, replace(landed(2)[0], position=7)], GREEN, ["rows"]),
        (3, THREE, replace(GREEN, exit_code=1), ["exit", "exit"]),
        (3, THREE, replace(GREEN, state="missing"), ["exit"]),
        (3, THREE, Verdict(4, "", stderr="no such topic"), ["stuck"]),
        (3, [], Verdict(6, "empty"), ["green", "hole"]),
        (0, [], Verdict(6, "empty"), []),
        (5, LOSING, replace(EXACT, missing=201), ["sums"]),
        (5, LOSING, replace(EXACT, hosts_missing=0), ["sums"]),
        (5, LOSING, replace(EXACT, landed_events=5), ["sums"]),
        (5, LOSING, red(NAMELESS, missing=2), []),
        (5, LOSING, red(NAMELESS, missing=3), ["sums"]),
        (5, LOSING, replace(EXACT, flow=FLOW), ["sums"]),
        (5, LOSING, replace(EXACT, flow={**FLOW, "lost": 2}), []),
    ],
)
def test_a_verdict_over_what_has_landed(
    lines: int, rows: list[Row], verdict: Verdict, broken: list[str]
) -> None:
    assert rules(written(lines), rows, verdict) == broken


def test_a_lost_line_under_a_green_verdict_is_named() -> None:
    found = judged(written(5), landed(0, 1, 3, 4), GREEN)
    assert [(each.rule, each.kind) for each in found] == [
        ("hole", "false green"),
        ("green", "false green"),
    ]
    assert numbers_of(found[0]) == [2]


def test_a_line_without_end_is_a_line_or_none_where_lines_are_counted() -> None:
    lost = Called("lost", "some lines were gone", path=PATH, position=30, end_position=50)
    for unfinished, events, broken in (
        *((False, 2, []), (False, 1, ["count"])),
        *((True, 2, []), (True, 1, []), (True, 3, ["count"])),
    ):
        truth = written(5)
        truth.files[0].lines[4].unfinished = unfinished
        called = red(replace(lost, events=events))
        assert rules(truth, landed(0, 1, 2), called) == broken
        assert rules(truth, landed(0, 1, 2), GREEN) == ["green", "hole"]


def test_a_window_that_waits_holds_what_was_written_in_it_only() -> None:
    cells = (Cell(0, 3000, "pending"), Cell(3000, 5000, "missing"))
    verdict = replace(red(missing(4, 1), missing=1), cells=cells)
    found = judged(written(5), landed(2), verdict)
    assert [(each.rule, numbers_of(each)) for each in found] == [("hole", [3])]
    assert found[0].kind == "not exact"
    both = replace(verdict, cells=(cells[0], replace(cells[1], waits=True)))
    assert judged(written(5), landed(2), both) == []


def test_what_others_wrote_may_be_missing_too() -> None:
    records = [*logged(*range(4)), theirs(4), theirs(5)]
    gone = offsets(2, 4)
    assert judge(written(4), Seen(landed(0, 1), records), red(gone, missing=4)) == []
    more = red(replace(gone, events=5), missing=5)
    found = judge(written(4), Seen(landed(0, 1), records), more)
    assert [each.rule for each in found] == ["count"]


def test_a_lost_record_of_others_under_a_green_verdict_is_named() -> None:
    assert of_others(written(3), GREEN, theirs(3)) == ["green", "hole"]
    assert of_others(written(3), GREEN, theirs(3), rows=[row_of(theirs(3))]) == []
    assert of_others(written(3), GREEN, theirs(3), dead=[DeadLetter(3, "theirs 3")]) == []
    assert of_others(written(3), GREEN, theirs(3), dead=[DeadLetter(2, "theirs 3")]) == [
        *("green", "hole")
    ]
    beside = red(missing(0, 1), missing=1)
    assert of_others(written(3), beside, theirs(3)) == ["hole", "not lost"]
    assert of_others(written(3), red(offsets(3, 1), missing=1), theirs(3)) == []


def test_what_was_never_acknowledged_need_not_arrive() -> None:
    assert of_others(written(3), GREEN, replace(theirs(3), others=False)) == []


def test_offsets_of_which_some_became_something_are_not_lost() -> None:
    records = [theirs(3), theirs(4)]
    called = red(offsets(3, 2), missing=2)
    assert of_others(written(3), called, *records) == []
    assert of_others(written(3), called, *records, rows=[row_of(records[1])]) == ["not lost"]
    assert of_others(written(3), red(offsets(7, 1), missing=1)) == ["not lost"]


def test_what_others_lost_and_has_no_name_is_counted() -> None:
    unnamed = Called("unnamed", "1 event", events=1, from_time=8_000, to_time=10_000)
    assert of_others(written(3), red(unnamed, missing=1), theirs(3)) == []
    assert of_others(written(3), red(unnamed, missing=1), theirs(3, time=20_000)) == [
        *("hole", "unexplained")
    ]
    named = red(unnamed, offsets(3, 1), missing=2)
    assert of_others(written(3), named, theirs(3), theirs(4)) == []
    assert of_others(written(3), named, theirs(3)) == ["unexplained"]


def test_a_landed_file_of_others_alone_is_lost_and_double_like_any_other() -> None:
    path, copy = "t/dt=1/hour=1/part.parquet", "t/dt=1/hour=1/copy.parquet"
    records = [theirs(3), theirs(4)]
    rows = [row_of(each, path) for each in records]
    gone = Called("missing", "2 rows", tier="hdfs", path=path, events=2)
    twice = Called("duplicated", "2 rows", tier="hdfs", path=copy, events=2)
    truth = written(3)
    truth.landed[path] = rows
    assert of_others(truth, red(gone, missing=2), *records) == []
    assert of_others(truth, red(replace(gone, events=1), missing=1), *records) == ["count"]
    assert of_others(truth, red(gone, missing=2), *records, rows=rows) == ["not lost"]
    assert of_others(truth, GREEN, *records) == ["green", "hole"]
    truth.landed[copy] = again = [row_of(each, copy) for each in records]
    called = red(twice, state="duplicated")
    assert of_others(truth, called, *records, rows=[*rows, *again]) == []
    assert of_others(truth, GREEN, *records, rows=[*rows, *again]) == ["double", "green"]
    del truth.landed[path]
    assert of_others(truth, called, *records, rows=again) == ["not double"]


def test_a_row_of_others_is_at_an_offset_where_it_was() -> None:
    there = theirs(3)
    elsewhere = replace(row_of(there), offset=4)
    assert of_others(written(3), GREEN, there, rows=[row_of(there), elsewhere]) == ["rows"]


def test_unknown_is_right_where_the_agent_was_away_and_names_changed() -> None:
    unknown = Called("unknown", "?", host="web-1", path="/logs/one", from_time=2500, to_time=4500)
    truth = written(5)
    assert rules(truth, landed(0, 1, 4), red(unknown, state="unknown")) == ["unexplained"]
    truth.blind.append(Blind(2400, 4600))
    assert rules(truth, landed(0, 1, 4), red(unknown, state="unknown")) == ["unexplained"]
    truth.changes.append(Change(3000, "/logs/one", "a.log is gone"))
    assert rules(truth, landed(0, 1, 4), red(unknown, state="unknown")) == []
    assert rules(truth, landed(0, 4), red(unknown, state="unknown")) == ["hole"]


def test_what_no_pattern_matches_before_the_agent_was_there_need_not_arrive() -> None:
    truth = written(2)
    truth.first_look, truth.files[0].hidden = 5_000, 4_999
    assert rules(truth, landed(0), GREEN) == []
    truth.files[0].hidden = 5_000
    assert rules(truth, landed(0), GREEN) == ["green", "hole"]


def test_unknown_in_another_folder_covers_nothing() -> None:
    unknown = Called("unknown", "?", host="web-1", path="/logs/two", from_time=0, to_time=9000)
    truth = written(5)
    truth.blind.append(Blind(0, 9000))
    truth.changes.append(Change(3000, "/logs/two", "b.log is gone"))
    assert rules(truth, landed(0, 1, 4), red(unknown, state="unknown")) == ["hole"]


def test_unknown_beyond_a_byte_covers_that_file_from_there() -> None:
    vanished = Called(
        *("unknown", "vanished while nobody watched"),
        host="web-1",
        path=PATH,
        source="s1",
        position=20,
        from_time=2500,
        to_time=4500,
    )
    truth = written(4)
    assert rules(truth, landed(0, 1), red(vanished, state="unknown")) == ["unexplained"]
    truth.blind.append(Blind(2400, 4600))
    truth.files[0].ended = 4500
    assert rules(truth, landed(0, 1), red(vanished, state="unknown")) == []
    assert rules(truth, landed(0, 2), red(vanished, state="unknown")) == ["hole"]


def test_what_is_called_changed_or_unproven_was_spoilt() -> None:
    truth = written(3)
    for kind, cause in (("changed", "flip-segment"), ("unproven", "tear-journal")):
        called = red(Called(kind, "?"), state="changed")
        assert rules(truth, landed(0, 1, 2), called) == ["unexplained"]
        truth.done.add(cause)
        assert rules(truth, landed(0, 1, 2), called) == []


def test_a_spoilt_file_is_what_was_in_it() -> None:
    truth = written(5)
    truth.landed["t/dt=1/hour=1/part.parquet"] = landed(3, 4)
    gone = Called("missing", "2 rows", tier="hdfs", path="t/dt=1/hour=1/part.parquet", events=2)
    assert rules(truth, landed(0, 1, 2), red(gone, missing=2)) == []
