"""What came of a load, on values."""

import json

import pytest

from loader.checks.comparing import UNKNOWN, FaultyFile, FileFaultKind
from loader.errors import FilesDiffer, GapError, LoaderError, RunTaken
from loader.run.outcomes import PartitionRange, TableOutcome
from loader.tables import Hour
from penstock.services.load.summary import EndedLoad, document, show, show_plan

HOUR = Hour(1_795_158_000_000)  # 2026-11-20, 07:00 UTC


def loaded() -> TableOutcome:
    outcome = TableOutcome("views", run=7, records=12, rows=9, bytes=812, files=2, late=1, dead=2)
    outcome.ranges = (PartitionRange("views", 0, 3, 10), PartitionRange("views", 1, 0, 5))
    outcome.duplicates, outcome.seconds, outcome.complete = 1, 2.25, [HOUR]
    return outcome


def table_of(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()]


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    failed = TableOutcome("clicks", error=GapError("no such offsets"))
    show([loaded(), TableOutcome("idle"), failed])
    lines = [[cell.strip() for cell in line if cell.strip()] for line in table_of(capsys)]
    heading, *rows, empty, reason, cure = lines
    assert heading == [
        *("table", "rows", "bytes", "files", "late", "duplicates", "dead", "offsets"),
        *("hours complete", "seconds"),
    ]
    assert rows == [
        ["views", "9", "812", "2", "1", "1", "2", "0: 3-10, 1: 0-5", "1", "2.2"],
        ["clicks", "0", "0", "0", "0", "0", "0", "-", "0", "failed"],
    ]
    # The last lines are what somebody has to do.
    assert (empty, reason) == ([], ["clicks failed: no such offsets"])
    assert cure[0].startswith("what to do: penstock load --accept-gap --topics clicks")


def test_what_is_wrong_with_files(capsys: pytest.CaptureFixture[str]) -> None:
    faults = [
        FaultyFile("views/a", FileFaultKind.MISSING, 9, 0),
        FaultyFile("views/b\n", FileFaultKind.EXTRA, 0, UNKNOWN),
    ]
    outcome = TableOutcome("views", checked=[HOUR], faults=faults, error=FilesDiffer("two files"))
    show([outcome])
    *_, heading, first, second, _, reason, cure = [
        [cell.strip() for cell in line] for line in table_of(capsys)
    ]
    assert reason == ["views: two files"]
    assert cure[1].startswith("what to do: put the files back")
    assert [each for each in heading if each] == [
        *("table", "fault", "file", "committed rows", "found rows")
    ]
    assert [each for each in first if each] == ["views", "missing", "views/a", "9", "0"]
    assert [each for each in second if each] == ["views", "extra", "views/b\\n", "0", "-"]
    said = document(EndedLoad((outcome,), 1.0))
    (table,) = said["tables"]
    assert (said["exit_code"], table["checked"]) == (8, ["dt=2026-11-20/hour=07"])
    assert table["faults"][0] == {
        "path": "views/a",
        "fault": "missing",
        "committed_rows": 9,
        "found_rows": 0,
    }


def test_nothing_is_wrong_with_files() -> None:
    checked = TableOutcome("views", checked=[HOUR])
    assert EndedLoad((checked, TableOutcome("idle")), 1.0).exit_code == 0


def test_many_partitions_are_taken_together(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = TableOutcome("views", run=1, records=600)
    outcome.ranges = tuple(PartitionRange("views", each, 100, 103) for each in range(200))
    show([outcome])
    assert "600 in 200 partitions" in capsys.readouterr().out


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show([TableOutcome("idle")])
    show_plan([TableOutcome("idle")])
    assert capsys.readouterr().out == "nothing to do\nnothing to read\n"


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan([loaded()])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["table", "topic", "partition", "from", "to", "records"],
        ["views", "views", "0", "3", "10", "7"],
        ["views", "views", "1", "0", "5", "5"],
    ]


def test_a_document_for_programs() -> None:
    said = json.loads(json.dumps(document(EndedLoad((loaded(),), 3.5))))
    (table,) = said.pop("tables")
    assert said == {"exit_code": 0, "seconds": 3.5, "error": None}
    assert table["complete"] == ["dt=2026-11-20/hour=07"]
    assert table["ranges"][1] == {"topic": "views", "partition": 1, "from": 0, "to": 5}
    known = {"run": 7, "rows": 9, "bytes": 812, "files": 2, "late": 1, "duplicates": 1, "dead": 2}
    assert table.items() >= known.items()


def test_exit_codes() -> None:
    idle, taken = TableOutcome("idle"), TableOutcome("a", error=RunTaken("another loader"))
    assert EndedLoad((idle,), 1.0).exit_code == 3
    assert EndedLoad((idle, loaded()), 1.0).exit_code == 0
    assert EndedLoad((loaded(), taken), 1.0).exit_code == 5
    gap, other = TableOutcome("b", error=GapError("gone")), TableOutcome("c", error=OSError("?"))
    assert EndedLoad((taken, loaded(), other), 1.0).exit_code == 1
    assert EndedLoad((taken, other, gap), 1.0).exit_code == 4
    assert EndedLoad((), 1.0, error=LoaderError("no table")).exit_code == 1
    assert EndedLoad((), 1.0, error=OSError("what is not ours")).exit_code == 1
    assert EndedLoad((loaded(),), 1.0, interrupted=True).exit_code == 130
    assert document(EndedLoad((), 1.0, error=LoaderError("no table")))["error"] == "no table"
