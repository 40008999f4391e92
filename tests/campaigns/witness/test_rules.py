"""The witness judges what is said of lines that were shipped twice, of landed files that were
spoilt twice, and of logs that lost more than anybody had counted; it tells what no program could
know from what is wrong."""

from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tests.campaigns.reading import Record, Row
from tests.campaigns.witness.examples import (
    GREEN,
    PATH,
    SIZE,
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
from tests.campaigns.witness.pipeline import Pipeline
from tests.campaigns.witness.programs import Program
from tests.campaigns.witness.rules import guess_files
from tests.campaigns.witness.spoiling import Spoiler
from tests.campaigns.witness.truth import LAST_LINE, NEVER, Blind, File, Line, Truth
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


def test_all_that_is_said_of_a_source_must_fit() -> None:
    files = [file_of(1, 30, 60, 100), file_of(2, 30, 70, 100), file_of(3, 30, 80, 100)]
    assert guessed(files, said("s1", 0, 30), said("s1", 30, 80)) == {"s1": 3}


def test_there_are_as_many_lines_as_events() -> None:
    files = [file_of(1, 30, 60), file_of(2, 30, 40, 60), file_of(3, 60)]
    called = said("s2", 0, 60, events=3), said("s3", 0, 60, events=1)
    assert guessed(files, *called) == {"s2": 2, "s3": 3}


def test_the_beginning_of_a_line_may_have_been_all_there_was() -> None:
    files = [file_of(1, 30, 65), file_of(2, 30, 60)]
    files[1].lines[1].beginning = "x" * 12
    assert guessed(files, said("s1", 42, -1)) == {"s1": 2}


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


def test_a_line_that_was_shipped_again_and_then_lost_is_called_both() -> None:
    old, new = shipped(1, 1, "s1", stands=True), shipped(1, 7, "s2", stands=False)
    rows = landed(0, 1, 2)
    gone = replace(missing(1, 1), source="s2")
    seen = Seen(rows, [old, new])
    assert rules_of(written(3), seen, red(gone, again(1), missing=1)) == []
    assert rules_of(written(3), seen, red(again(1))) == ["not double"]
    # It is there as the very source that is named: it was not shipped again.
    same = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=1)]
    assert "not double" in rules_of(written(3), Seen(same, [new]), red(gone, again(1), missing=1))


def test_a_line_that_was_lost_and_shipped_again_as_the_same_file_is_called_both() -> None:
    """What was lost is known by its offset alone, as the line itself has landed."""
    old, new = shipped(1, 1, "s1", stands=False), shipped(1, 7, "s1", stands=True)
    rows = [*landed(0, 2), replace(landed(1)[0], offset=7)]
    gone = Called("missing", "gone", tier="hdfs", partition=0, offset=1, offsets=1)
    twice = replace(again(1), source="s1")
    seen = Seen(rows, [old, new])
    assert rules_of(written(3), seen, red(gone, twice, missing=1)) == []
    assert rules_of(written(3), seen, red(twice)) == ["not double"]
    other = replace(gone, offset=2)
    assert "not double" in rules_of(written(3), seen, red(other, twice, missing=1))


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


def test_that_a_lost_line_is_there_as_a_small_copy_nobody_can_know() -> None:
    rows = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=7)]
    for gone, broken in ((False, ["not lost"]), (True, [])):
        truth = written(3)
        if gone:
            truth.files[0].original_gone = 9_000
        seen = Seen(rows, [shipped(1, 1, "s1", stands=False), shipped(1, 7, "s2", stands=True)])
        assert rules_of(truth, seen, red(missing(1, 1), missing=1)) == broken


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


def test_what_was_in_a_landed_file_is_known_though_it_is_spoilt_again(tmp_path: Path) -> None:
    file = tmp_path / "warehouse" / FILE
    file.parent.mkdir(parents=True)
    rows = landed(*range(200))
    columns: dict[str, list[Any]] = {
        "source": [row.source for row in rows],
        "seq": [row.seq for row in rows],
        "position": [row.position for row in rows],
        "_offset": [row.offset for row in rows],
        "message": [row.text for row in rows],
    }
    pq.write_table(pa.table(columns), file)
    truth = Truth(host="web-1", topic="t")
    pipeline = cast(
        Pipeline, SimpleNamespace(loader=SimpleNamespace(warehouse=tmp_path / "warehouse"))
    )
    nobody = cast(Program, SimpleNamespace(alive=False))
    spoiler = Spoiler(pipeline, nobody, tmp_path / "data", truth, 1)
    assert spoiler.flip_landed()
    assert spoiler.copy_landed()
    assert spoiler.remove_landed()
    texts = {path: [row.text for row in rows] for path, rows in truth.landed.items()}
    assert texts == {each: [f"line {number:04}" for number in range(200)] for each in (FILE, COPY)}


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


def test_it_covers_what_others_wrote_then() -> None:
    covering = Called("unknown", "?", partition=0, offset=3, from_time=8_000, to_time=9_500)
    records = [*logged(0, 1, 2), theirs(3)]
    assert rules_beyond(unclean(), landed(0, 1, 2), records, covering) == []
    early = Called("unknown", "?", partition=0, offset=3, from_time=5_000, to_time=6_500)
    assert rules_beyond(unclean(), landed(0, 1, 2), records, early) == ["hole"]


