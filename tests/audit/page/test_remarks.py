"""Text that was altered on its way stands beside the verdict, which it does not change."""

from playwright.sync_api import Browser, expect

from harness.audit_process import AuditProcess
from tests.audit.page.browsing import BEGAN, HOUR, NOW, PICTURE, SCRIPT, Keep, Write, opened
from tests.audit.page.pipeline_said import Entry, Said

TOPIC = "altered"
RANGE = f"/#/topic?cluster=test&topic={TOPIC}&from={BEGAN}&to={BEGAN + 3 * HOUR}"


def altered(kind: str, lines: int, count: int, path: str = "/var/log/a.log", **more: str) -> Entry:
    known: Entry = {"topic": TOPIC, "input": SCRIPT, "source": "", "path": path, "kind": kind}
    known |= {"lines": lines, "count": count, "from_time": BEGAN, "to_time": BEGAN + 60_000}
    return known | more


def test_what_was_altered_is_told_by_file(
    browser: Browser, audit: AuditProcess, write: tuple[Write, str, str], keep: Keep
) -> None:
    agent, broker, files = Said(TOPIC, "web-8", "/var/log/a.log", BEGAN, until=NOW).entries()
    agent["altered"] = [
        altered("replaced", 9, 12, PICTURE, hint="cp1252"),
        altered("cut", 1, 2_097_152),
        altered("dropped", 3, 3, name=SCRIPT),
        altered("unread", 0, 1, "/var/log/a.log.1.gz"),
    ]
    write[0]([agent, broker, files])
    for look in ("light", "phone"):
        with opened(browser, audit, look) as page:
            page.goto(RANGE)
            card = page.locator(".card", has_text="Altered on the way")
            expect(card).to_contain_text("9 lines had invalid characters")
            expect(card).to_contain_text("1 line was cut")
            expect(card).to_contain_text("3 field values were dropped")
            expect(card).to_contain_text("1 archive was not read")
            expect(card).to_contain_text("it looks like cp1252: set encoding")
            expect(card).to_contain_text("1 line was cut at max_line_bytes, 2.1 MB left out")
            expect(card).to_contain_text("host web-8")
            expect(page.locator(".heading .badge")).to_have_text("Complete")
            keep(page, f"altered-{look}")
            assert page.evaluate("window.hacked") is None
