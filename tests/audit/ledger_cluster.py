"""A cluster of one broker whose `_audit` only the test writes to, and audits that read it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.proofs import Chain
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient


@dataclass(frozen=True)
class LedgerCluster:
    bootstrap: str
    registry: str
    broker: BrokerProcess
    brokers: Brokers
    client: RegistryClient

    def write(self, entries: Sequence[Entry], chain: Chain | None = None) -> None:
        now = int(time.time() * 1000)
        write_entries(self.brokers, self.client, entries, timestamp=now, chain=chain)

    def audit(self, directory: Path, **settings: object) -> AuditProcess:
        """Alerts are raised at once, and never because a host is silent."""
        wanted = {"grace": 0, "alerts": {"after": 0, "silent": 1e6, "keep_for": 0}, **settings}
        return AuditProcess(
            directory, brokers=self.bootstrap, registry=self.registry, settings=wanted
        )


@contextmanager
def ledger_cluster(directory: Path, zookeeper: str) -> Iterator[LedgerCluster]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(directory / "broker", zookeeper=zookeeper))
        registry = stack.enter_context(
            RegistryProcess(directory / "registry", brokers=broker.bootstrap)
        )
        brokers = stack.enter_context(Brokers(Bootstrap.of(broker.bootstrap)))
        client = stack.enter_context(RegistryClient(registry.url))
        yield LedgerCluster(broker.bootstrap, registry.url, broker, brokers, client)