def test_it_must_have_been_possible() -> None:
    records = [*logged(0, 1, 2), theirs(3)]
    rows = [*landed(0, 1, 2), Row("part.parquet", "", -1, -1, 3, "theirs 3")]
    assert rules_beyond(unclean(), rows, records) == []
    removed = unclean()
    removed.any_leads = False
    assert rules_beyond(removed, rows, records) == ["unexplained"]
    removed.done.add("remove-partition")
    assert rules_beyond(removed, rows, records) == []


def test_agents_say_what_they_have_sent() -> None:
    assert rules_beyond(unclean(), landed(0, 1, 2), logged(0, 1, 2)) == ["unexplained"]


def test_it_covers_no_line_before_it() -> None:
    records = [*logged(0, 1, 2), theirs(4)]
    late = Called("unknown", "?", partition=0, offset=2, from_time=0, to_time=99_000)
    assert rules_beyond(unclean(), landed(0, 1), records, late) == []
    assert rules_beyond(unclean(), landed(0, 2), records, late) == ["hole"]


def test_a_line_that_nobody_could_read_is_a_hole_of_its_own_kind() -> None:
    truth = written(5)
    truth.files[0].ended = 5500
    assert rules(truth, landed(0, 1, 2, 3), GREEN) == ["brief hole", "green"]


def test_what_was_emptied_before_anything_was_read_of_it_is_such_a_hole_too() -> None:
    truth = written(3)
    truth.files[0].ended, truth.files[0].cut = 60_000, True
    truth.blind.append(Blind(0, 90_000))
    seen = Seen(landed(), [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    assert rules(truth, landed(0, 1), GREEN) == ["green", "hole"], "it had been read"


def test_what_was_emptied_again_after_it_was_copied_is_such_a_hole_too() -> None:
    """That lines of before were read says nothing of those since."""
    truth = written(3)
    (file,) = truth.files
    before = File("a", 0, [PATH], copied=500)
    before.lines.append(Line("earlier", before, 0, 0, SIZE, 400))
    file.ended, file.cut, file.before = 60_000, True, before
    truth.files.append(before)
    truth.blind.append(Blind(0, 90_000))
    seen = Seen([Row("part.parquet", "s0", 0, 0, 0, "earlier")], [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    before.copied = NEVER
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]


def test_what_was_emptied_again_after_it_was_seen_empty_is_such_a_hole_too() -> None:
    """As in the moment in which an agent was killed that had just seen it."""
    truth = written(3)
    (file,) = truth.files
    before = File("a", 0, [PATH], ended=500, cut=True)
    before.lines.append(Line("earlier", before, 0, 0, SIZE, 400))
    file.ended, file.cut, file.before = 60_000, True, before
    truth.files.append(before)
    seen = Seen([Row("part.parquet", "s0", 0, 0, 0, "earlier")], [])
    for dead, rule in ((Blind(450, 90_000), "hole"), (Blind(600, 90_000), "brief hole")):
        truth.blind = [Blind(0, 450), dead]
        assert [each.rule for each in judge(truth, seen, GREEN)] == [rule, "green"]


def test_what_came_and_went_in_a_folder_that_is_a_second_old_is_such_a_hole_too() -> None:
    """If another file came there after it, which is why the folder looks like any new one."""
    truth = written(3)
    (file,) = truth.files
    file.ended, file.folder_made = 3_500, 2_600
    truth.blind.append(Blind(0, 90_000))
    seen = Seen(landed(), [])
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]
    truth.files.append(File("a", 2, [PATH]))
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]
    file.folder_made = 2_400
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["hole", "green"]
    file.ended, file.hidden = NEVER, 3_300  # it is there, by a name that nobody looks for
    assert [each.rule for each in judge(truth, seen, GREEN)] == ["brief hole", "green"]


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
        accepted="for a moment only, and hardly anybody does that",
    )
    seen = Seen(landed(), [])
    assert judge(truth, seen, replace(GREEN, findings=(moment,))) == []
    for other in (
        replace(moment, accepted="by an operator"),
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


@pytest.mark.parametrize(("known_until", "rule"), [(1_500, "small copy"), (3_500, "double")])
def test_an_agent_that_has_forgotten_all_knew_only_so_much_of_a_copied_file(
    known_until: int, rule: str
) -> None:
    """Nobody knows whose the copy is, but the audit, by the whole first KiB."""
    truth = written(3)
    (file,) = truth.files
    for line in file.lines:
        line.start, line.end = line.start * 50, line.end * 50
    file.size *= 50
    truth.blind.append(Blind(known_until, 60_000))
    truth.is_forgotten()
    file.copied = 50_000
    rows = [replace(row, position=row.position * 50) for row in landed(0, 1, 2)]
    twice = [*rows, *(replace(row, source="s2") for row in rows)]
    assert rules(truth, twice, GREEN) == sorted([rule, "green"])


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
