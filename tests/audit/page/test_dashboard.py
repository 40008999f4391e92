"""The page in Debian's Chromium, against an audit that reads the `_audit` of a real broker."""

import re

import pytest
from playwright.sync_api import Browser, expect

from harness.audit_process import AuditProcess
from tests.audit.page.browsing import (
    BEGAN,
    FOUR_HOURS,
    HOUR,
    NOW,
    SCRIPT,
    VIEWS,
    Keep,
    Write,
    opened,
)
from tests.audit.page.pipeline_said import DESTINATION, WINDOW, Said


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_from_the_overview_to_the_missing_bytes(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/")
        expect(page.locator("h1")).to_have_text("Not every line is accounted for")
        row = page.locator("tr", has=page.get_by_role("link", name="clicks"))
        expect(row).to_contain_text("Missing")
        keep(page, f"overview-{look}")

        page.get_by_role("link", name="clicks").click()
        expect(page.locator("h1")).to_have_text("clicks")
        expect(page.locator(".heat .cell.state-missing").first).to_be_visible()
        finding = page.locator(".finding", has_text="web-3")
        expect(finding).to_contain_text("/var/log/shop/a.log, bytes 1,200 to 1,320")
        page.wait_for_function("document.querySelector('.chart canvas') !== null")
        keep(page, f"topic-{look}")

        finding.get_by_role("link").click()
        expect(page.locator("h1")).to_have_text("web-3")
        file = page.locator(".file", has_text="/var/log/shop/a.log")
        expect(file.locator(".said")).to_contain_text("bytes 1,200 to 1,320")
        expect(file.locator(".range .absent")).to_have_count(1)
        keep(page, f"host-{look}")


@pytest.mark.parametrize("look", ["light", "dark-phone"])
def test_every_view_has_something_to_show(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        for view in VIEWS:
            page.goto(f"/#/{view}")
            expect(page.locator("main .card").first).to_be_visible()
            expect(page.locator(".bones")).to_have_count(0)
            expect(page.locator("[role=alert]")).to_have_count(0)
            keep(page, f"{view.partition('?')[0] or 'all'}-{look}")


def test_an_alert_leads_to_its_hour(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/alerts?state=raised")
        row = page.locator("tr", has=page.get_by_role("link", name="clicks")).first
        expect(row).to_contain_text("Missing")
        row.get_by_role("link", name="clicks").click()
        expect(page).to_have_url(re.compile(f"from={BEGAN}&to={BEGAN + HOUR}"))
        expect(page.locator(".heat-row.verdicts .state-missing")).not_to_have_count(0)


def test_hostile_names_are_text(browser: Browser, audit: AuditProcess, keep: Keep) -> None:
    with opened(browser, audit, "phone") as page:
        page.goto("/#/agents")
        expect(page.get_by_text(SCRIPT)).to_be_visible()
        page.goto("/#/topic?cluster=test&topic=hostile")
        page.get_by_role("link", name=SCRIPT).first.click()
        expect(page.locator("h1")).to_have_text(SCRIPT)
        shown = page.locator(".file-head .name")
        expect(shown).to_contain_text(
            "/var/log/<img src=x onerror=window.hacked=1>\"'‹202E›gol.txt"
        )
        assert len(shown.inner_text()) < 200
        keep(page, "hostile")
        assert page.evaluate("window.hacked") is None
        assert page.locator("main script, main img").count() == 0


NEWS_WHILE_IT_ASKS = """
async () => {
  const { Pane } = await import("./static/js/parts/pane.js");
  const answers = [];
  const pane = new Pane(() => new Promise((answer) => answers.push(answer)), (said) => [said.text]);
  pane.refresh();
  pane.refresh(false);
  pane.refresh(false);
  answers.shift()({ text: "older" });
  await new Promise((later) => setTimeout(later));
  answers.shift()?.({ text: "newer" });
  await new Promise((later) => setTimeout(later));
  return [pane.node.textContent, answers.length];
}
"""


def test_news_that_come_while_it_asks_are_asked_for(browser: Browser, audit: AuditProcess) -> None:
    """Once, however many: the answer that is still to come may be older."""
    with opened(browser, audit) as page:
        page.goto("/")
        assert page.evaluate(NEWS_WHILE_IT_ASKS) == ["newer", 0]


def test_the_heat_map_by_keyboard(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto(FOUR_HOURS)
        page.locator(".heat .cell[tabindex='0']").focus()
        tip = page.locator(".tip")
        expect(tip).to_contain_text("Missing")
        expect(tip).to_contain_text("12")
        page.keyboard.press("ArrowDown")
        focused = page.locator(".heat .cell:focus")
        expect(focused).to_have_attribute("aria-label", re.compile("Agents, .* events"))
        page.keyboard.press("ArrowDown")
        expect(focused).to_have_attribute("aria-label", re.compile("Brokers, .* 12 missing"))
        page.keyboard.press("Home")
        expect(tip).to_contain_text("Nothing happened here.")
        page.keyboard.press("End")
        for _ in range(8):
            page.keyboard.press("Shift+ArrowLeft")
        expect(page.locator(".heat-row.verdicts .cell.in")).to_have_count(9)
        page.keyboard.press("Enter")
        expect(page.get_by_text("each cell 1 min")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("each cell 5 min")).to_be_visible()
        page.locator(".heat .cell[tabindex='0']").press("-")
        expect(page.get_by_text("each cell 5 min")).to_be_visible()
        expect(page).not_to_have_url(re.compile(str(BEGAN - HOUR)))


def test_dragging_over_the_heat_map_zooms_down_to_windows(
    browser: Browser, audit: AuditProcess
) -> None:
    with opened(browser, audit) as page:
        page.goto(FOUR_HOURS)
        verdicts = page.locator(".heat-row.verdicts")
        box = verdicts.locator(".state-missing").bounding_box()
        assert box
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] - 15, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] + 15, middle, steps=4)
        page.mouse.up()
        expect(page.get_by_text("each cell 1 min")).to_be_visible()
        missing = verdicts.locator(".state-missing")
        expect(missing).to_have_count(2)  # events 120 to 131 are of two windows
        missing.first.hover()
        expect(page.locator(".tip")).to_contain_text("Brokers(−10) 0")


def test_keys_search_and_theme(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.keyboard.press("/")
        page.keyboard.type("ord")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page).to_have_url(re.compile("search=ord"))
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("orders")
        expect(page.locator(".heading .badge")).to_have_text("Complete")
        page.keyboard.press("u")
        page.keyboard.press("?")
        expect(page.locator("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("a")
        expect(page.locator("h1")).to_have_text("Agents")
        for theme in ("light", "dark"):
            page.keyboard.press("d")
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 18, 24)"


def test_figures_add_up_as_they_are_shown(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/topic?cluster=test&topic=clicks")
        parts = page.locator(".sum .part b")
        expect(parts).to_have_count(5)
        read, *fates = [int(each.replace(",", "")) for each in parts.all_inner_texts()]
        assert read == sum(fates) == 1_000
        tiers = page.locator(".tier b").all_inner_texts()
        assert tiers == ["1,000", "988", "988"]
        expect(page.locator(".tier").nth(1)).to_contain_text("12 missing, which agents have")
        expect(page.locator(".tier").nth(2)).to_contain_text(DESTINATION)
        times = page.locator(".finding time").first
        assert re.fullmatch(r"[0-9-]+ [0-9:]+ UTC", times.get_attribute("title") or "")


def test_what_is_new_appears_by_itself(
    browser: Browser, audit: AuditProcess, write: tuple[Write, str, str]
) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        expect(page.locator("#live")).to_have_attribute("data-live", "live")
        fresh = Said(
            "fresh", "web-9", "/var/log/f.log", BEGAN + HOUR, events=10, until=NOW + WINDOW
        )
        write[0](fresh.entries())
        expect(page.get_by_role("link", name="fresh")).to_be_visible()


def test_a_page_without_its_service_says_so(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit, expected="Failed to load resource: net::ERR_") as page:
        page.goto("/")
        expect(page.get_by_role("link", name="clicks")).to_be_visible()
        audit.kill()
        notices = page.locator("#notices")
        expect(notices).to_contain_text("The audit does not answer.")
        expect(page.get_by_role("link", name="clicks")).to_be_visible()
        audit.start()
        expect(notices).to_be_empty()
