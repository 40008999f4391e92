"""What the page must not make look better than it is: tables that are not loaded, faults that are
not told yet, an audit that stands still, and addresses that name nothing."""

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from harness.audit_process import AuditProcess
from ledger.publishing import Entry
from tests.audit.page.browsing import BEGAN, HOUR, NOW, PATIENCE_MILLIS, Keep, Write, opened
from tests.audit.page.pipeline_said import Said


def test_a_table_that_is_not_loaded_stands_before_all_others(
    browser: Browser,
    audit: AuditProcess,
    write: tuple[Write, str, str],
    keep: Keep,
) -> None:
    said = Said("dropped", "web-7", "/var/log/d.log", BEGAN, until=NOW)
    agent, broker, files = said.entries()

    def tried(seq: int, *, failed: bool) -> Entry:
        header = {**files["header"], "seq": seq, "time": NOW, "source": "loader-tried"}
        load = {"topic": "dropped", "failed": failed, "since": NOW - HOUR}
        load |= {"reason": "1 of 1 records are dead", "cure": "raise dead_share"} if failed else {}
        return {**files, "header": header, "passages": [], "loads": [load]}

    write[0]([agent, broker, tried(0, failed=True)])
    for look in ("light", "phone"):
        with opened(browser, audit, look) as page:
            page.goto("/")
            first = page.locator("main .card").first
            expect(first).to_contain_text("This table cannot be loaded")
            expect(first).to_contain_text("1 of 1 records are dead")
            expect(first).to_contain_text("What to do: raise dead_share")
            expect(page.locator("tbody tr").first).to_contain_text("Not loaded")
            keep(page, f"unloaded-{look}")
            first.get_by_role("link", name="dropped").click()
            expect(page.locator(".heading .badge")).to_have_text("Not loaded")
            expect(page.locator("main .card").first).to_contain_text("raise dead_share")
            page.goto("/#/loads")
            expect(page.locator("main .card").first).to_contain_text("raise dead_share")
            page.goto("/#/alerts")
            row = page.locator("tr", has=page.get_by_role("link", name="dropped")).first
            expect(row).to_contain_text("Not loaded")
    write[0]([files, tried(1, failed=False)])
    with opened(browser, audit) as page:
        page.goto("/#/topic?cluster=test&topic=dropped")
        expect(page.locator(".heading .badge")).to_have_text("Complete")


@pytest.mark.parametrize("width", [360, 390])
def test_how_many_alerts_there_are_is_seen_on_a_phone(
    width: int, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, "phone") as page:
        page.set_viewport_size({"width": width, "height": 844})
        page.goto("/")
        raised = page.locator("#alerts-raised")
        expect(raised).to_be_visible()
        box = raised.bounding_box()
        assert box
        assert box["x"] + box["width"] <= width
        keep(page, f"overview-{width}")


def test_a_fault_that_is_not_raised_yet_is_known(
    browser: Browser,
    tmp_path: Path,
    write: tuple[Write, str, str],
    audit: AuditProcess,
    keep: Keep,
) -> None:
    _, brokers, registry = write
    settings = {"grace": 3600, "alerts": {"after": 86_400, "silent": 1e6}}
    with (
        AuditProcess(tmp_path, brokers=brokers, registry=registry, settings=settings) as patient,
        opened(browser, patient) as page,
    ):
        page.goto("/#/alerts")
        expect(page.locator(".list-head")).to_contain_text("not old enough yet to be raised")
        expect(page.locator(".finding", has_text="clicks").first).to_contain_text("raised at")
        expect(page.get_by_text("No alert is raised")).to_have_count(0)
        keep(page, "alerts-waiting")


def test_what_is_typed_as_a_path_is_found(
    browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit) as page:
        page.goto("/findings?topic=clicks&cluster=test")
        expect(page.locator("h1")).to_have_text("Findings")
        expect(page.locator(".finding")).to_have_count(1)
        for nowhere in ("/#/nonsense", "/no/such/thing"):
            page.goto(nowhere)
            expect(page.locator("h1")).to_have_text("There is no such page")
            keep(page, "nowhere")
        page.locator("main").get_by_role("link", name="Agents").click()
        expect(page.locator("h1")).to_have_text("Agents")


def test_an_audit_that_stands_still_is_not_green(
    browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit) as page:
        page.clock.install()
        page.goto("/")
        live = page.locator("#live")
        expect(live).to_have_attribute("data-live", "live")
        expect(page.locator("#live-words")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        process = audit.process.pid
        os.kill(process, signal.SIGSTOP)
        try:
            page.clock.fast_forward(100_000)
            expect(live).to_have_attribute("data-live", "lost")
            expect(page.locator("#live-words")).to_have_text(re.compile(r"\d min old"))
            page.clock.fast_forward(40_000)
            keep(page, "frozen")
        finally:
            os.kill(process, signal.SIGCONT)
        page.clock.fast_forward(10_000)
        # A page whose stream is refused meanwhile comes again after a minute.
        expect(live).to_have_attribute("data-live", "live", timeout=2.5 * PATIENCE_MILLIS)


def test_an_answer_that_took_long_is_as_old_as_it_is(
    browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    held: list[Route] = []

    def hold(question: Route) -> None:
        held.append(question)

    with opened(browser, audit) as page:
        page.clock.install()
        page.route(re.compile(r"/api/v1/topics\?size=1$"), hold)
        with page.expect_request(lambda request: request.url.endswith("/topics?size=1")):
            page.goto("/")
        page.clock.fast_forward(15_000)
        held[0].continue_()
        live = page.locator("#live-words")
        expect(live).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        page.clock.fast_forward(50_000)
        assert re.fullmatch(r"1 min.* old", live.inner_text())
        keep(page, "answered-late")
