"""A secured broker with all that it needs, and good clients of it: for what is run by command."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from client.admin import create_topic
from client.brokers import Brokers
from client.security import Mechanism
from cluster.zookeeper import EmbeddedZooKeeper
from harness.secured_broker import SecuredBroker
from tests.system.bystander import Bystander, Served
from tests.system.raw_login import Entry

TOPIC: Final = "bystander"
GOOD: Final = "broker"  # the user who is good throughout


@contextmanager
def secured_for_good_clients(directory: Path, zookeeper: str) -> Iterator[SecuredBroker]:
    """It has a topic for them. All others may do nothing, so that what they ask for once they are
    in changes no password."""
    authorization = {"super_users": [GOOD]}
    with SecuredBroker(
        directory, zookeeper=zookeeper, settings={"authorization": authorization}
    ) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, GOOD)) as brokers:
            create_topic(brokers, TOPIC)
        yield secured


@contextmanager
def secured_alone() -> Iterator[SecuredBroker]:
    """With a ZooKeeper of its own."""
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
        """Loose: the machine is shared, and a login of one's own costs its processor, too."""
        both = (self.stays, self.comes_anew)
        return any(
            each.median > 5 + each.disk_wait or each.longest > 20 + each.disk_wait or not each.count
            for each in both
        )

    def __str__(self) -> str:
        return f"stays connected: {self.stays}; logs in each time: {self.comes_anew}"


class GoodClients:
    """One stays connected, one logs in anew for each record: both over TLS, from an address that
    no attacker comes from. `with GoodClients(secured) as good`: they do so until `finish`."""

    def __init__(self, secured: SecuredBroker) -> None:
        address = f"127.0.0.1:{secured.brokers}"
        entry = Entry(GOOD, secured.directory / f"{GOOD}.password", secured.authority.ca)
        self._stays = Bystander(address, TOPIC, entry)
        self._comes_anew = Bystander(address, TOPIC, entry, anew=True)

    def finish(self) -> GoodServed:
        """How they were served."""
        return GoodServed(self._stays.measured(), self._comes_anew.measured())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stays.kill()
        self._comes_anew.kill()


def source_of(number: int) -> str:
    """An address of this machine that no good client comes from; the next number has another."""
    return f"127.{number // 62_500 % 250 + 1}.{number // 250 % 250}.{number % 250 + 1}"
