"""A byte of a young segment flips: the next young pass of its broker names partition and offsets,
and the audit's verdict, complete until then, is complete no more."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from audit.api.answers import HealthAnswer, HealthRow, ReportAnswer, TopicAnswer, TopicReport
from audit.reconciling.findings import FaultKind, State
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.broker.storage.log_files import flip
from tests.client.shipped_topics import delete_before
from tests.penstock.running import penstock
from tests.system.audit.pipeline import batch_at
from tests.system.produce import must_produce
from tests.system.topics import create

TEN = [b"value %d" % number for number in range(10)]
TOPIC = "scrubbed"


class Site(msgspec.Struct, frozen=True):
    broker: BrokerProcess
    audit: AuditProcess

    def report(self) -> TopicReport | None:
        found = self.audit.get("report", ReportAnswer).topics
        return next((each for each in found if each.topic == TOPIC), None)

    def metric(self, name: str) -> float:
        """-2 where there is none of that name and those labels."""
        lines = self.broker.http("/metrics")[1].splitlines()
        values = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")]
        return float(values[0]) if values else -2.0


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as ends:
        broker = BrokerProcess(
            tmp_path / "broker",
            zookeeper=f"{zookeeper.address}/{tmp_path.name}-{os.getpid()}",
            settings={
                "registry": "${SCRUBBED_REGISTRY}",
                "ledger_interval": 0.2,
                "window": 1,
                "checks": {"scrub_seconds": 604_800, "young_seconds": 0.5},
            },
        )
        registry = RegistryProcess(tmp_path / "registry", brokers=broker.bootstrap)
        broker.process.environment["SCRUBBED_REGISTRY"] = registry.url
        settings = {"window": 1, "grace": 1.0}
        audit = AuditProcess(
            tmp_path / "audit", brokers=broker.bootstrap, registry=registry.url, settings=settings
        )
        for each in (broker, registry, audit):
            ends.enter_context(each)
        yield Site(broker, audit)


def test_a_byte_that_flips_in_a_young_segment(site: Site) -> None:
    create(site.broker.bootstrap, TOPIC, partitions=2)
    for partition in range(2):
        for _ in range(5):
            must_produce(site.broker.bootstrap, TOPIC, TEN, partition=partition)

    def complete() -> bool:
        found = site.report()
        return found is not None and found.state is State.COMPLETE and found.checks.recent > 0

    wait_until(complete, within=120, what="all is complete, and was read again", every=0.2)
    # The reading of all that is stored is over: the next is due in a week.
    wait_until(
        lambda: site.metric("penstock_broker_scrubbed_time_seconds") > 0,
        within=60,
        what="all was read again",
    )
    damaged = batch_at(site.broker.partition_dir(TOPIC, 1), 20)
    flip(damaged.file, damaged.position + damaged.size - 1)

    def is_named() -> bool:
        found = site.report()
        return found is not None and found.state is not State.COMPLETE

    wait_until(is_named, within=120, what="the audit says it", every=0.2)
    found = site.report()
    assert found is not None
    (finding,) = found.findings
    assert finding.kind is FaultKind.CHANGED
    assert (finding.partition, finding.offset, finding.offsets) == (1, 20, 10)
    assert "damaged: scrubbed-1, messages 20 to 29" in site.broker.http("/readyz")[1]

    # Its log goes on being read, and damage was found, not overlooked.
    assert found.checks.logs_total == 2
    assert all(each.recent > 0 and each.whole > 0 for each in found.checks.logs)
    shown = site.audit.get("topic", TopicAnswer, cluster="test", topic=TOPIC).checks
    assert shown.recent >= found.checks.recent
    labels = f'{{partition="1",segments="young",topic="{TOPIC}"}}'
    assert site.metric(f"penstock_broker_log_checked_time_seconds{labels}") > 0
    told = penstock("report", "--audit", site.audit.url, "--json").stdout
    (reported,) = msgspec.json.decode(told, type=ReportAnswer).topics
    assert reported.checks.recent >= found.checks.recent

    # While the broker serves the batch, page and status warn, whatever is accepted.
    def row() -> HealthRow:
        rows = site.audit.get("health", HealthAnswer).items
        return next(row for row in rows if row.program == "broker")

    wait_until(lambda: row().kind == "damaged", what="the page warns")
    assert row().words.endswith("has damaged messages in scrubbed-1: 20 to 29")
    with Brokers(Bootstrap.of(site.broker.bootstrap)) as brokers:
        delete_before(brokers, TOPIC, 30, partition=1)
    wait_until(lambda: not row().kind, what="the page warns no more")
    assert "damaged" not in site.broker.http("/readyz")[1]
