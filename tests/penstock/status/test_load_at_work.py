"""What the loader is about, told from its log."""

import logging
from pathlib import Path

import pytest

from penstock.cli import event_log
from penstock.cli.event_log import FORMATS, LogFormat
from penstock.status.loader_log import load_at_work

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
