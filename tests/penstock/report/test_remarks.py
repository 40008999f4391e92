"""What is remarked beside a verdict, in words, and that it changes none."""

import pytest

from audit.answers import AlteredTotal, Remark
from audit.findings import State
from penstock.report.page import report_page
from penstock.report.remarks import altered_words, remark_lines
from penstock.report.table import show_report
from penstock.report.words import topic_shown
from tests.penstock.report.made_up_report import report, topic

KINDS = [
    AlteredTotal("replaced", 9, 12),
    AlteredTotal("cut", 1, 2_048),
    AlteredTotal("dropped", 3, 3),
    AlteredTotal("unread", 0, 1),
    AlteredTotal("of a later release", 2, 2),
]
HOSTILE = "/var/log/<b>\x1b[31m\u202e.log"
REMARKS = [
    Remark("replaced", "shop", HOSTILE, "web-1", 9, 12, 1, 2, hint="cp1252"),
    Remark("cut", "shop", "/a.log", "web-1", 1, 2_048, 1, 2),
    Remark("dropped", "shop", "/a.log", "web-1", 3, 3, 1, 2, name="user"),
    Remark("unread", "shop", "/a.log.gz", "web-1", 0, 1, 1, 2),
    Remark("of a later release", "", "", "", 2, 2, 1, 2),
]
ALTERED = topic("orders", altered=KINDS, remarks=REMARKS)
WORDS = (
    "9 lines had invalid characters, 1 line was cut, 3 field values were dropped, "
    "1 archive was not read, 2 lines were altered"
)


def test_it_stands_beside_the_verdict_and_changes_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert altered_words(ALTERED.altered) == WORDS
    assert topic_shown(ALTERED).state is State.COMPLETE
    show_report(report(ALTERED), everything=False)
    shown = capsys.readouterr().out
    assert shown.startswith(f"✓ complete: every line is accounted for; {WORDS}\n")
    assert "i /a.log on web-1 (input shop): 1 line was cut at max_line_bytes, 2,048 bytes" in shown
    assert "3 values of field user dropped: not in the topic's schema" in shown
    assert "/a.log.gz on web-1 (input shop): archive not read" in shown
    assert "it looks like cp1252: set `encoding`" in shown


def test_nothing_altered_is_nothing_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(topic("plain")), everything=True)
    shown = capsys.readouterr().out
    assert shown.startswith("✓ complete: every line is accounted for\n")
    assert "\ni " not in shown


def test_names_from_outside_command_nothing() -> None:
    assert all(each.isprintable() for each in remark_lines(ALTERED))
    page = report_page(report(ALTERED))
    assert "What was altered" in page
    assert WORDS in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
