"""The witness judges what is said of lines that were shipped twice, and of landed files that were
spoilt twice: a line may be gone from one place, and be in another."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tests.campaigns.witness.examples import landed, missing, red, written
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.pipeline import Pipeline
from tests.campaigns.witness.programs import Program
from tests.campaigns.witness.reading import Record, Row
from tests.campaigns.witness.spoiling import Spoiler
from tests.campaigns.witness.truth import Truth
from tests.campaigns.witness.verdict import Called, Seen, Verdict

FILE = "t/dt=1/hour=1/part.parquet"
COPY = "t/dt=1/hour=1/copy-part.parquet"


def shipped(number: int, offset: int, source: str, *, stands: bool) -> Kept:
    record = Record(offset, source, number, number * 10, f"line {number:04}")
    return Kept(record, stands=stands)


def again(number: int) -> Called:
    """What a new agent has shipped once more."""
    return replace(missing(number, 1, words="twice"), kind="duplicated", source="s2")


def rules(truth: Truth, seen: Seen, verdict: Verdict) -> list[str]:
    return sorted(each.rule for each in judge(truth, seen, verdict))


def test_a_line_that_was_shipped_twice_and_lost_once_is_called_both() -> None:
    old = shipped(1, 1, "s1", stands=False)
    new = shipped(1, 7, "s2", stands=True)
    rows = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=7)]
    both = red(missing(1, 1), again(1), missing=1)
    assert rules(written(3), Seen(rows, [old, new]), both) == []
    # One of the two alone is red over nothing: each line is there once.
    alone = red(missing(1, 1), missing=1)
    assert rules(written(3), Seen(rows, [old, new]), alone) == ["not lost"]
    assert rules(written(3), Seen(rows, [old, new]), red(again(1))) == ["not double"]
    # What the log still has is not lost, and what was never shipped again is not double.
    kept = shipped(1, 1, "s1", stands=True)
    assert rules(written(3), Seen(rows, [kept, new]), both) == ["not double", "not lost"]
    other = [*landed(0, 2), replace(landed(1, source="s3")[0], offset=7)]
    seen = Seen(other, [old, shipped(1, 7, "s3", stands=True)])
    assert rules(written(3), seen, both) == ["not double"]


def test_a_line_that_was_shipped_again_and_then_lost_is_called_both() -> None:
    old, new = shipped(1, 1, "s1", stands=True), shipped(1, 7, "s2", stands=False)
    rows = landed(0, 1, 2)
    gone = replace(missing(1, 1), source="s2")
    seen = Seen(rows, [old, new])
    assert rules(written(3), seen, red(gone, again(1), missing=1)) == []
    assert rules(written(3), seen, red(again(1))) == ["not double"]
    # It is there as the very source that is named: it was not shipped again.
    same = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=1)]
    assert "not double" in rules(written(3), Seen(same, [new]), red(gone, again(1), missing=1))


def test_a_line_that_was_lost_and_shipped_again_as_the_same_file_is_called_both() -> None:
    """What was lost is known by its offset alone, as the line itself has landed."""
    old, new = shipped(1, 1, "s1", stands=False), shipped(1, 7, "s1", stands=True)
    rows = [*landed(0, 2), replace(landed(1)[0], offset=7)]
    gone = Called("missing", "gone", tier="hdfs", partition=0, offset=1, offsets=1)
    twice = replace(again(1), source="s1")
    seen = Seen(rows, [old, new])
    assert rules(written(3), seen, red(gone, twice, missing=1)) == []
    assert rules(written(3), seen, red(twice)) == ["not double"]
    other = replace(gone, offset=2)
    assert "not double" in rules(written(3), seen, red(other, twice, missing=1))


def test_a_line_that_was_shipped_twice_as_the_same_file_and_lost_twice_is_called_so() -> None:
    """It was twice in a log that is gone."""
    records = [shipped(1, 1, "s1", stands=False), shipped(1, 7, "s1", stands=False)]
    rows = landed(0, 2)
    gone = [replace(missing(1, 1), offset=offset, offsets=1) for offset in (1, 7)]
    twice = replace(again(1), source="s1")
    assert rules(written(3), Seen(rows, records), red(*gone, twice, missing=2)) == []
    # So it is of a log that had lost its end, and was sent the same again, at the same offset.
    both = replace(records[0], times=2)
    assert rules(written(3), Seen(rows, [both]), red(gone[0], twice, missing=1)) == []
    # It was there once, and that is said to be gone.
    assert rules(written(3), Seen(rows, records[:1]), red(gone[0], twice, missing=1)) == [
        "not double"
    ]


def test_that_a_lost_line_is_there_as_a_small_copy_nobody_can_know() -> None:
    rows = [*landed(0, 2), replace(landed(1, source="s2")[0], offset=7)]
    for gone, broken in ((False, ["not lost"]), (True, [])):
        truth = written(3)
        if gone:
            truth.files[0].original_gone = 9_000
        seen = Seen(rows, [shipped(1, 1, "s1", stands=False), shipped(1, 7, "s2", stands=True)])
        assert rules(truth, seen, red(missing(1, 1), missing=1)) == broken


def in_file(path: str, *numbers: int) -> list[Row]:
    return [replace(row, file=f"/warehouse/{path}") for row in landed(*numbers)]


def test_a_landed_file_that_is_gone_is_missing_though_its_rows_are_elsewhere() -> None:
    gone = Called("missing", "it is gone", tier="hdfs", path=FILE, events=2)
    copy = Called("duplicated", "written by no load", tier="hdfs", path=COPY, events=2)
    truth = written(3)
    truth.landed = {FILE: in_file(FILE, 0, 1), COPY: in_file(COPY, 0, 1)}
    rows = [*in_file(COPY, 0, 1), *in_file("t/dt=1/hour=1/other.parquet", 2)]
    assert rules(truth, Seen(rows), red(gone, copy, missing=2)) == []
    assert rules(truth, Seen(rows), red(gone, missing=2)) == ["not lost"]
    there = [*rows, *in_file(FILE, 0, 1)]
    assert rules(truth, Seen(there), red(gone, copy, missing=2)) == ["not lost"]
    # Or because an agent that had forgotten them has shipped them again.
    truth.landed = {FILE: in_file(FILE, 0, 1)}
    rows = [
        replace(landed(1, source="s2")[0], offset=7),
        *in_file("t/dt=1/hour=1/other.parquet", 2),
    ]
    assert rules(truth, Seen(rows), red(gone, again(1), missing=2)) == []


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
    pipeline = cast(Pipeline, SimpleNamespace(root=tmp_path / "warehouse"))
    nobody = cast(Program, SimpleNamespace(alive=False))
    spoiler = Spoiler(pipeline, nobody, tmp_path / "data", truth, 1)
    assert spoiler.flip_landed()
    assert spoiler.copy_landed()
    assert spoiler.remove_landed()
    texts = {path: [row.text for row in rows] for path, rows in truth.landed.items()}
    assert texts == {each: [f"line {number:04}" for number in range(200)] for each in (FILE, COPY)}
