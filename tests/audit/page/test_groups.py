"""Consumer groups on the page: who reads a topic, and how far behind."""

import re
import time
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, expect

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.offset_commits import Consumed, commit_offsets
from client.producer import Producer
from harness.audit_process import AuditProcess
from tests.audit.page.browsing import CLICKS, ORDERS, SCRIPT, Keep, Write, opened
from tests.client.older_broker import OlderBroker
from wire.messages import list_groups

HOUR_MILLIS = 3_600_000
ABOUT_TWO_HOURS = re.compile(r"2(\.\d)? h")  # who looks late sees more


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, write: tuple[Write, str, str]
) -> Iterator[AuditProcess]:
    """One topic is read by three groups: one is two hours behind, one has read all, one has a name
    that is a script."""
    say, bootstrap, registry = write
    say([entry for said in (CLICKS, ORDERS) for entry in said.entries()])
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=60) as brokers:
        for topic in ("clicks", "orders"):
            admin.create_topic(brokers, topic, partitions=2)
        producer = Producer(brokers, "clicks")
        now = int(time.time() * 1000)
        for partition in range(2):
            for age in range(100):
                sent = now - 2 * HOUR_MILLIS + age * 1000
                producer.send(b"click", partition=partition, timestamp=sent)
        producer.flush()
        commit = partial(commit_offsets, brokers)
        first, second = (TopicPartition("clicks", each) for each in range(2))
        commit("billing", {first: Consumed(0), second: Consumed(60)})
        commit("reports", {first: Consumed(100), second: Consumed(100)})
        commit(SCRIPT, {second: Consumed(99)})
    directory = tmp_path_factory.mktemp("audit")
    settings = {
        "grace": 3600,
        "alerts": {"after": 0, "silent": 1e6},
        "groups": {"interval": 0.5},
    }
    with AuditProcess(directory, brokers=bootstrap, registry=registry, settings=settings) as audit:
        yield audit


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_who_reads_a_topic(look: str, browser: Browser, audit: AuditProcess, keep: Keep) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/#/topic?cluster=test&topic=clicks")
        card = page.locator(".card", has=page.get_by_role("heading", name="Read by"))
        rows = card.locator("tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("billing")
        expect(rows.first).to_contain_text(ABOUT_TWO_HOURS)
        expect(rows.first).to_contain_text("140")
        expect(rows.first).to_contain_text("nobody is in it just now")
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
        row = page.locator("tr", has=page.get_by_role("link", name="clicks"))
        expect(row).to_contain_text("3 groups")
        expect(row).to_contain_text(re.compile(ABOUT_TWO_HOURS.pattern + " behind"))
        other = page.locator("tr", has=page.get_by_role("link", name="orders"))
        expect(other).not_to_contain_text("group")
        keep(page, "overview-groups")


@pytest.mark.parametrize("look", ["light", "phone"])
def test_what_cannot_be_seen_is_said(
    look: str,
    browser: Browser,
    write: tuple[Write, str, str],
    tmp_path_factory: pytest.TempPathFactory,
    keep: Keep,
) -> None:
    """Where it is looked for, and nowhere else: the verdict is none the worse for it."""
    _, bootstrap, registry = write
    with (
        OlderBroker(bootstrap, {list_groups.API: -1}) as older,
        AuditProcess(
            tmp_path_factory.mktemp("audit"),
            brokers=older.bootstrap,
            registry=registry,
            settings={"grace": 3600, "groups": {"interval": 0.5}},
        ) as audit,
        opened(browser, audit, look) as page,
    ):
        page.goto("/#/brokers")
        words = "Its brokers serve no consumer groups: they are too old"
        expect(page.get_by_text(words)).to_be_visible()
        expect(page.locator("[role=alert]")).to_have_count(0)
        keep(page, f"groups-not-seen-{look}")
        page.goto("/")
        expect(page.get_by_text(words)).to_have_count(0)


def test_nobody_looks(
    browser: Browser,
    write: tuple[Write, str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    _, bootstrap, registry = write
    with (
        AuditProcess(
            tmp_path_factory.mktemp("audit"),
            brokers=bootstrap,
            registry=registry,
            settings={"grace": 3600, "groups": {"interval": 0}},
        ) as audit,
        opened(browser, audit) as page,
    ):
        page.goto("/#/brokers")
        expect(page.get_by_text("Nobody looks")).to_be_visible()
        assert "penstock_audit_group_lag_messages{" not in audit.ask("/metrics").body.decode()
