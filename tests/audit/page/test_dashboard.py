"""The page in Debian's Chromium, against an audit that reads the `_audit` of a real broker: how one
gets about in it, that faults do not hide each other, and that nothing looks better than it is."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Route, expect

from audit.alerting import conditions
from audit.api import answers
from audit.reconciling.findings import FaultKind, KindCount
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.browsing import (
    ARGUMENTS,
    BEGAN,
    CHROMIUM,
    CLICKS,
    FOUR_HOURS,
    HOSTILE,
    HOUR,
    MIRROR,
    NOW,
    ORDERS,
    PATIENCE_MILLIS,
    PATIENT,
    PICTURE,
    SCRIPT,
    VIEWS,
    Keep,
    box_of,
    opened,
    row_of,
)
from tests.audit.page.pipeline_said import DESTINATION, WINDOW, Entry, Said, said_later

LOOKS = ["light", "dark-phone"]
# No entry is much younger than the others: of damage that landed well names are kept for minutes.


def several_faults() -> list[Entry]:
    """Two hundred rows of a file that was removed, a batch of fifty events that was cut, and a log
    file that vanished. The agent was last heard long ago."""
    agent, broker, files = Said("several", "web-8", "/var/log/s.log", BEGAN, until=NOW).entries()
    gone: Entry = {"topic": "several", "path": "/var/log/s.log", "source": "source-of-several"}
    gone |= {"position": 10_000, "from_time": BEGAN, "to_time": BEGAN + HOUR // 2}
    gone |= {"traces": "vanished", "reason": ""}
    cut: Entry = {"topic": "several", "partition": 0, "reason": "its CRC does not match"}
    cut |= {"offsets": {"first": 300, "count": 50}}
    removed: Entry = {"path": "several/part-1.parquet", "hour": BEGAN, "fault": "missing"}
    removed |= {"committed_rows": 200, "found_rows": 0}
    hour = {"topic": "several", "from_time": BEGAN, "to_time": BEGAN + HOUR, "faults": [removed]}
    return [
        *(agent, broker, files),
        said_later(agent, 1, unwatched=[gone]),
        said_later(broker, 1, damaged=[cut]),
        said_later(files, 1, checked=[hour | {"files": 1, "rows": 200}]),
    ]


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[AuditProcess]:
    topics = (CLICKS, ORDERS, HOSTILE)
    entries = [entry for said in topics for entry in said.entries()]
    cluster.write([MIRROR, *entries, *several_faults()])
    with cluster.audit(tmp_path_factory.mktemp("audit"), **PATIENT) as audit:
        yield audit


@pytest.mark.parametrize("look", LOOKS)
def test_from_the_overview_to_the_missing_bytes(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/")
        # Of this topic, or of one that other tests have spoilt.
        worst = "12 events of clicks, host web-3|50 events of several, host web-8"
        expect(page.locator("h1")).to_have_text(re.compile(f"({worst}), 2.* UTC .1 h 40 min."))
        row = row_of(page, "clicks")
        expect(row).to_contain_text("Missing")
        keep(page, f"overview-{look}")

        finding = page.locator(".finding", has_text="web-3")
        expect(finding).to_contain_text("12 events")
        expect(finding.locator("code")).to_contain_text("--source source-of-clicks --seqs 120-131")
        expect(page).to_have_title(re.compile("[✗≠] [0-9]+ Topics"))
        page.goto(f"/{finding.get_by_role('link', name='Runbook').get_attribute('href')}")
        expect(page.locator(":target h2")).to_contain_text("Missing")
        keep(page, f"runbook-{look}")
        page.goto("/")

        row.get_by_role("link", name="clicks").click()
        expect(page.locator("h1")).to_have_text("clicks")
        expect(page.locator(".heat .cell.state-missing").first).to_be_visible()
        finding = page.locator(".finding", has_text="web-3")
        expect(finding).to_contain_text("/var/log/shop/a.log, bytes 1,200 to 1,320")
        page.wait_for_function("document.querySelector('.chart canvas') !== null")
        keep(page, f"topic-{look}")

        finding.get_by_role("link", name="files of this host").click()
        expect(page.locator("h1")).to_have_text("web-3")
        file = page.locator(".file", has_text="/var/log/shop/a.log")
        expect(file.locator(".said")).to_contain_text("bytes 1,200 to 1,320")
        expect(file.locator(".range .absent")).to_have_count(1)
        keep(page, f"host-{look}")


@pytest.mark.parametrize("look", LOOKS)
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
        page.goto("/no/such/thing")  # what is typed as a path is a view
        expect(page.locator("h1")).to_have_text("There is no such page")


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_wrong_with_programs(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/")
        line = page.locator(".health-line")
        expect(line).to_contain_text("mirror dc1-to-dc2 on mirror-1 was last heard at 2")
        line.get_by_role("link", name="Health").click()
        expect(page.locator("h1")).to_have_text("Health")
        mirror = page.locator("tbody tr", has_text="dc1-to-dc2")
        expect(mirror).to_contain_text("Away")
        expect(mirror.locator("code")).to_have_text(
            "systemctl restart penstock-mirror # on mirror-1"
        )
        disk = page.locator("tbody tr", has_text="5.0 MiB of 100.0 GiB left")
        expect(disk.locator("script, img")).to_have_count(0)
        keep(page, f"health-{look}")
        page.get_by_role("button", name="OK").click()
        expect(page.locator("tbody tr").first).to_contain_text("Broker")
        expect(mirror).to_have_count(0)


def test_a_host_over_all_its_topics(browser: Browser, audit: AuditProcess, keep: Keep) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/agents")
        page.get_by_role("link", name="web-3").click()
        expect(page.locator("h1")).to_have_text("web-3")
        expect(page.locator(".finding")).to_contain_text("events 120 to 131")
        row = row_of(page, "clicks")
        expect(row).to_contain_text("1,000")
        keep(page, "host-topics")
        row.get_by_role("link", name="clicks").click()
        expect(page).to_have_url(re.compile("topic=clicks"))


def test_lists_are_files_too(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/findings")
        with page.expect_download() as csv:
            page.get_by_role("button", name="CSV").click()
        names, *rows = csv.value.path().read_text().splitlines()
        assert names.startswith("of,")
        assert sum("test/clicks," in row for row in rows) == 1
        assert audit.ask("/" + str(page.get_by_role("link", name="JSON").get_attribute("href")))


def test_any_time_can_be_typed(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/topic?cluster=test&topic=clicks")
        page.locator("#zone").click()
        hour = datetime.fromtimestamp(BEGAN / 1000, ZoneInfo("Europe/Vienna"))
        page.get_by_label("From", exact=True).fill(f"{hour:%Y-%m-%d %H:%M}")
        page.get_by_label("To", exact=True).fill(f"{hour + timedelta(hours=1):%Y-%m-%d %H:%M}")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page).to_have_url(re.compile(f"from={BEGAN}&to={BEGAN + HOUR}"))


def test_what_was_typed_stays_until_another_range_is_chosen(
    browser: Browser, audit: AuditProcess
) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/topic?cluster=test&topic=clicks")
        field = page.get_by_label("To", exact=True)
        field.fill("2026-11-03 14:05")
        field.blur()
        for _ in range(2):  # the second answer comes after the first was shown
            with page.expect_response(re.compile("/api/v1/topic")):
                page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(field).to_have_value("2026-11-03 14:05")
        page.get_by_role("button", name=re.compile("^6.h$")).click()
        expect(field).not_to_have_value("2026-11-03 14:05")


def test_an_alert_leads_to_its_hour(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/#/alerts?state=raised")
        row = row_of(page, "clicks")
        expect(row).to_contain_text("Missing")
        row.get_by_role("link", name="clicks").click()
        expect(page).to_have_url(re.compile(f"from={BEGAN}&to={BEGAN + HOUR}"))
        expect(page.locator(".heat-row.verdicts .state-missing")).not_to_have_count(0)


def test_every_kind_of_alert_has_a_label_and_help(browser: Browser, audit: AuditProcess) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        page.keyboard.press("?")
        for kind in conditions.KINDS:
            row = page.locator(f"#help-alerts [data-kind={kind}]")
            expect(row).to_have_text(re.compile("^[A-Z].{20}"))


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
        box = box_of(verdicts.locator(".state-missing"))
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


def test_all_times_are_in_one_zone(browser: Browser, audit: AuditProcess, keep: Keep) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        for zone, shown in ((UTC, "UTC"), (ZoneInfo("Europe/Vienna"), "CE?S?T|GMT")):
            hour = datetime.fromtimestamp(BEGAN / 1000, zone)
            expect(page.locator("#zone")).to_have_text(re.compile(shown))
            expect(page.locator("h1")).to_contain_text(f"{hour:%Y-%m-%d %H:%M:%S} to ")
            expect(page.locator("h1")).to_contain_text(re.compile(f"({shown}).* \\(1 h 40 min\\)"))
            expect(page.locator(".finding time").first).to_have_text(re.compile(f"{hour:%H:%M}"))
            keep(page, f"zone-{shown[:2]}")
            if zone is UTC:
                page.locator("#zone").click()
        page.reload()
        expect(page.locator("#zone")).not_to_have_text("UTC")


def test_the_page_settles(audit: AuditProcess) -> None:
    """For programs that draw it until no request is open, as fast as time can pass."""
    drawn = subprocess.run(
        [CHROMIUM, *ARGUMENTS, "--virtual-time-budget=60000", "--dump-dom", f"{audit.url}/"],
        capture_output=True,
        timeout=PATIENCE_MILLIS / 1000,
        check=True,
    )
    assert b"120-131" in drawn.stdout  # of the command beside the finding


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
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster
) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        page.mouse.move(9, 9)  # only a page that somebody reads has a stream
        expect(page.locator("#live")).to_have_attribute("data-live", "live")
        time = BEGAN + HOUR
        fresh = Said("fresh", "web-9", "/var/log/f.log", time, events=10, until=NOW + WINDOW)
        cluster.write(fresh.entries())
        expect(page.get_by_role("link", name="fresh")).to_be_visible()


def test_a_page_without_its_service_says_so(browser: Browser, audit: AuditProcess) -> None:
    away = ["Failed to load resource: net::ERR_", "status of 503"]  # until it has read all
    with opened(browser, audit, expected=away) as page:
        page.goto("/")
        expect(row_of(page, "clicks")).to_be_visible()
        audit.kill()
        notices = page.locator("#notices")
        expect(notices).to_contain_text("The audit does not answer.")
        expect(row_of(page, "clicks")).to_be_visible()
        audit.start()
        expect(notices).to_be_empty()


# What is known of a topic


def altered(kind: str, lines: int, count: int, path: str = "/var/log/a.log", **more: str) -> Entry:
    known: Entry = {"topic": "altered", "input": SCRIPT, "source": "", "path": path, "kind": kind}
    known |= {"lines": lines, "count": count, "from_time": BEGAN, "to_time": BEGAN + 60_000}
    return known | more


def test_what_was_altered_is_told_by_file(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster, keep: Keep
) -> None:
    """Beside the verdict, which it does not change."""
    agent, broker, files = Said("altered", "web-8", "/var/log/a.log", BEGAN, until=NOW).entries()
    agent["altered"] = [
        altered("replaced", 9, 12, PICTURE, hint="cp1252"),
        altered("cut", 1, 2_097_152),
        altered("dropped", 3, 3, name=SCRIPT),
        altered("unread", 0, 1, "/var/log/a.log.1.gz"),
    ]
    cluster.write([agent, broker, files])
    for look in LOOKS:
        with opened(browser, audit, look) as page:
            page.goto(f"/#/topic?cluster=test&topic=altered&from={BEGAN}&to={BEGAN + 3 * HOUR}")
            card = page.locator(".card", has_text="Altered on the way")
            for words in (
                "9 lines had invalid characters",
                "1 line was cut",
                "3 field values were dropped",
                "1 archive was not read",
                "it looks like cp1252: set encoding",
                "1 line was cut at max_line_bytes, 2.1 MB left out",
                "archive not read",
                "dropped: not in the topic's schema",
                "host web-8",
            ):
                expect(card).to_contain_text(words)
            expect(page.locator(".heading .badge")).to_have_text("Complete")
            keep(page, f"altered-{look}")
            assert page.evaluate("window.hacked") is None
            page.goto("/")
            expect(page.locator("main")).to_contain_text("In the last 24 hours, 1 line was cut")
            page.goto("/#/topic?cluster=test&topic=orders")
            expect(page.locator("main")).to_contain_text("Where every line went")
            expect(page.locator(".card", has_text="Altered on the way")).to_have_count(0)


def test_the_page_says_when_stored_data_was_checked(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster
) -> None:
    entries = Said("checked", "web-6", "/var/log/c/c.log", BEGAN, until=NOW).entries()
    said = entries[1]["header"]["time"]
    log = {"topic": "checked", "topic_id": "", "partition": 0, "recent": said - 12 * WINDOW}
    cluster.write(entries)
    with opened(browser, audit) as page:
        page.goto("/#/topic?cluster=test&topic=checked")
        shown = page.locator(".heading .checked")
        expect(shown).to_contain_text("checked never, all of it never")
        for seq, (whole, words) in enumerate(((0, "never"), (NOW - 72 * HOUR, "3 days ago")), 1):
            cluster.write([said_later(entries[1], seq, scrubbed=[{**log, "whole": whole}])])
            lately = re.compile(rf"checked [\d.]+ (min|h) ago, all of it {words}")
            expect(shown).to_contain_text(lately)


def test_what_changed_is_marked_on_the_time_axis(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster, keep: Keep
) -> None:
    """On heat map and charts, and in words for those who cannot point at it."""
    agent, *rest = Said("rolled", "web-9", "/var/log/r.log", BEGAN, until=NOW).entries()
    released_at = agent["health"][0] | {"program_version": "0.2.0", "started": BEGAN + HOUR}
    cluster.write([agent, *rest, said_later(agent, 1, health=[released_at])])
    released = "Agent on web-9 restarted: version 0.2.0, before 0.1.0"
    changes = "[aria-labelledby='card-what-changed'] li"
    for look in LOOKS:
        with opened(browser, audit, look) as page:
            page.goto("/")
            row_of(page, "rolled").wait_for()  # or it is not known yet
            page.goto(FOUR_HOURS.replace("clicks", "rolled"))
            expect(page.locator(changes)).to_have_count(3)  # and a load
            expect(page.locator(changes).nth(1)).to_contain_text(released)
            marked = page.locator(".heat-row.changes .marked")
            expect(marked).to_have_count(3)
            page.locator(".heat .cell[tabindex='0']").focus()
            page.keyboard.press("Home")
            for key in ("ArrowDown",) * 9 + ("ArrowRight",) * 12:
                page.keyboard.press(key)
            expect(page.locator(".heat .cell:focus")).to_have_attribute(
                "aria-label", re.compile("What changed, .* Agent on web-9 started, version 0.1.0")
            )
            expect(page.locator(".tip")).to_contain_text("Agent on web-9 started")
            delays = page.get_by_role("img", name=re.compile("^Delay after the event, by hour"))
            expect(delays).to_have_attribute("aria-label", re.compile("Agents, half within"))
            keep(page, f"changes-{look}")
            page.goto("/#/host?cluster=test&host=web-9")
            expect(page.locator(changes).first).to_contain_text(released)
            expect(page.get_by_role("img", name=re.compile("^Lag over time"))).to_be_visible()
            keep(page, f"host-changes-{look}")
            page.goto("/")
            expect(page.locator(".verdict .rate")).to_have_text(
                re.compile(r"0 events/s at \d\d:\d\d:\d\d")
            )
            keep(page, f"overview-rates-{look}")


def test_what_nobody_watched_is_neither_green_nor_missing(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster, keep: Keep
) -> None:
    """A colour, a sign and words of its own, and never green."""
    agent, *rest = Said("blind", "web-5", "/var/log/b/b.log", BEGAN, until=NOW).entries()
    blind: Entry = {"topic": "blind", "path": "/var/log/b", "traces": "changed"}
    blind |= {"from_time": BEGAN + 10 * WINDOW, "to_time": BEGAN + 14 * WINDOW}
    blind |= {"reason": "b.log.3 came and went"}
    cluster.write([agent, *rest, said_later(agent, 1, unwatched=[blind])])

    def state() -> str:
        found = audit.get("topics", answers.TopicsAnswer, search="blind").items
        return found[0].state.value if found else ""

    wait_until(lambda: state() == "unknown", within=30, what="it is unknown")
    for look in LOOKS:
        with opened(browser, audit, look) as page:
            page.goto("/")
            row = row_of(page, "blind")
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
            expect(row_of(page, "blind")).to_contain_text("Unknown")
    report = audit.get("report", answers.ReportAnswer, topic="blind", from_=BEGAN, to=BEGAN + HOUR)
    assert report.state == "unknown"
    line = 'penstock_audit_topic_state{cluster="test",topic="blind",topic_id=""} 2.0'
    wait_until(lambda: line in audit.ask("/metrics").body.decode(), within=30, what="a figure")


# A topic with several faults at once, and a host that is silent

KINDS = (
    KindCount(kind=FaultKind.CHANGED, findings=1, events=50),
    KindCount(kind=FaultKind.MISSING, findings=1, events=200),
    KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1),
)


@pytest.fixture(scope="module")
def spoilt(audit: AuditProcess) -> str:
    def judged() -> bool:
        found = audit.get("topics", answers.TopicsAnswer, search="several").items
        return bool(found) and found[0].kinds == KINDS

    wait_until(judged, within=60, what="all of it is judged")
    return "several"


def test_each_kind_is_counted_by_itself(audit: AuditProcess, spoilt: str) -> None:
    report = audit.get("report", answers.ReportAnswer, topic=spoilt, from_=BEGAN, to=BEGAN + HOUR)
    assert report.topics[0].kinds == KINDS
    for each in KINDS:
        labels = f'cluster="test",kind="{each.kind}",topic="several",topic_id=""'
        line = f"penstock_audit_topic_findings_of_kind{{{labels}}} 1.0"
        wait_until(
            lambda wanted=line: wanted in audit.ask("/metrics").body.decode(),
            within=30,
            what="a figure",
        )


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_hides_anything_else(
    look: str, browser: Browser, audit: AuditProcess, spoilt: str, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/")
        row = row_of(page, spoilt)
        expect(row.locator(".badge")).to_have_text(["Changed", "Missing", "Unknown"])
        expect(page.locator("[data-focus='state-changed'] b")).to_have_text("1")
        keep(page, f"several-{look}")
        page.locator("[data-focus='state-missing']").click()
        expect(row).to_have_count(1)
        row.get_by_role("link", name=spoilt).click()
        expect(page.locator(".heading .badge")).to_have_text(["Changed", "Missing", "Unknown"])
        expect(page.locator(".passage")).to_contain_text("200 missing, which brokers have")
        host = row_of(page, "web-8")
        expect(host.locator(".badge")).to_have_text(["Changed", "Unknown", "Silent"])
        keep(page, f"several-topic-{look}")
        host.get_by_role("link", name="web-8").click()
        file = page.locator(".file")
        expect(file).to_contain_text("its end is gone")
        expect(file).not_to_contain_text("still growing")
        expect(file.locator(".said")).to_contain_text("vanished while no agent watched it")
        keep(page, f"several-host-{look}")
        page.goto("/#/findings?kind=missing&topic=several&cluster=test")
        expect(page.locator(".finding")).to_have_count(1)
        for kind, number in (("missing", "1"), ("changed", "1"), ("unknown", "1"), ("lost", "0")):
            expect(page.locator(f"[data-focus='kind-{kind}'] b")).to_have_text(number)
        page.goto("/#/topic?cluster=test&topic=orders")
        quiet = row_of(page, "web-4")
        expect(quiet.locator(".badge")).to_have_text(["Silent"])
        expect(quiet).not_to_contain_text("Complete")


# What must not look better than it is: tables that are not loaded, faults that are not told yet, an
# audit that stands still, and addresses that name nothing


def test_a_table_that_is_not_loaded_stands_before_all_others(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster, keep: Keep
) -> None:
    agent, broker, files = Said("dropped", "web-7", "/var/log/d.log", BEGAN, until=NOW).entries()

    def tried(seq: int, *, failed: bool) -> Entry:
        load: Entry = {"topic": "dropped", "failed": failed, "since": BEGAN}
        load |= {"reason": "1 of 1 records are dead", "cure": "raise dead_share"} if failed else {}
        said = said_later(files, seq, loads=[load])
        header = said["header"]
        header |= {"time": header["time"] + seq * 1_000, "source": "loader-tried"}
        return said

    cluster.write([agent, broker, tried(0, failed=True)])
    for look in LOOKS:
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
            expect(row_of(page, "dropped")).to_contain_text("Not loaded")
    cluster.write([files, tried(1, failed=False)])
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
        box = box_of(raised)
        assert box["x"] + box["width"] <= width
        keep(page, f"overview-{width}")


def test_a_fault_that_is_not_raised_yet_is_known(
    browser: Browser, tmp_path: Path, cluster: LedgerCluster, audit: AuditProcess, keep: Keep
) -> None:
    with (
        cluster.audit(tmp_path, **PATIENT, alerts={"after": 86_400, "silent": 1e6}) as patient,
        opened(browser, patient) as page,
    ):
        page.goto("/#/alerts")
        expect(page.locator(".list-head")).to_contain_text("not old enough yet to be raised")
        expect(page.locator(".finding", has_text="clicks").first).to_contain_text("raised at")
        expect(page.get_by_text("No alert is raised")).to_have_count(0)
        keep(page, "alerts-waiting")


def test_an_audit_that_stands_still_is_not_green(
    browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit) as page:
        page.clock.install()
        page.goto("/")
        page.mouse.move(9, 9)  # only a page that somebody reads has a stream
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
