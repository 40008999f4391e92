"""What the loader is about, and which tables are not loaded, told from its log."""

import logging
from pathlib import Path

import msgspec
import pytest

from penstock.cli import event_log
from penstock.cli.event_log import FORMATS, LogFormat
from penstock.status.loader_log import LoaderLog, load_at_work
from penstock.status.values import FailingLoadStatus, PipelineStatus
from tests.penstock.status.made_up import status_of, topic

SINCE = 1_800_000_000.0
TABLE = "table  rows\nweb     650\n"


def line(said: str, log_format: LogFormat, *, at: float = SINCE + 1, name: str = "load") -> str:
    """As the loader's log has it."""
    record = logging.LogRecord(f"penstock.{name}", logging.INFO, "", 0, said, None, None)
    record.created = at
    formatters = {"text": event_log._TextFormatter, "json": event_log._JsonFormatter}
    return formatters[log_format]().format(record) + "\n"


@pytest.mark.parametrize("log_format", FORMATS)
def test_the_last_event_is_what_it_does(tmp_path: Path, log_format: LogFormat) -> None:
    log = tmp_path / "loader.log"
    assert load_at_work(log, SINCE) == ""
    for written, said in (
        (line("reading table=web", log_format, at=SINCE - 1), ""),
        (line("starting Spark", log_format), "starting Spark"),
        (line("something else", log_format, name="spark"), "starting Spark"),
        (line("reading table=web records=7", log_format), "reading table=web records=7"),
        (line("table done table=web run=1", log_format), ""),
        (TABLE, ""),
        (line("planned table=b", log_format), "planned table=b"),
        (line("load failed reason=x", log_format), ""),
        (line("waiting until=2026-11-21T01:43:00+00:00", log_format), ""),
    ):
        with log.open("a") as file:
            file.write(written)
        assert load_at_work(log, SINCE) == said


def test_what_is_no_event_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "loader.log"
    for nonsense in ("{", "[[", "{}", '{"logger": "penstock.load", "time": 1}', "noZ INFO x y"):
        log.write_text(line("starting Spark", "text") + nonsense + "\n")
        assert load_at_work(log, SINCE) == "starting Spark"
    log.write_text("9999Z INFO penstock.load never\n")
    assert load_at_work(log, SINCE) == ""


SINCE_MILLIS = int(SINCE * 1000)
REASON = "1 of 1 records are dead, which is more than dead_share allows (0.01)"
FAILED = f"table failed table=t reason={REASON}"


def said(log: LoaderLog, by_audit: PipelineStatus | None = None) -> list[tuple[str, int, str]]:
    log.read()
    found = log.added_to(by_audit or status_of([topic("t", state="complete"), topic("other")]))
    failing = {each.topic for each in found.failing_loads}
    assert [each.load_fails for each in found.topics] == [
        each.topic in failing for each in found.topics
    ]
    return [(each.topic, each.since, each.reason) for each in found.failing_loads]


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_table_fails_until_it_is_done(tmp_path: Path, log_format: LogFormat) -> None:
    path = tmp_path / "loader.log"
    log = LoaderLog(path)
    assert said(log) == []
    t = ("t", SINCE_MILLIS, REASON)
    for at, (written, found) in enumerate(
        (
            (FAILED, [t]),
            (FAILED, [t]),
            (
                "table failed table=other reason=table other: no",
                [t, ("other", SINCE_MILLIS + 2_000, "no")],
            ),
            ("table done table=other run=7 rows=1", [t]),
            ("waiting until=2026-11-21T01:43:00+00:00", [t]),
            ("load failed reason=no broker", [t, ("", SINCE_MILLIS + 5_000, "no broker")]),
            ("planned table=t records=1 tasks=1", [t, ("", SINCE_MILLIS + 5_000, "no broker")]),
            (FAILED, [t]),
            ("nothing to do table=t", []),
        )
    ):
        with path.open("a") as file:
            file.write(line(written, log_format, at=SINCE + at))
        assert said(log) == found, written
    assert said(LoaderLog(path)) == []


def test_a_line_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "loader.log"
    log = LoaderLog(path)
    whole = line(FAILED, "text")
    path.write_text(whole[:40])
    assert said(log) == []
    path.write_text(whole)
    assert said(log) == [("t", SINCE_MILLIS + 1_000, REASON)]


def test_a_log_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "loader.log"
    path.write_text("x" * 10_000 + "\n" + line(FAILED, "text"))
    log = LoaderLog(path)
    assert len(said(log)) == 1
    path.write_text(line("table done table=t run=1", "text"))
    assert said(log) == []


def test_of_a_long_log_the_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "loader.log"
    path.write_text(line(FAILED, "text") + "y" * 300_000 + "\n")
    log = LoaderLog(path)
    assert said(log) == []
    with path.open("a") as file:
        file.write(line(FAILED, "text"))
    assert len(said(log)) == 1


def test_what_the_loader_said_is_newer_than_what_the_audit_heard(tmp_path: Path) -> None:
    path = tmp_path / "loader.log"
    heard = FailingLoadStatus(topic="t", since=5, reason="as heard", cure="do something")
    audit = msgspec.structs.replace(status_of([topic("t")]), failing_loads=(heard,))
    log = LoaderLog(path)
    assert said(log, audit) == [("t", 5, "as heard")]
    path.write_text(line(FAILED, "text"))
    assert said(log, audit) == [("t", 5, "as heard")]  # with the cure
    path.write_text(line(FAILED, "text") + line("table done table=t run=1", "text"))
    assert said(log, audit) == []
