"""An operator accepts a fault and retires a host on the page; who only reads sees no way to."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from client.admin import create_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from tests.audit.http.locked import ALICE, OLGA, LockedAudit
from tests.audit.page.browsing import (
    BEGAN,
    CLICKS,
    FOUR_HOURS,
    HOSTILE,
    NOW,
    ORDERS,
    Keep,
    Write,
)
from tests.audit.page.pipeline_said import Said
from tests.audit.page.test_login import log_in, opened

# Of a topic that was deleted; another one has its name.
REMADE = Said(
    *("remade", "web-5", "/var/log/shop/r.log", BEGAN),
    missing=(300, 305),
    until=NOW,
    topic_id="KDgxFnW2R0a2uYd7rJ5T4g",
)

# Why what is shown may not be what there is.
HOW_IT_STANDS = """() => [
    document.getElementById("live").title,
    document.getElementById("notices").innerText,
    document.querySelectorAll("[data-held]").length,
    document.querySelector("[aria-busy]") !== null,
    document.hidden,
    getSelection().toString(),
]"""


@pytest.fixture(scope="module")
def locked(
    tmp_path_factory: pytest.TempPathFactory, write: tuple[Write, str, str]
) -> Iterator[LockedAudit]:
    say, brokers, registry = write
    with Brokers(Bootstrap.of(brokers)) as admin:
        create_topic(admin, REMADE.topic)
    say([entry for said in (CLICKS, ORDERS, HOSTILE, REMADE) for entry in said.entries()])
    directory = tmp_path_factory.mktemp("locked")
    with LockedAudit(
        directory, settings={"grace": 3600}, brokers=brokers, registry=registry
    ) as audit:
        yield audit


def arrived(page: Page, user: tuple[str, str], place: str) -> None:
    page.goto(place)
    log_in(page, *user)
    expect(page.locator("#account-name")).to_have_text(user[0])


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


def test_who_reads_sees_no_form(browser: Browser, locked: LockedAudit) -> None:
    with opened(browser, locked) as page:
        arrived(page, ALICE, "/#/findings")
        expect(page.locator(".finding").first).to_be_visible()
        expect(page.locator(".saying")).to_have_count(0)
        page.get_by_role("link", name="Agents").click()
        expect(page.get_by_text("web-3")).to_be_visible()
        expect(page.locator(".saying")).to_have_count(0)


def test_an_operator_accepts_and_retires(browser: Browser, locked: LockedAudit, keep: Keep) -> None:
    with opened(browser, locked, expected="status of 503") as page:
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


def test_a_fault_of_a_topic_that_was_made_again_is_accepted(
    browser: Browser, locked: LockedAudit
) -> None:
    with opened(browser, locked, expected="status of 503") as page:
        arrived(page, OLGA, "/#/findings")
        fault = page.locator(".finding").filter(has_text="events 300 to 304")
        fault.get_by_text("Accept…").click()
        fault.get_by_label("Reason").fill("it was thrown away")
        accepted(fault, locked)


def test_the_form_has_room_on_a_phone(browser: Browser, locked: LockedAudit, keep: Keep) -> None:
    with opened(browser, locked, "dark-phone") as page:
        arrived(page, OLGA, "/#/agents")
        row = page.get_by_role("row").filter(has_text="web-4")
        row.get_by_text("Retire…").click()
        expect(row.get_by_label("Reason")).to_be_visible()
        keep(page, "retiring-dark-phone")
