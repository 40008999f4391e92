"""People log in by the page, see the dashboard, and leave, under the page's own policy; an operator
accepts a fault, retires a host, acknowledges and silences alerts, and who only reads sees no way
to."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.audit.http.locked import ALICE, OLGA, LockedAudit
from tests.audit.page import browsing
from tests.audit.page.browsing import FOUR_HOURS, Keep, arrived, log_in, row_of

# Why what is shown may not be what there is.
HOW_IT_STANDS = """() => [
    document.getElementById("live").title,
    document.getElementById("notices").innerText,
    document.querySelectorAll("[data-held]").length,
    document.querySelector("[aria-busy]") !== null,
    document.hidden,
    getSelection().toString(),
]"""


@contextmanager
def opened(browser: Browser, audit: LockedAudit, look: str = "light") -> Iterator[Page]:
    """A refused login, and a session that has ended, are answered with 401; a silence of everything
    with 400; and what cannot be written just then with 503."""
    expected = ["status of 400", "status of 401", "status of 503"]
    with browsing.opened(browser, audit, look, expected=expected) as page:
        yield page


def accepted(fault: Locator, audit: LockedAudit) -> None:
    """Said again where it could not be written just then, as who reads that would."""
    send = fault.get_by_role("button", name="Accept")
    send.click()
    try:
        expect(fault).to_have_count(0, timeout=60_000)
    except AssertionError as stayed:
        stayed.add_note(fault.inner_text())
        stayed.add_note(audit.log()[-4_000:])
        stayed.add_note(str(fault.page.evaluate(HOW_IT_STANDS)))
        stayed.add_note(str(audit.ask("/api/v1/findings?accepted=false").body[:4_000]))
        if not (send.is_visible() and send.is_enabled()):
            raise
        send.click()
        expect(fault).to_have_count(0, timeout=60_000)


@pytest.mark.parametrize("look", ["light", "dark-phone"])
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
        expect(page).to_have_title(re.compile("Agents · Penstock audit"))
        assert page.url.endswith("/#/agents")
        expect(page.locator("#account-name")).to_have_text("alice")
        keep(page, f"logged-in-{look}")
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_title("Log in · Penstock audit")
        page.goto("/")
        expect(page).to_have_title("Log in · Penstock audit")


def test_a_session_that_has_ended_leads_to_the_login(browser: Browser, locked: LockedAudit) -> None:
    with opened(browser, locked) as page:
        arrived(page, ALICE, "/")
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
        arrived(page, ALICE, "/")
        port = locked.url.rpartition(":")[2]
        # To a browser localhost is another site than 127.0.0.1.
        page.goto(f"https://localhost:{port}/login")
        page.evaluate("there => { location.href = there }", f"{locked.url}/#/loads")
        expect(page).to_have_title(re.compile("Loads · Penstock audit"))


def test_who_reads_sees_no_form(browser: Browser, locked: LockedAudit) -> None:
    with opened(browser, locked) as page:
        arrived(page, ALICE, "/#/findings")
        expect(page.locator(".finding").first).to_be_visible()
        expect(page.locator(".saying")).to_have_count(0)
        page.get_by_role("link", name="Agents").click()
        expect(page.get_by_text("web-3")).to_be_visible()
        expect(page.locator(".saying")).to_have_count(0)


def test_an_operator_accepts_and_retires(browser: Browser, locked: LockedAudit, keep: Keep) -> None:
    with opened(browser, locked) as page:
        arrived(page, OLGA, "/#/findings")
        fault = page.locator(".finding").filter(has_text="events 120 to 131")
        fault.get_by_text("Accept…").click()
        reason = fault.get_by_label("Reason")
        expect(reason).to_be_focused()
        fault.get_by_role("button", name="Accept").click()  # without a reason nothing is sent
        expect(reason).to_be_visible()
        reason.fill('the disk broke <b>"')
        keep(page, "accepting")
        # Of those that somebody must see to: gone once it is written, read back and judged.
        accepted(fault, locked)
        page.goto(FOUR_HOURS)
        said = 'accepted: the disk broke <b>" (olga by session from 127.0.0.1, 2'
        expect(fault.locator(".meta")).to_contain_text(said)
        expect(fault.locator(".saying")).to_have_count(0)
        keep(page, "accepted")

        page.goto("/#/findings")  # of a topic that was made again since
        fault = page.locator(".finding").filter(has_text="events 300 to 304")
        fault.get_by_text("Accept…").click()
        fault.get_by_label("Reason").fill("it was thrown away")
        accepted(fault, locked)

        page.get_by_role("link", name="Agents").click()
        row = page.get_by_role("row").filter(has_text="web-3")
        row.get_by_text("Retire…").click()
        row.get_by_label("Reason").fill("sold")
        keep(page, "retiring")
        row.get_by_role("button", name="Retire").click()
        expect(row).to_contain_text("sold (olga by session from 127.0.0.1, 2")
        keep(page, "retired")
    assert (
        "operator accepted cluster=test operator='olga by session from 127.0.0.1'" in locked.log()
    )
    assert "operator retired cluster=test operator='olga by session from 127.0.0.1'" in locked.log()


def test_an_operator_acknowledges_and_silences(browser: Browser, locked: LockedAudit) -> None:
    with opened(browser, locked) as page:
        arrived(page, OLGA, "/#/alerts")
        row = row_of(page, "hostile")
        expect(row.locator("code")).to_contain_text("--seqs 500-502 --reason REASON")
        for said in ("Acknowledge", "Silence"):
            row.get_by_text(f"{said}…").click()
            row.get_by_label("Reason").locator("visible=true").fill('known <b>"')
            row.get_by_role("button", name=said).click()
            expect(row.locator(".meta b").last).to_have_text(f"{said.removesuffix('e')}ed")
            expect(row.locator(".meta").last).to_contain_text('reason: known <b>"')
        expect(row).to_contain_text("by olga by session from 127.0.0.1")
        silences = page.get_by_role("region", name="Silences")
        expect(silences.locator(".finding")).to_contain_text("topic hostile")
        silences.get_by_text("Silence others…").click()
        silences.get_by_label("Reason").fill("why")
        silences.get_by_role("button", name="Silence", exact=True).click()
        expect(silences).to_contain_text("give at least one of `kind`, `cluster`, `topic`, `host`")
        silences.get_by_text("Silence others…").click()
        silences.get_by_role("button", name="End").click()
        expect(silences).to_contain_text("No alert is silenced.")
        expect(row).to_contain_text("acknowledged")
