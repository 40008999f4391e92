"""When the brokers last read a topic's data again, on its page."""

from playwright.sync_api import Browser, expect

from harness.audit_process import AuditProcess
from tests.audit.page.browsing import BEGAN, HOUR, NOW, Write, opened
from tests.audit.page.pipeline_said import Said

MINUTE = 60_000


def test_the_page_says_when_stored_data_was_checked(
    browser: Browser, audit: AuditProcess, write: tuple[Write, str, str]
) -> None:
    said = Said("checked", "web-6", "/var/log/c/c.log", BEGAN, until=NOW)
    entries = said.entries()
    broker = next(each for each in entries if each["tier"] == "broker")
    log = {"topic": said.topic, "topic_id": said.topic_id, "partition": 0}
    write[0](entries)
    place = f"/#/topic?cluster=test&topic={said.topic}"
    with opened(browser, audit, "light") as page:
        page.goto(place)
        expect(page.locator(".heading .checked")).to_contain_text("checked never, all of it never")
        for seq, (recent, whole, shown) in enumerate(
            (
                (NOW - 12 * MINUTE, 0, "min ago, all of it never"),
                (NOW - 12 * MINUTE, NOW - 72 * HOUR, "min ago, all of it 3 days ago"),
            ),
            start=1,
        ):
            header = {**broker["header"], "seq": seq, "time": NOW}
            checked = {**log, "recent": recent, "whole": whole}
            write[0]([{**broker, "header": header, "passages": [], "scrubbed": [checked]}])
            expect(page.locator(".heading .checked")).to_contain_text(shown)
