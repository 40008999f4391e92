"""Every view as axe-core sees it: no violation of WCAG 2.2, levels A and AA."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.audit.http.locked import OLGA, LockedAudit
from tests.audit.page.browsing import AXE, FOUR_HOURS, LOOKS, VIEWS, Keep, arrived, opened, row_of
from tests.system.other_languages.programs import ClientUnavailable, node_modules

pytestmark = pytest.mark.long

LEVELS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN: Final = """levels => (scrollTo(0, 0), axe.run({runOnly: levels})).then(({violations}) =>
    violations.flatMap(({nodes}) => nodes.map((node) => node.html + node.failureSummary)))"""
HOST: Final = "host?cluster=test&host=web-3"
MESSAGES: Final = "#/messages?cluster=test&topic=remade&offset=0"
PLACES: Final = ["login", "runbook", FOUR_HOURS[1:], "#/nowhere", MESSAGES] + [
    f"#/{view}" for view in (*VIEWS, HOST, f"{HOST}&topic=clicks", "alerts?state=resolved")
]


@pytest.fixture(scope="module")
def page(browser: Browser, locked: LockedAudit) -> Iterator[Page]:
    with opened(browser, locked, expected=["status of 401"]) as page:
        arrived(page, OLGA, "/#/alerts")
        expect(row_of(page, "remade")).to_contain_text("Acknowledge")
        yield page


@pytest.fixture(scope="module")
def axe() -> str:
    try:
        return (node_modules(AXE) / "axe-core" / "axe.min.js").read_text()
    except ClientUnavailable as why:
        pytest.skip(f"there is no axe-core: {why}")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.partition("?")[0])
def test_everybody_can_read_and_use_it(place: str, page: Page, axe: str, keep: Keep) -> None:
    """As an operator sees it, from the top, with every form open; and the help over one view."""
    if place == "login":
        page.context.clear_cookies()
    elif not page.context.cookies():
        arrived(page, OLGA, "/")
    page.goto("about:blank")  # a dialog would stay, and hide the view from axe
    page.goto(f"/{place}")
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator(".bones")).to_have_count(0)
    if place == "#/nowhere":
        page.get_by_role("button", name="Keyboard and signs").click()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    expect(page.locator("details:not([open])")).to_have_count(0)
    page.evaluate(axe)
    found: list[str] = []
    for look, (scheme, width, height) in LOOKS.items():
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": height})
        found += [f"{look}: {each[:500]}" for each in page.evaluate(RUN, LEVELS)]
        keep(page, f"axe-{PLACES.index(place)}-{look}")
    assert found == [], "\n".join(found)
