"""What is written in pieces, and taken for two lines: the witness counts it as one, or as two."""

import pytest
from msgspec.structs import replace

from tests.campaigns.witness.examples import GREEN, PATH, landed, logged, red, rules, written
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.reading import Record, Row
from tests.campaigns.witness.truth import LAST_LINE, Truth
from tests.campaigns.witness.verdict import Called, Seen


def records_of(rows: list[Row]) -> list[Kept]:
    return [Kept(Record(row.offset, row.source, row.seq, row.position, row.text)) for row in rows]


def in_two_pieces(apart: int) -> Truth:
    """The last of three lines was written in two pieces, so many milliseconds apart."""
    truth = written(3)
    line = truth.files[0].lines[2]
    line.beginning, line.begun = line.text[:5], line.written - apart
    return truth


def test_a_line_in_two_pieces_is_one_or_if_these_stood_apart_two() -> None:
    half = Row("part.parquet", "s1", 2, 20, 2, "line ")
    rest = Row("part.parquet", "s1", 3, 25, 3, "0002")
    for apart, broken in ((100, ["rows"]), (LAST_LINE * 1000, [])):
        assert rules(in_two_pieces(apart), landed(0, 1, 2), GREEN) == []
        rows = [*landed(0, 1), half, rest]
        found = judge(in_two_pieces(apart), Seen(rows, logged(0, 1)), GREEN)
        assert [each.rule for each in found] == broken
    found = judge(in_two_pieces(5_000), Seen([*landed(0, 1), half], logged(0, 1)), GREEN)
    assert [each.rule for each in found] == ["hole", "green"]


def test_what_one_agent_read_in_two_and_another_whole_is_double() -> None:
    truth = written(3)
    line = truth.files[0].lines[2]
    line.beginning, line.begun, line.written = "line", 0, 60_000
    first = Row("part.parquet", "s1", 2, 20, 2, "line")
    rest = Row("part.parquet", "s1", 3, 24, 3, " 0002")
    rows = [*landed(0, 1), first, rest, *landed(0, 1, 2, source="s2")]
    twice = Called("duplicated", "twice", source="s2", seq=0, events=3, path=PATH)
    assert judge(truth, Seen(rows, records_of(rows)), red(twice, state="duplicated")) == []


@pytest.mark.parametrize(("events", "broken"), [(4, []), (2, []), (5, ["count"])])
def test_rows_that_were_halves_of_a_line_may_count(events: int, broken: list[str]) -> None:
    """Their file is gone; another agent has read the line whole."""
    truth = in_two_pieces(LAST_LINE * 1000)
    first = Row("gone.parquet", "s1", 2, 20, 2, "line ")
    rest = Row("gone.parquet", "s1", 3, 25, 3, "0002")
    before = [replace(each, file="gone.parquet") for each in landed(0, 1)]
    truth.landed["gone.parquet"] = [*before, first, rest]
    lost = Called("missing", "is gone", tier="hdfs", path="gone.parquet", events=events)
    left = landed(2, source="s2")
    seen = Seen(left, records_of([*before, first, rest, *left]))
    found = [each.rule for each in judge(truth, seen, red(lost, missing=events))]
    assert [each for each in found if each != "sums"] == broken


@pytest.mark.parametrize(("events", "broken"), [(3, []), (4, []), (5, ["count"])])
def test_lost_lines_of_which_nobody_knows_whether_they_were_two_may_count(
    events: int, broken: list[str]
) -> None:
    """The log has lost them before the witness read it."""
    truth = in_two_pieces(LAST_LINE * 1000)
    lost = Called("missing", "?", "broker", path=PATH, position=0, end_position=30, events=events)
    found = [each.rule for each in judge(truth, Seen([], []), red(lost, missing=events))]
    assert [each for each in found if each != "sums"] == broken
