"""What is said while a load goes on, on values."""

import io
import logging

import pytest
from rich.console import Console

from loader.errors import GapError
from loader.run.outcomes import TableOutcome
from loader.tables import Hour
from penstock.services.load.bars import LoadBars
from penstock.services.load.progress import EVERY_SECONDS, LoadLog


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "penstock.load")
    return caplog


def test_the_log_says_how_far_it_is_every_ten_seconds(said: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watcher = LoadLog(clock)
    watcher.planned("views", 40, 80_000)
    for tasks in range(41):
        watcher.advanced("views", tasks, tasks * 2_000)
        clock.now += EVERY_SECONDS / 10
    assert said.messages == [
        "planned table=views records=80000 tasks=40",
        "reading table=views records=20000 of=80000 tasks=10 of_tasks=40",
        "reading table=views records=40000 of=80000 tasks=20 of_tasks=40",
        "reading table=views records=60000 of=80000 tasks=30 of_tasks=40",
        "reading table=views records=80000 of=80000 tasks=40 of_tasks=40",
    ]


def test_tables_are_told_apart(said: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watcher = LoadLog(clock)
    for table in ("a", "b"):
        watcher.planned(table, 2, 10)
    clock.now += EVERY_SECONDS
    for table in ("a", "b", "a"):
        watcher.advanced(table, 1, 5)
    assert [each for each in said.messages if each.startswith("reading")] == [
        f"reading table={table} records=5 of=10 tasks=1 of_tasks=2" for table in ("a", "b")
    ]


def test_the_log_says_how_each_table_ended(said: pytest.LogCaptureFixture) -> None:
    watcher = LoadLog()
    watcher.warned("views", "offsets 3 to 5 are missing")
    watcher.ended(TableOutcome("idle"))
    watcher.ended(TableOutcome("only planned", records=12))
    watcher.ended(TableOutcome("gone", error=GapError("no such offsets")))
    done = TableOutcome("views", run=7, records=12, rows=9, bytes=812, files=2, late=1, dead=2)
    done.duplicates, done.seconds, done.complete = 1, 2.25, [Hour(0)]
    watcher.ended(done)
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
