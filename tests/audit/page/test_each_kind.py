"""A topic with several faults at once, and a host that is silent: nothing hides anything else."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import Browser, expect

from audit import answers
from audit.findings import FaultKind, KindCount
from harness.audit_process import AuditProcess
from harness.waiting import wait_until
from ledger.publishing import Entry
from tests.audit.page.browsing import BEGAN, HOUR, NOW, Keep, Write, opened
from tests.audit.page.pipeline_said import Said

KINDS = (
    KindCount(kind=FaultKind.CHANGED, findings=1, events=50),
    KindCount(kind=FaultKind.MISSING, findings=1, events=200),
    KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1),
)


def said(entry: Entry, seq: int, **lists: object) -> Entry:
    header = {**entry["header"], "seq": seq}
    return {**entry, "header": header, "passages": [], "heartbeats": [], **lists}


@pytest.fixture(scope="module")
def spoilt(audit: AuditProcess, write: tuple[Write, str, str]) -> str:
    """Two hundred rows of a file that was removed, a batch of fifty events that was cut, and a log
    file that vanished. The agent was last heard long ago."""
    agent, broker, files = Said("several", "web-8", "/var/log/s.log", BEGAN, until=NOW).entries()
    gone = {
        "topic": "several",
        "path": "/var/log/s.log",
        "source": "source-of-several",
        "position": 10_000,
        "from_time": BEGAN,
        "to_time": BEGAN + HOUR // 2,
        "traces": "vanished",
        "reason": "",
    }
    cut = {"topic": "several", "partition": 0, "reason": "its CRC does not match"}
    cut |= {"offsets": {"first": 300, "count": 50}}
    removed: Mapping[str, object] = {
        "path": "several/part-1.parquet",
        "hour": BEGAN,
        "fault": "missing",
        "committed_rows": 200,
        "found_rows": 0,
    }
    hour = {"topic": "several", "from_time": BEGAN, "to_time": BEGAN + HOUR, "faults": [removed]}
    write[0](
        [
            *(agent, broker, files),
            said(agent, 1, unwatched=[gone]),
            said(broker, 1, damaged=[cut]),
            said(files, 1, checked=[hour | {"files": 1, "rows": 200}]),
        ]
    )

    def judged() -> bool:
        found = audit.get("topics", answers.TopicsAnswer, search="several").items
        return bool(found) and found[0].kinds == KINDS

    wait_until(judged, within=60, what="all of it is judged")
    return "several"


def test_each_kind_is_counted_by_itself(audit: AuditProcess, spoilt: str) -> None:
    overview = audit.get("topics", answers.TopicsAnswer, search=spoilt)
    (row,) = overview.items
    assert row.having[:3] == ["changed", "missing", "unknown"]
    assert all(overview.having[state] >= 1 for state in ("changed", "missing", "unknown"))
    for state in ("changed", "missing", "unknown"):
        found = audit.get("topics", answers.TopicsAnswer, search=spoilt, state=state)
        assert found.page.total == 1, state
    report = audit.get("report", answers.ReportAnswer, topic=spoilt, from_=BEGAN, to=BEGAN + HOUR)
    assert report.topics[0].kinds == KINDS
    for each in KINDS:
        labels = f'cluster="test",kind="{each.kind}",topic="several",topic_id=""'
        line = f"penstock_audit_topic_findings_of_kind{{{labels}}} 1.0"
        wait_until(
            lambda wanted=line: wanted in audit.ask("/metrics").body.decode(),
            within=30,
            what="a figure",
        )


def test_the_files_have_the_rows_that_are_there(audit: AuditProcess, spoilt: str) -> None:
    times = {"from": BEGAN, "to": BEGAN + 2 * HOUR}
    (topic,) = audit.get("report", answers.ReportAnswer, topic=spoilt, **times).topics
    events = {each.tier: each.events for each in topic.tiers}
    assert events == {"agent": 1_000, "broker": 1_000, "hdfs": 800}
    assert events["broker"] - topic.missing == events["hdfs"]


def test_a_silent_host_is_not_complete(audit: AuditProcess, spoilt: str) -> None:
    (host,) = audit.get("hosts", answers.Hosts, topic=spoilt).items
    assert host.agent_state == "silent"
    (quiet,) = audit.get("hosts", answers.Hosts, topic="orders").items
    assert (quiet.agent_state, quiet.state, quiet.kinds) == ("silent", "pending", ())
    assert 0 < quiet.heard < NOW


@pytest.mark.parametrize("look", ["light", "phone"])
def test_nothing_hides_anything_else(
    look: str, browser: Browser, audit: AuditProcess, spoilt: str, keep: Keep
) -> None:
    with opened(browser, audit, look) as page:
        page.goto("/")
        row = page.locator("tr", has=page.get_by_role("link", name=spoilt))
        expect(row.locator(".badge")).to_have_text(["Changed", "Missing", "Unknown"])
        expect(page.locator("[data-focus='state-changed'] b")).to_have_text("1")
        keep(page, f"several-{look}")
        page.locator("[data-focus='state-missing']").click()
        expect(row).to_have_count(1)
        row.get_by_role("link", name=spoilt).click()
        expect(page.locator(".heading .badge")).to_have_text(["Changed", "Missing", "Unknown"])
        expect(page.locator(".passage")).to_contain_text("200 missing, which brokers have")
        host = page.locator("tr", has=page.get_by_role("link", name="web-8"))
        expect(host.locator(".badge")).to_have_text(["Changed", "Unknown", "Silent"])
        keep(page, f"several-topic-{look}")
        host.get_by_role("link", name="web-8").click()
        file = page.locator(".file")
        expect(file).to_contain_text("gone")
        expect(file).not_to_contain_text("still growing")
        expect(file.locator(".said")).to_contain_text("vanished while nobody watched")
        keep(page, f"several-host-{look}")
        page.goto("/#/findings?kind=missing&topic=several&cluster=test")
        expect(page.locator(".finding")).to_have_count(1)
        for kind, number in (("missing", "1"), ("changed", "1"), ("unknown", "1"), ("lost", "0")):
            expect(page.locator(f"[data-focus='kind-{kind}'] b")).to_have_text(number)
        page.goto("/#/topic?cluster=test&topic=orders")
        quiet = page.locator("tr", has=page.get_by_role("link", name="web-4"))
        expect(quiet.locator(".badge")).to_have_text(["Silent"])
        expect(quiet).not_to_contain_text("Complete")
