"""The witness judges what is said of lines that were shipped twice, of landed files that were
spoilt twice, and of logs that lost more than anybody had counted; it tells what no program could
know from what is wrong."""

from pathlib import PurePath

import pytest
from msgspec.structs import replace

from tests.campaigns.reading import Record, Row
from tests.campaigns.witness.examples import (
    GREEN,
    PATH,
    landed,
    logged,
    missing,
    red,
    rules,
    theirs,
    written,
)
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.rules import guess_files
from tests.campaigns.witness.truth import LAST_LINE, Blind, File, Line, Truth
from tests.campaigns.witness.verdict import Called, Seen, Verdict


def file_of(number: int, *ends: int, written: int = 1000) -> File:
    """With lines that end at these bytes."""
    file = File("a", number, [PATH], size=ends[-1])
    for index, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
        file.lines.append(Line(f"{number} {index}", file, index, start, end, written))
    return file


def said(source: str, position: int, end_position: int, events: int = -1) -> Called:
    return Called(
        *("missing", "not at the brokers"),
        path=PATH,
        source=source,
        events=events,
        position=position,
        end_position=end_position,
        from_time=1000,
    )


def guessed(files: list[File], *called: Called) -> dict[str, int]:
    lost = {line.text for file in files for line in file.lines}
    return {source: file.number for source, file in guess_files(called, files, lost).items()}


def test_a_stretch_begins_and_ends_where_lines_do() -> None:
    files = [file_of(1, 20, 50, 90), file_of(2, 30, 60), file_of(3, 10, 60, 80, written=9000)]
    called = said("s3", 0, 60), said("s2", 30, 60), said("s1", 50, 90)
    assert guessed(files, *called) == {"s1": 1, "s2": 2, "s3": 3}


def test_there_are_as_many_lines_as_events() -> None:
    files = [file_of(1, 30, 60), file_of(2, 30, 40, 60), file_of(3, 60)]
    called = said("s2", 0, 60, events=3), said("s3", 0, 60, events=1)
    assert guessed(files, *called) == {"s2": 2, "s3": 3}


def test_a_file_is_one_source_only_and_had_its_path() -> None:
    elsewhere = file_of(1, 30)
    elsewhere.names = ["/logs/two/c.log"]
    assert guessed([elsewhere, file_of(2, 30)], said("s1", 0, 30), said("s2", 0, 30)) == {"s1": 2}


FILE = "t/dt=1/hour=1/part.parquet"
COPY = "t/dt=1/hour=1/copy-part.parquet"


def shipped(number: int, offset: int, source: str, *, stands: bool) -> Kept:
    record = Record(offset, source, number, number * 10, f"line {number:04}")
    return Kept(record, stands=stands)


def again(number: int) -> Called:
    """What a new agent has shipped once more."""
    return replace(missing(number, 1, words="twice"), kind="duplicated", source="s2")


def rules_of(truth: Truth, seen: Seen, verdict: Verdict) -> list[str]:
    return sorted(each.rule for each in judge(truth, seen, verdict))


def test_a_line_that_was_shipped_twice_and_lost_once_is_called_both() -> None:
    old = shipped(1, 1, "s1", stands=False)
    new = shipped(1, 7, "s2", stands=True)
    rows = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=7)]
    both = red(missing(1, 1), again(1), missing=1)
    assert rules_of(written(3), Seen(rows, [old, new]), both) == []
    # One of the two alone is red over nothing: each line is there once.
    alone = red(missing(1, 1), missing=1)
    assert rules_of(written(3), Seen(rows, [old, new]), alone) == ["not lost"]
    assert rules_of(written(3), Seen(rows, [old, new]), red(again(1))) == ["not double"]
    # What the log still has is not lost, and what was never shipped again is not double.
    kept = shipped(1, 1, "s1", stands=True)
    assert rules_of(written(3), Seen(rows, [kept, new]), both) == ["not double", "not lost"]
    other = [*landed(0, 2), replace(landed(1, source="s3")[0], offset=7)]
    seen = Seen(other, [old, shipped(1, 7, "s3", stands=True)])
    assert rules_of(written(3), seen, both) == ["not double"]


def test_a_line_that_was_shipped_twice_as_the_same_file_and_lost_twice_is_called_so() -> None:
    """It was twice in a log that is gone."""
    records = [shipped(1, 1, "s1", stands=False), shipped(1, 7, "s1", stands=False)]
    rows = landed(0, 2)
    gone = [replace(missing(1, 1), offset=offset, offsets=1) for offset in (1, 7)]
    twice = replace(again(1), source="s1")
    assert rules_of(written(3), Seen(rows, records), red(*gone, twice, missing=2)) == []
    # So it is of a log that had lost its end, and was sent the same again, at the same offset.
    both = replace(records[0], times=2)
    assert rules_of(written(3), Seen(rows, [both]), red(gone[0], twice, missing=1)) == []
    # It was there once, and that is said to be gone.
    assert rules_of(written(3), Seen(rows, records[:1]), red(gone[0], twice, missing=1)) == [
        "not double"
    ]


