"""The page in Debian's Chromium, against an audit that reads the `_audit` of a real broker.

What is looked at is kept as pictures in the tests' temporary directory, or in
`$PENSTOCK_SCREENSHOTS`.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from client.addresses import parse_addresses
from client.brokers import Brokers
from cluster.zookeeper import EmbeddedZooKeeper
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.pipeline_said import DESTINATION, WINDOW, Said
from tests.audit_process import AuditProcess
from tests.broker_process import BrokerProcess
from tests.registry_process import RegistryProcess

CHROMIUM: Final = "/usr/bin/chromium"
ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MILLIS: Final = 30_000
HOUR: Final = 3_600_000
NOW: Final = int(time.time() * 1000)
BEGAN: Final = (NOW - 3 * HOUR) // HOUR * HOUR

SCRIPT: Final = '<script>window.hacked = "script"</script>'
PICTURE: Final = "/var/log/<img src=x onerror=window.hacked=1>\"'\u202egol.txt" + "/long" * 2_000

CLICKS: Final = Said("clicks", "web-3", "/var/log/shop/a.log", BEGAN, missing=(120, 132), until=NOW)
ORDERS: Final = Said("orders", "web-4", "/var/log/shop/o.log", BEGAN, until=NOW)
HOSTILE: Final = Said("hostile", SCRIPT, PICTURE, BEGAN, missing=(500, 503), until=NOW)

LOOKS: Final = {
    "light": ("light", 1280, 860),
    "dark": ("dark", 1280, 860),
    "phone": ("light", 375, 812),
    "dark-phone": ("dark", 375, 812),
}
VIEWS: Final = ("", "findings", "agents", "loads?cluster=test&topic=clicks", "brokers", "alerts")

FOUR_HOURS: Final = f"/#/topic?cluster=test&topic=clicks&from={BEGAN - HOUR}&to={BEGAN + 3 * HOUR}"

Write = Callable[[Sequence[Entry]], None]


@pytest.fixture(scope="module")
def write(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[tuple[Write, str, str]]:
    """Writes entries to `_audit` of a broker that nobody else speaks of."""
    address = f"{zookeeper.address}/page"
    with ExitStack() as stack:
        broker = stack.enter_context(
            BrokerProcess(tmp_path_factory.mktemp("broker"), zookeeper=address)
        )
        registry = stack.enter_context(
            RegistryProcess(tmp_path_factory.mktemp("registry"), brokers=broker.bootstrap)
        )
        brokers = stack.enter_context(Brokers(parse_addresses(broker.bootstrap)))
        client = stack.enter_context(RegistryClient(registry.url))

        def write(entries: Sequence[Entry]) -> None:
            write_entries(brokers, client, entries, timestamp=int(time.time() * 1000))

        yield write, broker.bootstrap, registry.url


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, write: tuple[Write, str, str]
) -> Iterator[AuditProcess]:
    say, brokers, registry = write
    say([entry for said in (CLICKS, ORDERS, HOSTILE) for entry in said.entries()])
    directory = tmp_path_factory.mktemp("audit")
    # So long agents may be behind: the tests take longer on a busy machine.
    settings = {"grace": 3600, "alerts": {"after": 0, "silent": 1e6}}
    with AuditProcess(directory, brokers=brokers, registry=registry, settings=settings) as audit:
        yield audit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}: Debian's package chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MILLIS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, audit: AuditProcess, look: str = "light", *, expected: str = ""
) -> Iterator[Page]:
    """A page that has nothing to complain of when it is closed, but for what is expected."""
    scheme, width, height = LOOKS[look]
    context = browser.new_context(
        base_url=audit.url,
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": height},
        timezone_id="Europe/Vienna",
    )
    context.set_default_timeout(PATIENCE_MILLIS)
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None,
    )
    yield page
    context.close()
    assert [each for each in complaints if not expected or expected not in each] == []


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Page, str], None]:
    """Keeps a picture of what is shown, and sees that nothing sticks out at the side."""
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")

    def picture(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")
        root = page.evaluate_handle("document.documentElement")
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, name

    return picture


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_from_the_overview_to_the_missing_bytes(
    look: str, browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
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
    look: str, browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
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


def test_hostile_names_are_text(
    browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
) -> None:
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


def test_a_table_that_is_not_loaded_stands_before_all_others(
    browser: Browser,
    audit: AuditProcess,
    write: tuple[Write, str, str],
    keep: Callable[[Page, str], None],
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
    width: int, browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
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
    keep: Callable[[Page, str], None],
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
    browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
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
    browser: Browser, audit: AuditProcess, keep: Callable[[Page, str], None]
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
        expect(live).to_have_attribute("data-live", "live")


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
