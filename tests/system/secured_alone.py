"""A secured broker and well-behaved clients of it, for programs run from the command line."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import msgspec

from broker.connections.complaints import ComplaintKind
from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.secured_broker import SecuredBroker
from harness.processes.waiting import wait_until
from tests.system.bystander import Bystander, Served
from tests.system.raw_login import Entry

TOPIC: Final = "bystander"
GOOD: Final = "broker"  # the user who is good throughout


@contextmanager
def secured_for_good_clients(directory: Path, zookeeper: str) -> Iterator[SecuredBroker]:
    """It has a topic for the good clients.

    All other users have no rights, so that no request of theirs after a login can change a
    password.
    """
    authorization = {"super_users": [GOOD]}
    with SecuredBroker(
        directory, zookeeper=zookeeper, settings={"authorization": authorization}
    ) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, GOOD)) as brokers:
            create_topic(brokers, TOPIC)
        yield secured


@contextmanager
def secured_alone() -> Iterator[SecuredBroker]:
    """Starts a ZooKeeper of its own as well."""
    with tempfile.TemporaryDirectory(prefix="secured-") as name:
        directory = Path(name)
        zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
        try:
            with secured_for_good_clients(directory / "broker", zookeeper.address) as secured:
                yield secured
        finally:
            zookeeper.stop()


class GoodServed(msgspec.Struct, frozen=True):
    stays: Served
    comes_anew: Served

    @property
    def is_standstill(self) -> bool:
        """The limit is loose: the machine is shared, and logins take its processor as well."""
        both = (self.stays, self.comes_anew)
        return any(
            each.median > 5 + each.disk_wait or each.longest > 20 + each.disk_wait or not each.count
            for each in both
        )

    def __str__(self) -> str:
        return f"stays connected: {self.stays}; logs in each time: {self.comes_anew}"


class GoodClients:
    """One stays connected, one logs in anew for each record, until `finish`.

    Both use TLS, from an address that no attacker uses. Used as `with GoodClients(secured) as
    good`.
    """

    def __init__(self, secured: SecuredBroker) -> None:
        address = f"127.0.0.1:{secured.brokers}"
        entry = Entry(GOOD, secured.directory / f"{GOOD}.password", secured.authority.ca)
        self._stays = Bystander(address, TOPIC, entry)
        self._comes_anew = Bystander(address, TOPIC, entry, anew=True)

    def finish(self) -> GoodServed:
        """Stop, and return the latencies of these clients."""
        return GoodServed(self._stays.measured(), self._comes_anew.measured())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stays.kill()
        self._comes_anew.kill()


@dataclass
class Beset:
    """How the broker and its good clients do under attack, and how the clients did before."""

    before: GoodServed | None = None
    meanwhile: GoodServed | None = None
    seconds: float = 0.0
    cpu: float = 0.0  # of a core
    memory: tuple[int, int] = (0, 0)  # before, and the most
    log: str = ""
    complaints: dict[str, int] = field(default_factory=dict)

    @property
    def log_lines(self) -> int:
        return len(self.log.splitlines())

    def counted(self, *kinds: ComplaintKind) -> int:
        return sum(self.complaints[each.value] for each in kinds)

    def __str__(self) -> str:
        before, most = (each / 1e6 for each in self.memory)
        told = {kind: count for kind, count in self.complaints.items() if count}
        return (
            f"good clients before: {self.before}\ngood clients meanwhile: {self.meanwhile}\n"
            f"the broker: {self.cpu:.0%} of a core; memory {before:.0f} MB, {most:.0f} MB at most;"
            f" its log: {self.log_lines} lines, {len(self.log)} characters; counted: {told}"
        )


@contextmanager
def beset(secured: SecuredBroker, *, alone_seconds: float = 0.0) -> Iterator[Beset]:
    """The attack runs within it; the broker of `secured_alone` runs before and after."""
    broker, found = secured.broker, Beset()
    if alone_seconds:
        with GoodClients(secured) as good:
            time.sleep(alone_seconds)
            found.before = good.finish()
    rss, said, told = broker.rss(), len(broker.log()), _complaints(secured)
    with GoodClients(secured) as good:
        files, cpu, began = broker.process.open_files(), broker.cpu_seconds(), time.monotonic()
        yield found
        found.seconds = time.monotonic() - began
        found.cpu = (broker.cpu_seconds() - cpu) / found.seconds
        found.meanwhile = good.finish()
    assert broker.process.alive, broker.process.last_words()
    wait_until(lambda: broker.process.open_files() <= files + 20, what="it lets go of all")
    found.memory = rss, broker.process.most_rss()
    found.complaints = {kind: count - told[kind] for kind, count in _complaints(secured).items()}
    found.log = broker.log()[said:]


def _complaints(secured: SecuredBroker) -> dict[str, int]:
    return {kind.value: secured.broker.complaints(kind.value) for kind in ComplaintKind}


def source_of(number: int) -> str:
    """Return a local address that no good client uses; each number has another."""
    return f"127.{number // 62_500 % 250 + 1}.{number // 250 % 250}.{number % 250 + 1}"
