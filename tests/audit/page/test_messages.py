"""Messages in the page: from a finding to its lines, through the log by keyboard, and what somebody
has written to do harm is text."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from harness.penstock.audit import AuditProcess
from tests.audit.clusters.messages.written import SCRIPT, dead_letter, log_line, spoil, write
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.browsing import BEGAN, NOW, PATIENT, Keep, opened
from tests.audit.page.pipeline_said import Said

TOPIC = "shown"
PICTURE = '<img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[AuditProcess]:
    lines = [
        log_line(
            cluster.client, TOPIC, SCRIPT if at == 4 else f"GET /{at} 200", host="web-3", seq=at
        )
        for at in range(120)
    ]
    write(cluster.brokers, TOPIC, [*lines, PICTURE.encode(), b"\xff" * 40, b"spoilt here"])
    write(cluster.brokers, f"{TOPIC}.dead", [dead_letter(cluster.client, TOPIC, b"user=\x1b[2J;x")])
    spoil(cluster.broker, TOPIC, b"spoilt")
    said = Said(TOPIC, "web-3", "/var/log/a.log", BEGAN, missing=(40, 45), until=NOW)
    cluster.write(said.entries())
    shown = {"topics": ["shown*"], "shown_to": "readers", "within": 60}
    with cluster.audit(tmp_path_factory.mktemp("audit"), messages=shown, **PATIENT) as audit:
        yield audit


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_messages_are_text_and_damage_is_shown(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto(f"/#/topic?cluster=test&topic={TOPIC}")
        page.get_by_role("link", name="Messages ›").click()
        expect(page.locator("h1")).to_have_text("Messages")
        expect(page.locator("tbody tr")).to_have_count(50)
        damaged = page.locator("tr", has_text="Damaged")
        expect(damaged).to_contain_text("of the batch have the CRC")
        expect(page.get_by_text(PICTURE)).to_be_visible()
        expect(page.get_by_text("0000  ff ff ff")).to_be_visible()
        page.locator("body").press("End")
        keep(page, f"messages-damaged-{look}")
        page.goto(f"/messages?cluster=test&topic={TOPIC}&partition=0&offset=2")  # as it is typed
        value = page.locator("tr", has_text="hacked").locator("td.value")
        expect(value).to_contain_text("<script>hacked()</script>␛[31m‹202E›gol")
        expect(value).to_contain_text("at line 2")
        keep(page, f"messages-{look}")
        assert page.locator("main script, main img").count() == 0
        assert page.evaluate("window.hacked") is None
        page.goto(f"/#/messages?cluster=test&topic={TOPIC}.dead")
        expect(page.locator("td.value")).to_contain_text("`user`: no number")
        expect(page.locator("td.value")).to_contain_text("user=␛[2J;x")
        keep(page, f"messages-dead-{look}")


def test_a_finding_leads_to_its_lines_and_keys_through_the_log(
    browser: Browser, audit: AuditProcess
) -> None:
    with opened(browser, audit, expected=["status of 404"]) as page:
        page.goto(f"/#/findings?topic={TOPIC}")
        page.get_by_role("link", name="Show the messages").first.click()
        expect(page.locator("tr.marked")).to_have_count(5)
        expect(page.locator("tr.marked").first).to_contain_text("GET /40 200")
        first = page.locator("tbody tr").first
        expect(first).to_contain_text("GET /37 200")
        page.keyboard.press("n")
        expect(first).to_contain_text("GET /87 200")
        page.keyboard.press("p")
        expect(first).to_contain_text("GET /37 200")
        page.keyboard.press("j")
        expect(first.get_by_role("link").first).to_be_focused()
        page.keyboard.press("/")
        page.keyboard.type("100")
        page.keyboard.press("Enter")
        expect(first).to_contain_text("GET /100 200")
        page.keyboard.press("/")
        page.keyboard.press("Control+A")
        page.keyboard.type("4711")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Offset 4,711 is not in the log")).to_be_visible()
        page.get_by_label("Time", exact=True).fill("2026-01-01 00:00:00")
        page.get_by_role("button", name="Go to time").click()
        expect(first).to_contain_text("GET /0 200")
        page.goto("/#/messages?cluster=test&topic=orders")
        expect(page.get_by_role("alert")).to_contain_text("shows no messages of topic orders")
    shown = [line for line in audit.log().splitlines() if "messages shown" in line]
    assert any(re.search(rf"topic={TOPIC} partition=0 offsets=37-87", line) for line in shown)


def test_an_audit_that_shows_no_messages_has_no_links_to_them(
    browser: Browser,
    cluster: LedgerCluster,
    audit: AuditProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        cluster.audit(tmp_path_factory.mktemp("silent"), **PATIENT) as silent,
        opened(browser, silent) as page,
    ):
        page.goto(f"/#/topic?cluster=test&topic={TOPIC}")
        expect(page.locator(".finding").first).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("essages"))).to_have_count(0)
