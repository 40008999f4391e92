"""Whether programs sign their statements, on the page, in `penstock status` and `penstock report`.

One agent signs, one is of an older release, and one was of a newer release before: its statements
are rejected. The topic's broker and loader sign.
"""

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from ground.signatures.keys import SigningKey
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from ledger.proofs import Chain
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.browsing import BEGAN, HOUR, MIRROR, NOW, PATIENT, Keep, opened, row_of
from tests.audit.page.pipeline_said import Entry, Said, said_later
from tests.penstock.running import penstock

SIGNED: Final = Said("carts", "web-21", "/var/log/shop/s.log", BEGAN, until=NOW)
OLDER: Final = Said("older", "web-22", "/var/log/shop/o.log", BEGAN, until=NOW)
REJECTED: Final = Said("rejected", "web-23", "/var/log/shop/r.log", BEGAN, until=NOW)
TOPIC: Final = f"/#/topic?cluster=test&topic=older&from={BEGAN - HOUR}&to={BEGAN + 3 * HOUR}"
LOOKS: Final = ("light", "dark", "phone", "dark-phone")


def ten_minutes_later(agent: Entry) -> Entry:
    header = {**agent["header"], "time": agent["header"]["time"] + 600_000}
    beats = agent["heartbeats"]
    return said_later({**agent, "header": header}, 1, heartbeats=beats)


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[AuditProcess]:
    chains = [Chain(SigningKey.new()) for _ in range(4)]
    for agent, *others in (said.entries() for said in (SIGNED, OLDER, REJECTED)):
        if agent["header"]["host"] != OLDER.host:
            cluster.write([agent], chains.pop())
        else:
            cluster.write([agent])
        for other in others:
            cluster.write([other], Chain(SigningKey.new()))
    cluster.write([MIRROR, ten_minutes_later(REJECTED.entries()[0])])
    with cluster.audit(tmp_path_factory.mktemp("audit"), **PATIENT) as audit:
        yield audit


@pytest.mark.parametrize("look", LOOKS)
def test_signed_programs_need_no_word_and_rejected_ones_are_red(
    look: str, browser: Browser, audit: AuditProcess, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/#/agents")
        expect(row_of(page, "web-22")).to_contain_text("unsigned")
        rejected = row_of(page, "web-23").locator(".badge.state-missing", has_text="Rejected")
        expect(rejected).to_be_visible()
        expect(row_of(page, "web-21")).not_to_contain_text("igned")
        keep(page, f"signatures-agents-{look}")
        page.get_by_role("group", name="Signatures").get_by_role("button", name="Unsigned").click()
        expect(row_of(page, "web-22")).to_be_visible()
        expect(row_of(page, "web-21")).to_have_count(0)

        page.goto("/#/health")
        words = "statements of the agent on web-23 are rejected because of their signatures"
        expect(page.get_by_role("table", name="Programs")).to_contain_text(words)
        assert "do not sign" in of_all_agents(page) or "does not sign" in of_all_agents(page)
        keep(page, f"signatures-health-{look}")

        page.goto(TOPIC)
        trust = page.get_by_role("region", name="Taken on trust")
        expect(trust).to_contain_text("the agent does not sign its statements")
        expect(trust).to_contain_text("the agent sends no digests")
        expect(trust).not_to_contain_text("broker")
        keep(page, f"signatures-topic-{look}")


def of_all_agents(page: Page) -> str:
    return page.locator("tr", has_text="Agents").first.inner_text()


def test_status_and_report_say_which_programs_do_not_sign(audit: AuditProcess) -> None:
    wait_until(lambda: audit.ask("/readyz").status == 200, what="the audit is not ready")
    begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime((BEGAN - HOUR) / 1000))
    for topic, words in (("older", ["does not sign", "no digests"]), ("carts", ["no digests"])):
        ended = penstock("report", topic, "--audit", audit.url, "--from", begin)
        lines = [line for line in ended.stdout.splitlines() if line.startswith("i ")]
        assert len(lines) == len(words), ended
        assert all(word in line for word, line in zip(words, lines, strict=True)), ended
    ended = penstock("status", "--audit", audit.url, "--json")
    counts = json.loads(ended.stdout)["signatures"]
    assert counts["agent"]["unsigned"] >= 1
    assert counts["agent"]["rejected"] >= 1
    ended = penstock("status", "--audit", audit.url)
    assert (
        "agents do not sign their statements" in ended.stdout or "agents does not" in ended.stdout
    )
    rejected = "statements of the agent on web-23 are rejected because of their signatures"
    assert rejected in ended.stdout
