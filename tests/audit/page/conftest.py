"""Debian's Chromium, and how what it shows is looked at. Pictures are kept in
`$PENSTOCK_SCREENSHOTS`, if that names a directory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.audit.clusters.messages.written import log_line, spoil, write
from tests.audit.http.locked import LockedAudit
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.browsing import ALL_SAID, ARGUMENTS, CHROMIUM, MIRROR, PATIENCE_MILLIS, Keep


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one file: while it runs, Playwright's event loop counts as running in this thread, and no
    other can be run."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}: Debian's package chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MILLIS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def keep() -> Keep:
    """Sees that nothing sticks out at the side; and keeps a picture where they are wanted."""
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")

    def looked_at(page: Page, name: str) -> None:
        if wanted:
            path = Path(wanted) / f"{name}.png"
            page.screenshot(path=path, full_page=True, animations="disabled")
        root = page.evaluate_handle("document.documentElement")
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, name

    return looked_at


@pytest.fixture(scope="module")
def locked(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[LockedAudit]:
    topic = ALL_SAID[-1].topic
    lines = [log_line(cluster.client, topic, each) for each in ("GET /", "x" * 2_000)]
    write(cluster.brokers, topic, [*lines, b"\xff" * 40, b"spoilt here"])
    spoil(cluster.broker, topic, b"spoilt")
    cluster.write([MIRROR, *(entry for said in ALL_SAID for entry in said.entries())])
    there = {"brokers": cluster.bootstrap, "registry": cluster.registry}
    settings = {"grace": 3600, "alerts": {"after": 0}}
    with LockedAudit(tmp_path_factory.mktemp("locked"), settings=settings, **there) as audit:
        yield audit
