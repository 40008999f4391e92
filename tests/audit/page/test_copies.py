"""A topic that was copied to another cluster, by an audit that reads the ledgers of both: from the
agents there to the files here, on the page, in the report and at the loader's gate."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from audit.api import answers
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.browsing import BEGAN, HOUR, NOW, Keep, opened
from tests.audit.two_clusters import COPY, OF, OFFLINE, SOURCE, TwoClusters

pytestmark = pytest.mark.long

TOLD = TwoClusters(uncopied=range(30, 50), began=BEGAN, until=NOW)


def entries_of(cluster: str) -> list[Entry]:
    """Without ids of topics, as these clusters have no such topics."""
    found: list[Entry] = []
    for whose, each in TOLD.said():
        if whose == cluster:
            passages = [
                one
                | {"topic_id": ""}
                | ({"origin": OF | {"topic_id": ""}} if one.get("origin") else {"origin": None})
                for one in each["passages"]
            ]
            header = each["header"] | {"app": "test"}
            found.append(each | {"header": header, "passages": passages})
    return found


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[AuditProcess]:
    """An audit of both clusters."""
    with ExitStack() as stack:
        source, offline = (
            stack.enter_context(
                BrokerProcess(
                    tmp_path_factory.mktemp(name), zookeeper=f"{zookeeper.address}/copies-{name}"
                )
            )
            for name in (SOURCE, OFFLINE)
        )
        registry = stack.enter_context(
            RegistryProcess(tmp_path_factory.mktemp("registry"), brokers=source.bootstrap)
        )
        client = stack.enter_context(RegistryClient(registry.url))
        clusters: dict[str, dict[str, object]] = {}
        for name, broker in ((SOURCE, source), (OFFLINE, offline)):
            brokers = stack.enter_context(Brokers(Bootstrap.of(broker.bootstrap)))
            write_entries(brokers, client, entries_of(name), timestamp=int(time.time() * 1000))
            clusters[name] = {"brokers": [broker.bootstrap], "registry": registry.url}
        directory = tmp_path_factory.mktemp("audit")
        settings = {"grace": 0, "clusters": clusters, "alerts": {"after": 0, "silent": 1e6}}
        yield stack.enter_context(
            AuditProcess(directory, brokers=source.bootstrap, settings=settings)
        )


def test_a_copy_from_agents_to_files(browser: Browser, both: AuditProcess, keep: Keep) -> None:
    times = {"from": BEGAN, "to": BEGAN + HOUR}

    def report(cluster: str, topic: str) -> answers.TopicReport:
        found = both.get("report", answers.ReportAnswer, cluster=cluster, topic=topic, **times)
        return found.topics[0]

    wait_until(lambda: report(OFFLINE, COPY).state == "missing", within=60, what="a verdict")
    copy, origin = report(OFFLINE, COPY), report(SOURCE, "clicks")
    assert [each.tier for each in copy.tiers] == ["agent", "origin", "mirror", "broker", "hdfs"]
    assert [each.events for each in copy.tiers] == [200, 200, 180, 180, 180]
    assert copy.missing == 20
    assert copy.flow == origin.flow
    assert copy.flow.shipped == 200
    assert origin.state == "complete", origin
    gate = both.get("hour", answers.HourGate, cluster=OFFLINE, topic=COPY, hour=BEGAN)
    assert not gate.complete
    assert "/var/log/a.log" in gate.missing
    figure = b'tier="origin",topic="dc1.clicks"'
    wait_until(lambda: figure in both.ask("/metrics").body, within=30, what="figures")
    for look in ("light", "dark-phone"):
        with opened(browser, both, look) as page:
            page.goto(f"/#/topic?cluster={OFFLINE}&topic={COPY}&from={BEGAN}&to={BEGAN + HOUR}")
            expect(page.locator(".heading .badge")).to_have_text("Missing")
            expect(page.locator(".tier h3")).to_have_text(
                ["Agents", "Origin brokers", "Mirror", "Brokers", "Files"]
            )
            expect(page.get_by_role("link", name="host-of-a").first).to_be_visible()
            finding = page.locator(".finding", has_text="were not copied from dc1/clicks").first
            expect(finding).to_contain_text("/var/log/a.log")
            keep(page, f"copy-{look}")
