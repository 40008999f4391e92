"""What runs of attackers share: ZooKeeper, a broker that counts, a registry and an audit."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from audit.api.answers import ReportAnswer, TopicReport
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from tests.loader.application import event_schema

WINDOW: Final = 5
LEDGER: Final = "_audit"


class Site:
    """`with site(directory) as running`."""

    def __init__(self, broker: BrokerProcess, registry: RegistryProcess, audit: AuditProcess):
        self.broker = broker
        self.registry = registry
        self.audit = audit

    def brokers(self) -> Brokers:
        return Brokers(Bootstrap.of(self.broker.bootstrap), patience_seconds=30)

    def make_topic(self, name: str) -> None:
        with self.brokers() as brokers:
            create_topic(brokers, name, partitions=1)
        schema = json.loads(event_schema([{"name": "message", "type": "string"}], "test.Line"))
        assert self.registry.register(f"{name}-value", schema).status == 200

    def report(self, topic: str) -> TopicReport | None:
        now = time.time_ns() // 1_000_000
        times = {"from_": now - 3_600_000, "to": now + 3_600_000}
        found = self.audit.get("report", ReportAnswer, cluster="test", topic=topic, **times)
        return next((each for each in found.topics if each.topic == topic), None)


@contextmanager
def site(directory: Path) -> Iterator[Site]:
    zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
    try:
        settings = {"ledger_interval": 0.3, "window": WINDOW}
        broker = BrokerProcess(directory / "broker", zookeeper=zookeeper.address, settings=settings)
        registry = RegistryProcess(directory / "registry", brokers=broker.bootstrap)
        with broker.config.open("a") as config:
            config.write(f"registry: {registry.url}\n")
        audit = AuditProcess(
            directory / "audit",
            brokers=broker.bootstrap,
            registry=registry.url,
            settings={"window": WINDOW, "grace": 2.0},
        )
        with broker, registry, audit:
            made = Site(broker, registry, audit)
            with made.brokers() as brokers:
                create_topic(brokers, LEDGER, partitions=1)
            yield made
    finally:
        zookeeper.stop()
