"""What is said while a load goes on, by it and by Spark's JVM, and what came of it."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from harness.processes.hand_clock import HandClock
from harness.processes.waiting import wait_until
from loader.checks.comparison import UNKNOWN, FaultyFile, FileFaultKind
from loader.config import LoaderConfig
from loader.errors import FilesDiffer, GapError, LoaderError, RunTaken
from loader.run.outcomes import PartitionRange, TableOutcome
from loader.values.tables import Hour
from penstock.services.load.bars import LoadBars
from penstock.services.load.progress import EVERY_SECONDS, LoadLog
from penstock.services.load.spark import LOGGER, SparkOutput, quiet_java_options
from penstock.services.load.summary import EndedLoad, document, show, show_plan


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "penstock.load")
    return caplog


def test_the_log_says_how_far_it_is_every_ten_seconds(said: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    watcher = LoadLog(clock)
    tables = ("views", "clicks")
    for table in tables:
        watcher.planned(table, 20, 40_000)
    for tasks in range(21):
        for table in tables:
            watcher.advanced(table, tasks, tasks * 2_000)
        clock.now += EVERY_SECONDS / 10
    assert said.messages == [
        *(f"planned table={table} records=40000 tasks=20" for table in tables),
        *(f"reading table={table} records={tasks * 2_000} of=40000 tasks={tasks} of_tasks=20"
          for tasks in (10, 20) for table in tables),
    ]  # fmt: skip


def test_a_long_step_is_said_again(said: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    watcher = LoadLog(clock)
    watcher.preparing("starting Spark")
    for _ in range(25):
        clock.now += 1.0
        watcher.turn()
    watcher.preparing("")
    clock.now += 60.0
    watcher.turn()
    still = [f"still starting Spark seconds={seconds}" for seconds in (10, 20)]
    assert said.messages == ["starting Spark", *still]
    watcher.doing("views", "looking")
    watcher.planned("views", 1, 5)
    clock.now += 11.0
    watcher.turn()
    assert said.messages[-1] == "still reading table=views seconds=11"


def test_the_log_says_how_each_table_ended(said: pytest.LogCaptureFixture) -> None:
    watcher = LoadLog()
    watcher.warned("views", "offsets 3 to 5 are missing")
    watcher.ended(TableOutcome("idle"))
    watcher.ended(TableOutcome("only planned", records=12))
    watcher.ended(TableOutcome("gone", error=GapError("no such offsets")))
    watcher.ended(loaded())
    watcher.ended(TableOutcome("views", records=3, error=FilesDiffer("one is missing")))
    assert [(each.levelname, each.getMessage()) for each in said.records] == [
        ("WARNING", "offsets 3 to 5 are missing table=views"),
        ("INFO", "nothing to do table=idle"),
        ("INFO", "nothing committed table=only planned records=12"),
        ("ERROR", "table failed table=gone reason=no such offsets"),
        (
            "INFO",
            "table done table=views run=7 rows=9 bytes=812 files=2 late=1 duplicates=1 dead=2 "
            "complete=1 seconds=2.2",
        ),
        ("INFO", "nothing committed table=views records=3"),
        ("ERROR", "files damaged table=views reason=one is missing"),
    ]


class Screen:
    """A terminal; what it shows is drawn when it is asked for."""

    def __init__(self) -> None:
        self._file = io.StringIO()
        console = Console(file=self._file, force_terminal=True, width=140, color_system=None)
        self.bars = LoadBars(console)

    def lines(self) -> list[str]:
        with self.bars.progress.console.capture() as drawn:
            self.bars.progress.console.print(self.bars.progress)
        return [line.strip() for line in drawn.get().splitlines() if line.strip()]

    @property
    def above(self) -> str:
        return self._file.getvalue()


def test_a_terminal_has_a_line_for_each_table_under_way() -> None:
    screen = Screen()
    screen.bars.preparing("starting Spark")
    assert [line.split()[-2:] for line in screen.lines()] == [["starting", "Spark"]]
    screen.bars.preparing("")
    assert screen.lines() == []

    screen.bars.planned("views", 40, 80_000)
    screen.bars.planned("clicks", 1, 0)
    screen.bars.advanced("views", 10, 20_000)
    views, clicks = screen.lines()
    assert views.startswith("views ")
    assert "20,000 of 80,000 records, 10 of 40 tasks" in views
    assert views.endswith(" reading")
    assert clicks.endswith(" nothing to read")

    screen.bars.doing("views", "committing run 7")
    assert screen.lines()[0].endswith(" committing run 7")
    assert "80,000 of 80,000 records, 40 of 40 tasks" in screen.lines()[0]
    screen.bars.ended(TableOutcome("views", run=7))
    assert [line.split()[0] for line in screen.lines()] == ["clicks"]


def test_what_is_to_be_known_stands_above() -> None:
    screen = Screen()
    screen.bars.warned("views", "offsets [3] to 5 are\nmissing\x1b[2J")
    screen.bars.ended(TableOutcome("views", error=GapError("no such offsets")))
    assert screen.above.splitlines() == [
        "views: offsets [3] to 5 are missing [2J",
        "penstock: views: no such offsets",
    ]


HOUR = Hour(1_795_158_000_000)  # 2026-11-20, 07:00 UTC
CONFIG = LoaderConfig(root="hdfs://namenode:8020/logs", topics=("*",), brokers=("b1:9092",))


def loaded() -> TableOutcome:
    outcome = TableOutcome("views", run=7, records=12, rows=9, bytes=812, files=2, late=1, dead=2)
    outcome.ranges = (PartitionRange("views", 0, 3, 10), PartitionRange("views", 1, 0, 5))
    outcome.duplicates, outcome.seconds, outcome.complete = 1, 2.25, [HOUR]
    return outcome


def table_of(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()]


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    failed = TableOutcome("clicks", error=GapError("no such offsets"), cure="accept it")
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
    assert cure == ["what to do: accept it"]


def test_the_last_lines_are_the_state_of_rebuilt_hours(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = loaded()
    later, spoilt = Hour(HOUR + 3_600_000), Hour(HOUR + 7_200_000)
    outcome.rebuilt = {HOUR: 1_234, later: 5, spoilt: 6}
    outcome.waiting = {later: "agents on web-1"}
    outcome.faults = [FaultyFile("views/dt=2026-11-20/hour=09/a", FileFaultKind.EXTRA, 0, 2)]
    outcome.next_load, outcome.other_damage, outcome.other_cure = "load", "hour 5", "do it"
    show([outcome])
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "views/dt=2026-11-20/hour=07: complete again, 1,234 rows, _SUCCESS written",
        "views/dt=2026-11-20/hour=08: rebuilt, 5 rows; _SUCCESS waits for agents on web-1",
        "views/dt=2026-11-20/hour=09: rebuilt, 6 rows, but files that no run wrote are still there",
        "  what to do: `load` closes hours once nothing is missing",
        "views: other hours are still damaged: hour 5",
        "  what to do: do it",
    ]


def test_what_is_wrong_with_files(capsys: pytest.CaptureFixture[str]) -> None:
    faults = [
        FaultyFile("views/a", FileFaultKind.MISSING, 9, 0),
        FaultyFile("views/b\n", FileFaultKind.EXTRA, 0, UNKNOWN),
    ]
    outcome = TableOutcome("views", checked=[HOUR], faults=faults, error=FilesDiffer("two files"))
    outcome.cure = "restore them"
    show([outcome])
    *_, heading, first, second, _, reason, cure = [
        [cell.strip() for cell in line] for line in table_of(capsys)
    ]
    assert reason == ["views: two files"]
    assert cure[1] == "what to do: restore them"
    assert [each for each in heading if each] == [
        *("table", "fault", "file", "committed rows", "found rows")
    ]
    assert [each for each in first if each] == ["views", "missing", "views/a", "9", "0"]
    assert [each for each in second if each] == ["views", "extra", "views/b\\n", "0", "-"]
    said = document(EndedLoad((outcome,), 1.0), CONFIG)
    (table,) = said["tables"]
    assert (said["exit_code"], table["checked"]) == (8, ["dt=2026-11-20/hour=07"])
    assert table["faults"][0] == {
        "path": "views/a",
        "fault": "missing",
        "committed_rows": 9,
        "found_rows": 0,
    }


def test_plans_and_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = tuple(PartitionRange("views", each, 100, 103) for each in range(200))
    show([TableOutcome("views", run=1, records=600, ranges=partitions)])
    assert "600 in 200 partitions" in capsys.readouterr().out
    show([TableOutcome("idle")])
    show_plan([TableOutcome("idle")])
    assert capsys.readouterr().out == "nothing to do\nnothing to read\n"
    show_plan([loaded()])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["table", "topic", "partition", "from", "to", "records"],
        ["views", "views", "0", "3", "10", "7"],
        ["views", "views", "1", "0", "5", "5"],
    ]


def test_a_document_for_programs() -> None:
    said = json.loads(json.dumps(document(EndedLoad((loaded(),), 3.5), CONFIG)))
    (table,) = said.pop("tables")
    place = {"root": "hdfs://namenode:8020/logs", "brokers": ["b1:9092"]}
    assert said == {"exit_code": 0, "seconds": 3.5, "error": None, **place}
    assert table["complete"] == ["dt=2026-11-20/hour=07"]
    assert table["ranges"][1] == {"topic": "views", "partition": 1, "from": 0, "to": 5}
    known = {"run": 7, "rows": 9, "bytes": 812, "files": 2, "late": 1, "duplicates": 1, "dead": 2}
    assert table.items() >= known.items()


def test_exit_codes() -> None:
    idle, taken = TableOutcome("idle"), TableOutcome("a", error=RunTaken("another loader"))
    assert EndedLoad((idle,), 1.0).exit_code == 3
    assert EndedLoad((idle, loaded()), 1.0).exit_code == 0
    assert EndedLoad((idle, TableOutcome("views", checked=[HOUR])), 1.0).exit_code == 0
    assert EndedLoad((loaded(), taken), 1.0).exit_code == 5
    gap, other = TableOutcome("b", error=GapError("gone")), TableOutcome("c", error=OSError("?"))
    assert EndedLoad((taken, loaded(), other), 1.0).exit_code == 1
    assert EndedLoad((taken, other, gap), 1.0).exit_code == 4
    assert EndedLoad((), 1.0, error=LoaderError("no table")).exit_code == 1
    assert EndedLoad((), 1.0, error=OSError("what is not ours")).exit_code == 1
    assert EndedLoad((loaded(),), 1.0, interrupted=True).exit_code == 130
    failed = document(EndedLoad((), 1.0, error=LoaderError("no table")), CONFIG)
    assert failed["error"] == "no table"


@pytest.fixture
def output(caplog: pytest.LogCaptureFixture) -> Iterator[SparkOutput]:
    caplog.set_level(logging.INFO, LOGGER)
    with SparkOutput() as output:
        yield output


def test_it_becomes_events(output: SparkOutput, caplog: pytest.LogCaptureFixture) -> None:
    os.write(output.descriptor, b"WARNING: Using incubator modules: jdk.incubator.vector\n")
    os.write(output.descriptor, b'Setting default log level to "WARN".\nERROR Exec')
    os.write(output.descriptor, b"utor: lost task 3 | Traceback\nWARN Utils: slow\n\n")
    os.write(output.descriptor, b"thread '<unnamed>' panicked \xff\n" + b"x" * 9_000 + b"\n")
    wait_until(lambda: len(caplog.records) == 4, within=10, what="all lines are read")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("ERROR", "Executor: lost task 3 | Traceback"),
        ("WARNING", "Utils: slow"),
        ("INFO", "thread '<unnamed>' panicked \N{REPLACEMENT CHARACTER}"),
        ("INFO", "x" * 2_000),
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", ""),
        ("JAVA_HOME is not set\n", "JAVA_HOME is not set"),
        (
            "WARNING: Using incubator modules: x\nUnrecognized option: -Xyz\nError: Could not "
            "create the Java Virtual Machine.\nError: A fatal exception has occurred.\n",
            "Unrecognized option: -Xyz",
        ),
        ("one thing\nanother\n", "another"),
    ],
)
def test_why_a_jvm_did_not_start(output: SparkOutput, lines: str, why: str) -> None:
    os.write(output.descriptor, lines.encode())
    assert output.why_it_ended() == why


def test_whoever_has_a_way_of_logging_keeps_it(tmp_path: Path) -> None:
    ours = quiet_java_options("-Xss4m", {})
    assert ours.startswith("-Xss4m -Dlog4j2.configurationFile=file:///")
    assert Path(ours.partition("=file://")[2]).is_file()
    asked = "-Dlog4j2.configurationFile=/etc/spark/quiet.xml"
    assert quiet_java_options(asked, {}) == asked
    (tmp_path / "conf").mkdir()
    assert "log4j2" in quiet_java_options("", {"SPARK_HOME": str(tmp_path)})
    (tmp_path / "conf" / "log4j2.properties").write_text("")
    assert quiet_java_options("", {"SPARK_HOME": str(tmp_path)}) == ""
    assert quiet_java_options("", {"SPARK_CONF_DIR": str(tmp_path / "conf")}) == ""
