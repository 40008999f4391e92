"""An audit that reads the `_audit` of a real broker, and Debian's Chromium to look at it.

What is looked at is kept as pictures in the tests' temporary directory, or in
`$PENSTOCK_SCREENSHOTS`.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from cluster.zookeeper import EmbeddedZooKeeper
from harness.audit_process import AuditProcess
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.browsing import (
    ARGUMENTS,
    CHROMIUM,
    CLICKS,
    HOSTILE,
    ORDERS,
    PATIENCE_MILLIS,
    Keep,
    Write,
)


@pytest.fixture(scope="module")
def write(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[tuple[Write, str, str]]:
    """Writes entries to `_audit` of a broker that nobody else speaks of, and whose cluster has no
    topics of another module: an acceptance is of the topic that there is, if there is one."""
    directory = tmp_path_factory.mktemp("broker")
    address = f"{zookeeper.address}/page-{directory.name}"
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(directory, zookeeper=address))
        registry = stack.enter_context(
            RegistryProcess(tmp_path_factory.mktemp("registry"), brokers=broker.bootstrap)
        )
        brokers = stack.enter_context(Brokers(Bootstrap.of(broker.bootstrap)))
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


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Keep:
    """Keeps a picture of what is shown, and sees that nothing sticks out at the side."""
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")

    def picture(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")
        root = page.evaluate_handle("document.documentElement")
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, name

    return picture
