"""The page of an audit in which every line is accounted for: who reads a topic, and how far behind;
and a moment in which nobody watched."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from playwright.sync_api import Browser, expect

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.groups.offset_commits import Consumed, commit_offsets
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from tests.audit.ledger_cluster import LedgerCluster, ledger_cluster
from tests.audit.page.browsing import (
    BEGAN,
    CLICKS,
    HOUR,
    ORDERS,
    PATIENT,
    SCRIPT,
    Keep,
    opened,
    row_of,
)
from tests.audit.page.pipeline_said import WINDOW, Entry, Said, said_later
from tests.client.older_broker import OlderBroker
from wire.messages import list_groups

pytestmark = pytest.mark.long

ACCOUNTED = r"^every line up to [\d: -]+ UTC is accounted for"
ABOUT_TWO_HOURS = re.compile(r"2(\.\d)? h")  # who looks late sees more
LOOKING = PATIENT | {"groups": {"interval": 0.5}}


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[AuditProcess]:
    """One topic is read by three groups: one is two hours behind, one has read all, one has a name
    that is a script."""
    whole = CLICKS._replace(missing=(0, 0))
    cluster.write([entry for said in (whole, ORDERS) for entry in said.entries()])
    with Brokers(Bootstrap.of(cluster.bootstrap), patience_seconds=60) as brokers:
        for topic in ("clicks", "orders"):
            admin.create_topic(brokers, topic, partitions=2)
        producer = Producer(brokers, "clicks")
        then = int(time.time() * 1000) - 2 * HOUR
        for partition in range(2):
            for age in range(100):
                producer.send(b"click", partition=partition, timestamp=then + age * 1000)
        producer.flush()
        commit = partial(commit_offsets, brokers)
        first, second = (TopicPartition("clicks", each) for each in range(2))
        commit("billing", {first: Consumed(0), second: Consumed(60)})
        commit("reports", {first: Consumed(100), second: Consumed(100)})
        commit(SCRIPT, {second: Consumed(99)})
    with cluster.audit(tmp_path_factory.mktemp("audit"), **LOOKING) as audit:
        yield audit


@pytest.mark.parametrize("look", ["light", "dark-phone"])
def test_who_reads_a_topic(look: str, browser: Browser, audit: AuditProcess, keep: Keep) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/#/topic?cluster=test&topic=clicks")
        card = page.locator(".card", has=page.get_by_role("heading", name="Read by"))
        rows = card.locator("tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("billing")
        expect(rows.first).to_contain_text(ABOUT_TWO_HOURS)
        expect(rows.first).to_contain_text("140")
        expect(rows.first).to_contain_text("no members")
        expect(rows.last).to_contain_text("reports")
        expect(rows.last).to_contain_text("nothing")
        expect(card.get_by_text(SCRIPT)).to_be_visible()
        keep(page, f"topic-groups-{look}")
        assert page.evaluate("window.hacked") is None

        page.goto("/#/topic?cluster=test&topic=orders")
        expect(page.get_by_text("No consumer group reads this topic")).to_be_visible()


@pytest.mark.parametrize("look", ["light", "dark-phone"])
def test_all_groups_are_beside_the_brokers(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/#/brokers")
        card = page.locator(".card", has=page.get_by_role("heading", name="Consumer groups"))
        expect(card.locator("tbody tr")).to_have_count(3)
        keep(page, f"groups-{look}")
        page.get_by_label("Search groups").fill("repo")
        expect(card.locator("tbody tr")).to_have_count(1)
        expect(card.locator("tbody tr")).to_contain_text("reports")
        card.get_by_role("link", name="clicks").click()
        expect(page.locator("h1")).to_have_text("clicks")


def test_the_overview_says_who_is_furthest_behind(
    browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit) as page:
        page.goto("/")
        row = row_of(page, "clicks")
        expect(row).to_contain_text("3 groups")
        expect(row).to_contain_text(re.compile(ABOUT_TWO_HOURS.pattern + " behind"))
        expect(row_of(page, "orders")).not_to_contain_text("group")
        keep(page, "overview-groups")


def test_groups_that_cannot_be_seen(
    browser: Browser, cluster: LedgerCluster, tmp_path_factory: pytest.TempPathFactory, keep: Keep
) -> None:
    """It is said where they are looked for, and nowhere else: the verdict is none the worse."""
    with OlderBroker(cluster.bootstrap, {list_groups.API: -1}) as older:
        of_older = replace(cluster, bootstrap=older.bootstrap)
        with of_older.audit(tmp_path_factory.mktemp("audit"), **LOOKING) as audit:
            for look in ("light", "phone"):
                with opened(browser, audit, look) as page:
                    page.goto("/#/brokers")
                    words = "Its brokers serve no consumer groups: they are too old"
                    expect(page.get_by_text(words)).to_be_visible()
                    expect(page.locator("[role=alert]")).to_have_count(0)
                    keep(page, f"groups-not-seen-{look}")
                    page.goto("/")
                    expect(page.get_by_text(words)).to_have_count(0)


def test_nobody_looks(
    browser: Browser, cluster: LedgerCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("audit")
    with (
        cluster.audit(directory, **PATIENT, groups={"interval": 0}) as audit,
        opened(browser, audit) as page,
    ):
        page.goto("/#/brokers")
        expect(page.get_by_text("Groups are not polled")).to_be_visible()
        assert "penstock_audit_group_lag_messages{" not in audit.ask("/metrics").body.decode()


def test_a_moment_that_nobody_watched_is_in_the_first_line(
    browser: Browser, audit: AuditProcess, cluster: LedgerCluster, keep: Keep
) -> None:
    """Green all the same."""
    with opened(browser, audit, "phone") as page:
        page.goto("/")
        expect(page.locator("h1")).to_have_text(re.compile(f"{ACCOUNTED}$"))
        moment: Entry = {"topic": "orders", "path": "/var/log/shop", "traces": "brief"}
        moment |= {"from_time": BEGAN + 10 * WINDOW, "to_time": BEGAN + 10 * WINDOW + 900}
        moment |= {"reason": "no agent followed these files; may have been emptied: o.log"}
        agent, broker, _ = ORDERS.entries()
        blind = moment | {"traces": "changed", "from_time": BEGAN + 9 * WINDOW}
        known = {"topic": "orders", "partition": -1, "from_time": None, "to_time": None}
        known |= {"host": "web-4", "reason": "known"}
        later = said_later(agent, 1, unwatched=[moment, blind])
        later["header"]["time"] = int(time.time() * 1000)  # a wrong clock is not green
        cluster.write([later, said_later({**broker, "tier": "operator"}, 1, accepted=[known])])
        words = re.compile(rf"{ACCOUNTED}, except for 1 unproven stretch \(accepted\)$")
        expect(page.locator("h1")).to_have_text(words)
        row = page.locator("tr", has_text="orders")
        expect(row).to_contain_text("Complete")
        expect(row).to_contain_text("not watched for a time")
        keep(page, "moment-phone")
        row.get_by_role("link", name="orders").click()
        expect(page.locator(".finding.accepted")).to_contain_text(
            ["accepted: known", "harmless: for a moment"]
        )


def test_newer_lines_are_on_their_way(
    browser: Browser,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
    keep: Keep,
) -> None:
    """A live site is green, also in the title of the tab."""
    now = int(time.time() * 1000) // WINDOW * WINDOW
    live = Said("live", "web-6", "/var/log/live.log", now - 2 * WINDOW, events=20, until=now)
    agent, *_ = live.entries()
    _, *counted = live._replace(events=10).entries()  # no more yet
    directories = (tmp_path_factory.mktemp(name) for name in ("cluster", "audit"))
    address = f"{zookeeper.address}/live"
    with (
        ledger_cluster(next(directories), address) as cluster,
        cluster.audit(next(directories), **PATIENT) as audit,
    ):
        cluster.write([agent, *counted])
        for look in ("light", "dark-phone"):
            with opened(browser, audit, look) as page:
                page.goto("/")
                expect(page.locator("h1")).to_have_text(re.compile(f"{ACCOUNTED}$"))
                expect(page.locator(".verdict .sign").first).to_have_class(re.compile("complete"))
                expect(page).to_have_title(re.compile("^✓ "))
                keep(page, f"live-{look}")
