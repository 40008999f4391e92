"""Brokers that receive agents' batches: one that keeps a ledger of them, and one that does not."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.figures.profile import CaseContext, Scale, ServerKind
from bench.servers.brokers import PENSTOCK
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess

NO_LEDGER: Final = "no ledger"
_REGISTRY: Final = "BENCH_REGISTRY"  # for an address that is known only later


class LedgerBroker(msgspec.Struct, frozen=True):
    """A started broker, with a client in `brokers`."""

    name: str
    server: BrokerProcess
    brokers: Brokers

    @property
    def keeps_ledger(self) -> bool:
        return self.name == PENSTOCK

    def last_words(self, lines: int) -> str:
        return self.server.process.last_words(lines)


def ledger_broker_of(context: CaseContext) -> LedgerBroker:
    assert isinstance(context.server, LedgerBroker)
    return context.server


def ledger_brokers(scale: Scale, *, beside: bool) -> Mapping[str, ServerKind]:
    """Returns the kinds of broker by name; `beside` adds the one without a ledger."""
    names = [PENSTOCK, NO_LEDGER] if beside else [PENSTOCK]
    return {name: _kind(name, scale.ledger_interval) for name in names}


def _kind(name: str, interval: float) -> ServerKind:
    return lambda home: _started(name, home, interval)


@contextlib.contextmanager
def _started(name: str, home: Path, interval: float) -> Iterator[LedgerBroker]:
    """A registry runs beside each broker, used or not."""
    ledger_settings = {"registry": f"${{{_REGISTRY}}}", "ledger_interval": interval}
    with contextlib.ExitStack() as stack:
        zookeeper = EmbeddedZooKeeper.start(home / "zookeeper", port=0)
        stack.callback(zookeeper.stop)
        broker = BrokerProcess(
            home / "broker",
            zookeeper=zookeeper.address,
            settings=ledger_settings if name == PENSTOCK else {},
        )
        registry = RegistryProcess(home / "registry", brokers=broker.bootstrap)
        broker.process.environment[_REGISTRY] = registry.url
        stack.enter_context(broker)
        stack.enter_context(registry)
        brokers = stack.enter_context(Brokers(Bootstrap.of(broker.bootstrap)))
        yield LedgerBroker(name, broker, brokers)
