"""People log in by the page, see the dashboard, and leave; under the page's own policy."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.audit.http.locked import ALICE, LockedAudit
from tests.audit.page.browsing import LOOKS, PATIENCE_MILLIS, Keep


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedAudit]:
    with LockedAudit(tmp_path_factory.mktemp("locked")) as audit:
        yield audit


@contextmanager
def opened(
    browser: Browser, audit: LockedAudit, look: str = "light", *, expected: str = "status of 401"
) -> Iterator[Page]:
    """Whose certificate this browser does not know. No policy is broken in it."""
    scheme, width, height = LOOKS[look]
    context = browser.new_context(
        base_url=audit.url,
        ignore_https_errors=True,
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": height},
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
    # A refused login, and a session that has ended, are answered with 401.
    assert [
        each for each in complaints if "status of 401" not in each and expected not in each
    ] == []


def log_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("look", LOOKS)
def test_log_in_look_and_leave(
    browser: Browser, locked: LockedAudit, keep: Keep, look: str
) -> None:
    with opened(browser, locked, look) as page:
        page.goto("/#/agents")
        expect(page).to_have_title("Log in · Penstock audit")
        keep(page, f"login-{look}")
        log_in(page, ALICE[0], "wrong")
        expect(page.get_by_role("alert")).to_contain_text("not right")
        keep(page, f"login-refused-{look}")
        log_in(page, *ALICE)
        expect(page).to_have_title("Agents · Penstock audit")
        assert page.url.endswith("/#/agents")
        expect(page.locator("#account-name")).to_have_text("alice")
        keep(page, f"logged-in-{look}")
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_title("Log in · Penstock audit")
        page.goto("/")
        expect(page).to_have_title("Log in · Penstock audit")


def test_a_session_that_has_ended_leads_to_the_login(browser: Browser, locked: LockedAudit) -> None:
    with opened(browser, locked) as page:
        page.goto("/")
        log_in(page, *ALICE)
        expect(page.locator("#account-name")).to_have_text("alice")
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["secure"]
        assert cookie["sameSite"] == "Strict"
        locked.post("/logout", {}, cookie=f"{cookie['name']}={cookie['value']}")
        page.goto("/#/agents")  # it may be at the login by itself already
        expect(page).to_have_title("Log in · Penstock audit")


def test_who_is_logged_in_is_not_asked_again_by_a_link_from_elsewhere(
    browser: Browser, locked: LockedAudit
) -> None:
    with opened(browser, locked) as page:
        page.goto("/")
        log_in(page, *ALICE)
        expect(page.locator("#account-name")).to_have_text("alice")
        port = locked.url.rpartition(":")[2]
        # To a browser localhost is another site than 127.0.0.1.
        page.goto(f"https://localhost:{port}/login")
        page.evaluate("there => { location.href = there }", f"{locked.url}/#/loads")
        expect(page).to_have_title("Loads · Penstock audit")
