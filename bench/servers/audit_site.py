"""A cluster with the ledger of a fleet, and audits that read it."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.contents.audit_fleet import HOUR, Fleet
from bench.contents.ledger_entries import PARTITIONS, LedgerOfFleet
from bench.contents.topics import create, delete, is_served
from bench.figures.plain_python import without_hypothesis
from bench.figures.profile import Scale
from bench.servers.brokers import penstock_cluster
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.names import LEDGER_TOPIC
from ledger.publishing import schema_id
from schemas.registry_client import RegistryClient

_POLL: Final = 0.5  # the default


def fleet_of(scale: Scale, hours: int) -> Fleet:
    """Returns a fleet of `hours` hours that end with the current one, since an audit deletes old
    entries."""
    first_hour = (int(time.time() * 1000) // HOUR - hours) * HOUR
    return Fleet(first_hour, agents=scale.agents, topics=scale.agents_topics)


class AuditSite(msgspec.Struct, frozen=True):
    """A started broker and registry."""

    home: Path
    broker: BrokerProcess
    registry: RegistryProcess

    def empty_ledger(self, fleet: Fleet, folder: Path) -> LedgerOfFleet:
        """Returns an empty ledger for the fleet, after deleting earlier entries."""
        if is_served(self.broker.port, {LEDGER_TOPIC: PARTITIONS}):
            delete(self.broker.port, LEDGER_TOPIC)
        create(self.broker.port, {LEDGER_TOPIC: PARTITIONS})
        client = RegistryClient(self.registry.url)
        try:
            return LedgerOfFleet(fleet, schema_id(client), folder)
        finally:
            client.close()

    @contextlib.contextmanager
    def audit(self, fleet: Fleet, name: str) -> Iterator[AuditProcess]:
        """Yields an audit that is not started yet, and stops it at the end of the block."""
        home = self.home / name
        audit = AuditProcess(
            home,
            brokers=self.broker.bootstrap,
            registry=self.registry.url,
            settings={"cluster": fleet.cluster, "poll": _POLL},
        )
        audit.process.environment["PYTHONPATH"] = str(without_hypothesis(home))
        with audit.process:
            yield audit


@contextlib.contextmanager
def audit_site(home: Path) -> Iterator[AuditSite]:
    with penstock_cluster(home) as (address, broker):
        registry = RegistryProcess(home / "registry", brokers=broker.bootstrap, zookeeper=address)
        with registry:
            yield AuditSite(home, broker, registry)
