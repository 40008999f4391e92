"""A moment in which nobody watched, on the page: green, and said in the first line of all."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from harness.audit_process import AuditProcess
from tests.audit.page.browsing import BEGAN, NOW, Keep, Write, opened
from tests.audit.page.pipeline_said import WINDOW, Said

ORDERS = Said("orders", "web-4", "/var/log/shop/o.log", BEGAN, until=NOW)


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, write: tuple[Write, str, str]
) -> Iterator[AuditProcess]:
    """Everything that it has read of is complete."""
    say, brokers, registry = write
    say(ORDERS.entries())
    with AuditProcess(
        tmp_path_factory.mktemp("audit"),
        brokers=brokers,
        registry=registry,
        settings={"grace": 3600, "alerts": {"after": 0, "silent": 1e6}},
    ) as audit:
        yield audit


def test_a_moment_is_in_the_first_line(
    browser: Browser, audit: AuditProcess, write: tuple[Write, str, str], keep: Keep
) -> None:
    with opened(browser, audit, "phone") as page:
        page.goto("/")
        expect(page.locator("h1")).to_have_text("Every line is accounted for")
        agent = ORDERS.entries()[0]
        moment = {
            "topic": "orders",
            "path": "/var/log/shop",
            "from_time": BEGAN + 10 * WINDOW,
            "to_time": BEGAN + 10 * WINDOW + 900,
            "traces": "brief",
            "reason": "no agent followed these files; may have been emptied: o.log",
        }
        header = {**agent["header"], "seq": 1}
        write[0]([{**agent, "header": header, "passages": [], "unwatched": [moment]}])
        expect(page.locator("h1")).to_have_text(
            "Every line is accounted for, as far as anybody was watching"
        )
        expect(page.locator(".verdict")).to_contain_text("Of 1 topic there was a time")
        row = page.locator("tr", has_text="orders")
        expect(row).to_contain_text("Complete")
        expect(row).to_contain_text("not watched for a time")
        keep(page, "moment-phone")
        row.get_by_role("link", name="orders").click()
        expect(page.locator(".finding.accepted")).to_contain_text("for a moment only")