def in_file(path: str, *numbers: int) -> list[Row]:
    return [replace(row, file=f"/warehouse/{path}") for row in landed(*numbers)]


def test_a_landed_file_that_is_gone_is_missing_though_its_rows_are_elsewhere() -> None:
    gone = Called("missing", "it is gone", tier="hdfs", path=FILE, events=2)
    copy = Called("duplicated", "written by no load", tier="hdfs", path=COPY, events=2)
    truth = written(3)
    truth.landed = {FILE: in_file(FILE, 0, 1), COPY: in_file(COPY, 0, 1)}
    rows = [*in_file(COPY, 0, 1), *in_file("t/dt=1/hour=1/other.parquet", 2)]
    assert rules_of(truth, Seen(rows), red(gone, copy, missing=2)) == []
    assert rules_of(truth, Seen(rows), red(gone, missing=2)) == ["not lost"]
    there = [*rows, *in_file(FILE, 0, 1)]
    assert rules_of(truth, Seen(there), red(gone, copy, missing=2)) == ["not lost"]
    # Or because an agent that had forgotten them has shipped them again.
    truth.landed = {FILE: in_file(FILE, 0, 1)}
    rows = [
        replace(landed(1, source="s2")[0], offset=7),
        *in_file("t/dt=1/hour=1/other.parquet", 2),
    ]
    assert rules_of(truth, Seen(rows), red(gone, again(1), missing=2)) == []


BEYOND = Called("unknown", "?", tier="broker", partition=0, offset=3, offsets=1, from_time=8_000)


def rules_beyond(
    truth: Truth, rows: list[Row], records: list[Kept], called: Called = BEYOND
) -> list[str]:
    seen = Seen(rows, records)
    return sorted(each.rule for each in judge(truth, seen, red(called, state="unknown")))


def unclean() -> Truth:
    truth = written(3)
    truth.foreign.add("theirs 3")
    truth.any_leads = True
    return truth


def test_it_must_have_been_possible() -> None:
    records = [*logged(0, 1, 2), theirs(3)]
    rows = [*landed(0, 1, 2), Row("part.parquet", "", -1, -1, 3, "theirs 3")]
    assert rules_beyond(unclean(), rows, records) == []
    removed = unclean()
    removed.any_leads = False
    assert rules_beyond(removed, rows, records) == ["unexplained"]
    removed.done.add("remove-partition")
    assert rules_beyond(removed, rows, records) == []


def test_it_covers_no_line_before_it() -> None:
    records = [*logged(0, 1, 2), theirs(4)]
    late = Called("unknown", "?", partition=0, offset=2, from_time=0, to_time=99_000)
    assert rules_beyond(unclean(), landed(0, 1), records, late) == []
    assert rules_beyond(unclean(), landed(0, 2), records, late) == ["hole"]


def test_what_was_emptied_before_anything_was_read_of_it_is_such_a_hole_too() -> None:
    truth = written(3)
    truth.files[0].ended, truth.files[0].cut = 60_000, True
    truth.blind.append(Blind(0, 90_000))
    seen = Seen(landed(), [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    assert rules(truth, landed(0, 1), GREEN) == ["green", "hole"], "it had been read"


def test_that_it_may_be_so_can_be_said_without_being_red() -> None:
    """Of such lines alone, in that time and that place."""
    truth = written(3)
    (file,) = truth.files
    file.ended, file.cut = 60_000, True
    truth.blind.append(Blind(0, 90_000))
    moment = Called(
        *("unknown", "words", "agent", truth.host, str(PurePath(PATH).parent)),
        from_time=0,
        to_time=90_000,
        harmless="for a moment only, and new files are hardly ever emptied that soon",
    )
    seen = Seen(landed(), [])
    assert judge(truth, seen, replace(GREEN, findings=(moment,))) == []
    for other in (
        replace(moment, harmless="", accepted="by an operator"),
        replace(moment, path="/elsewhere"),
        replace(moment, from_time=80_000),
    ):
        broken = [each.rule for each in judge(truth, seen, replace(GREEN, findings=(other,)))]
        assert broken == ["brief hole", "green"]
    file.cut = False
    broken = [each.rule for each in judge(truth, seen, replace(GREEN, findings=(moment,)))]
    assert broken == ["hole", "green"], "it was not emptied in place"


@pytest.mark.parametrize(("size", "rule"), [(1023, "small copy"), (1024, "double")])
def test_that_a_file_is_the_copy_of_one_that_is_gone_is_known_of_large_ones(
    size: int, rule: str
) -> None:
    truth = written(2)
    (file,) = truth.files
    file.copied = file.original_gone = 60_000
    file.size = size
    twice = [*landed(0, 1), *landed(0, 1, source="s2")]
    assert rules(truth, twice, GREEN) == sorted([rule, "green"])


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
