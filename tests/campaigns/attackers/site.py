"""What runs of attackers share: ZooKeeper, a broker that counts, a registry and an audit. The
broker may be a compromised one: then a proxy stands between it and agents, loads and audit."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from audit.api.answers import JournalFault, KeysAnswer, ReportAnswer, TopicReport
from client.admin.topics import create_topic
from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.names import LEDGER_TOPIC
from tests.campaigns.attackers.lies import AUDIT, ROLES, BrokerLies
from tests.loader.application import event_schema
from tests.system.lying_broker import LyingBroker

WINDOW: Final = 5


class Site:
    """`with site(directory) as running`."""

    def __init__(
        self,
        broker: BrokerProcess,
        registry: RegistryProcess,
        audit: AuditProcess,
        liar: LyingBroker | None = None,
    ) -> None:
        self.broker = broker
        self.registry = registry
        self.audit = audit
        self._liar = liar

    def bootstrap(self, role: str) -> str:
        """The address of the broker for a kind of client."""
        return self.broker.bootstrap if self._liar is None else self._liar.bootstrap(role)

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
        answer = self.audit.get("report", ReportAnswer, cluster="test", topic=topic, **times)
        return next((report for report in answer.topics if report.topic == topic), None)

    def journal_faults(self, host: str) -> list[JournalFault]:
        """What is wrong with signatures of journals that name this host."""
        answer = self.audit.get("keys", KeysAnswer, cluster="test")
        return [fault for fault in answer.faults if fault.host == host]


@contextmanager
def site(directory: Path, lies: BrokerLies | None = None) -> Iterator[Site]:
    """With `lies`, the broker is a compromised one."""
    zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
    try:
        settings = {"ledger_interval": 0.3, "window": WINDOW}
        broker = BrokerProcess(directory / "broker", zookeeper=zookeeper.address, settings=settings)
        registry = RegistryProcess(directory / "registry", brokers=broker.bootstrap)
        with broker.config.open("a") as config:
            config.write(f"registry: {registry.url}\n")
        liar = None if lies is None else LyingBroker(Address("127.0.0.1", broker.port), lies, ROLES)
        audit = AuditProcess(
            directory / "audit",
            brokers=broker.bootstrap if liar is None else liar.bootstrap(AUDIT),
            registry=registry.url,
            settings={"window": WINDOW, "grace": 2.0},
        )
        with broker, registry, liar or nullcontext(), audit:
            made = Site(broker, registry, audit, liar)
            with made.brokers() as brokers:
                create_topic(brokers, LEDGER_TOPIC, partitions=1)
            yield made
    finally:
        zookeeper.stop()
