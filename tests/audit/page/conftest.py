"""An audit that reads the `_audit` of a real broker, and Debian's Chromium to look at it.

What is looked at is kept as pictures in the tests' temporary directory, or in
`$PENSTOCK_SCREENSHOTS`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.audit.page.browsing import ARGUMENTS, CHROMIUM, PATIENCE_MILLIS, Keep


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}: Debian's package chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MILLIS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Keep:
    """Keeps a picture of what is shown, and sees that nothing sticks out at the side."""
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")

    def picture(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")
        root = page.evaluate_handle("document.documentElement")
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, name

    return picture
