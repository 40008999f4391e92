"""What nobody watched, on the page: a colour, a sign and words of its own, and never green."""

from playwright.sync_api import Browser, expect

from audit import answers
from harness.audit_process import AuditProcess
from harness.waiting import wait_until
from tests.audit.page.browsing import BEGAN, HOUR, NOW, Keep, Write, opened
from tests.audit.page.pipeline_said import WINDOW, Said


def test_what_nobody_watched_is_neither_green_nor_missing(
    browser: Browser, audit: AuditProcess, write: tuple[Write, str, str], keep: Keep
) -> None:
    agent, *rest = Said("blind", "web-5", "/var/log/b/b.log", BEGAN, until=NOW).entries()
    header = {**agent["header"], "seq": 1}
    blind = {
        "topic": "blind",
        "path": "/var/log/b",
        "from_time": BEGAN + 10 * WINDOW,
        "to_time": BEGAN + 14 * WINDOW,
        "traces": "changed",
        "reason": "b.log.3 came and went",
    }
    later = {**agent, "header": header, "passages": [], "unwatched": [blind]}
    write[0]([agent, *rest, later])

    def state() -> str:
        found = audit.get("topics", answers.TopicsAnswer, search="blind").items
        return found[0].state.value if found else ""

    wait_until(lambda: state() == "unknown", within=30, what="it is unknown")
    for look in ("light", "phone"):
        with opened(browser, audit, look) as page:
            page.goto("/")
            row = page.locator("tr", has=page.get_by_role("link", name="blind"))
            expect(row.locator(".badge.state-unknown")).to_have_text("Unknown")
            row.get_by_role("link", name="blind").click()
            expect(page.locator(".heading .badge")).to_have_text("Unknown")
            expect(page.locator(".heat-row.verdicts .state-unknown").first).to_be_visible()
            finding = page.locator(".finding", has_text="web-5")
            expect(finding.locator(".badge")).to_have_text("Unknown")
            keep(page, f"unknown-{look}")
            page.goto("/#/findings?kind=unknown")
            expect(page.locator(".finding", has_text="/var/log/b")).to_have_count(1)
            page.goto("/#/alerts")
            alert = page.locator("tr", has=page.get_by_role("link", name="blind")).first
            expect(alert).to_contain_text("Unknown")
    report = audit.get("report", answers.ReportAnswer, topic="blind", from_=BEGAN, to=BEGAN + HOUR)
    assert report.state == "unknown"
    line = 'penstock_audit_topic_state{cluster="test",topic="blind",topic_id=""} 2.0'
    wait_until(lambda: line in audit.ask("/metrics").body.decode(), within=30, what="a figure")
