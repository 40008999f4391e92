"""What is shown in the page's tests, how it is looked at, and by which browser."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from tests.audit.page.pipeline_said import Said, mirror_said

AXE: Final = Path(__file__).parent / "axe"  # its lock file
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
PATIENCE_MILLIS: Final = 60_000
HOUR: Final = 3_600_000
NOW: Final = int(time.time() * 1000)
BEGAN: Final = (NOW - 3 * HOUR) // HOUR * HOUR

SCRIPT: Final = '<script>window.hacked = "script"</script>'
PICTURE: Final = "/var/log/<img src=x onerror=window.hacked=1>\"'\u202egol.txt" + "/long" * 2_000

CLICKS: Final = Said("clicks", "web-3", "/var/log/shop/a.log", BEGAN, missing=(120, 132), until=NOW)
ORDERS: Final = Said("orders", "web-4", "/var/log/shop/o.log", BEGAN, until=NOW)
FULL: Final = {"label": PICTURE, "free": 5 * 2**20, "total": 100 * 2**30}
HOSTILE: Final = Said(
    *("hostile", SCRIPT, PICTURE, BEGAN), missing=(500, 503), until=NOW, disk=FULL
)
MIRROR: Final = mirror_said(BEGAN, "mirror-1")

# Of a topic that was deleted; another one has its name.
REMADE: Final = Said(
    *("remade", "web-5", "/var/log/shop/r.log", BEGAN),
    missing=(300, 305),
    until=NOW,
    topic_id="KDgxFnW2R0a2uYd7rJ5T4g",
)
ALL_SAID: Final = (CLICKS, ORDERS, HOSTILE, REMADE)

LOOKS: Final = {
    "light": ("light", 1280, 860),
    "dark": ("dark", 1280, 860),
    "phone": ("light", 390, 812),
    "dark-phone": ("dark", 390, 812),
}
VIEWS: Final = (
    *("", "findings", "agents", "loads?cluster=test&topic=clicks"),
    *("brokers", "health", "alerts"),
)

FOUR_HOURS: Final = f"/#/topic?cluster=test&topic=clicks&from={BEGAN - HOUR}&to={BEGAN + 3 * HOUR}"

Keep = Callable[[Page, str], None]


# So long agents may be behind: the tests take longer on a busy machine.
PATIENT: Final = {"grace": 3600}


@contextmanager
def opened(
    browser: Browser, audit: AuditProcess, look: str = "light", *, expected: Sequence[str] = ()
) -> Iterator[Page]:
    """A page that has nothing to complain of when it is closed, but for what is expected."""
    scheme, width, height = LOOKS[look]
    context = browser.new_context(
        base_url=audit.url,
        ignore_https_errors=True,  # the browser does not know who signed
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
    unexpected = [each for each in complaints if not any(some in each for some in expected)]
    assert unexpected == [], unexpected


def row_of(page: Page, name: str) -> Locator:
    """The first row of a table that has a link with that name."""
    return page.locator("tr", has=page.get_by_role("link", name=name)).first


def box_of(shown: Locator) -> FloatRect:
    """Where something is on the page. A refresh may replace what was just located: then it has no
    box, and is located again."""
    box = wait_until(shown.bounding_box, what="nothing is there")
    assert box is not None
    return box


def log_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def arrived(page: Page, user: tuple[str, str], place: str) -> None:
    page.goto(place)
    log_in(page, *user)
    expect(page.locator("#account-name")).to_have_text(user[0])
