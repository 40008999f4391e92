"""A report as one HTML file: whole, by itself, and whatever its names hold."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from audit.api.answers import ReportAnswer
from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import Wait
from ground.printable import one_line
from penstock.report.page import report_page
from tests.penstock.report.made_up_report import COMPLETE, MISSING, PENDING, report, tier, topic

VOID = {"meta"}
HOSTILE = "<script>alert(1)</script>\"'&amp;\u202e\x00\x1b[2J" + "x" * 10_000


class Reading(HTMLParser):
    """The page's text, and its elements; a tag that is not closed fails."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def named(name: str) -> ReportAnswer:
    """A report in which everything that comes from outside is called so."""
    wrong = Finding(kind=FaultKind.CHANGED, words=name, source=name, accepted=name)
    tiers = [tier(name, 3, name), tier(name, 2, f"{name}2")]
    one = topic(
        name,
        cluster=name,
        state=State.MISSING,
        tiers=tiers,
        findings=[wrong],
        findings_total=1,
        waits=[Wait(on=name, words=name)],
        waits_total=1,
    )
    return report(one, COMPLETE)


def test_it_says_what_the_terminal_says() -> None:
    page = Reading(report_page(report(MISSING, PENDING, COMPLETE)))
    for said in (
        "✗ missing at the brokers: 12 events of clicks, host web-3",
        "2026-11-20 07:00 to 2026-11-20 08:00 UTC",
        "read 48,123 = shipped 48,000 + filtered 100 + dead 20 + lost 3 (512 bytes)",
        "web-3: /var/log/shop/a.log, bytes 8,192 to 9,216 (events 120 to 131)",
        "(accepted: known since Monday)",
        "web-9 (agent a9) is acknowledged up to 2026-11-20 07:12:00",
        "and 6 more that it waits for",
        "47,988",
        "1.1 min",
    ):
        assert said in page.text
    # Each topic is a link to what is said of it.
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    sections = [f"#{each['id']}" for tag, each in page.elements if tag == "section"]
    assert links == sections == ["#topic-0", "#topic-1", "#topic-2"]


def test_it_needs_nothing_else_and_runs_nothing() -> None:
    page = report_page(report(MISSING, PENDING, COMPLETE))
    assert not Reading(page).tags() & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?:|url\(|@import| on[a-z]+=", page)
    assert "Content-Security-Policy\" content=\"default-src 'none';" in page


def test_names_are_text() -> None:
    page = report_page(named(HOSTILE))
    expected = report_page(named("plain"))
    assert Reading(page).tags() == Reading(expected).tags()
    assert len(Reading(page).elements) == len(Reading(expected).elements)
    assert one_line(HOSTILE) in Reading(page).text
    assert all(character.isprintable() or character == "\n" for character in page)


@given(st.text())
def test_whatever_they_hold(name: str) -> None:
    page = Reading(report_page(named(name)))
    assert one_line(name) in page.text


def test_a_report_of_nothing() -> None:
    page = Reading(report_page(report(COMPLETE, topics=[])))
    assert "… pending" in page.text
    assert "The audit knows of no topic." in page.text
