"""Three brokers with a ZooKeeper, for tests that stop some of them."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from client.admin.topics import all_topics, delete_topic
from cluster.values import ClusterSnapshot, PartitionInfo
from cluster.view import ClusterView
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import RunningServers, free_ports
from harness.processes.waiting import wait_until
from tests.system.replicas_at import LONG, ReplicasAt

SESSION_SECONDS: Final = 4.0
Partitions = tuple[PartitionInfo, ...]


class Cluster(ReplicasAt, RunningServers):
    """Brokers 1, 2 and 3, each in a rack of its own, with a ZooKeeper of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (self._port,) = free_ports(1)
        self.start_zookeeper()
        self.chroot = "/three"
        settings = {
            "zookeeper_session_seconds": SESSION_SECONDS,
            "ledger": False,
            "auto_create_topics": False,
        }
        self.servers: list[BrokerProcess] = [
            BrokerProcess(
                directory / f"broker-{each}",
                zookeeper=self.zookeeper.address + self.chroot,
                broker_id=each,
                topic_defaults={"replication_factor": 3},
                settings={"rack": f"r{each}", **settings},
            )
            for each in (1, 2, 3)
        ]
        super().__init__(",".join(each.bootstrap for each in self.servers))

    def start_zookeeper(self) -> None:
        self.zookeeper = EmbeddedZooKeeper.start(self._directory / "zookeeper", port=self._port)

    def broker(self, broker_id: int) -> BrokerProcess:
        return self.servers[broker_id - 1]

    def is_well(self) -> bool:
        return all(each.http("/readyz") == (200, "ready\n") for each in self.servers)

    def restore(self) -> None:
        """Start all brokers, wait until they are healthy, and delete all topics."""
        for each in self.servers:
            if not each.process.alive:
                each.start(within=LONG)
        wait_until(self.is_well, within=LONG, what="all brokers are well")
        with self.asked() as brokers:
            for topic in all_topics(brokers).topics:
                delete_topic(brokers, topic)
        wait_until(
            lambda: [value(each, "led_partitions") for each in self.servers] == [0, 0, 0],
            within=LONG,
            what="all topics are gone",
        )


class Elected:
    """A topic with its leaders, according to the brokers' map."""

    def __init__(self, view: ClusterView, name: str) -> None:
        self.view = view
        self.name = name

    @property
    def partitions(self) -> Partitions:
        return self.view.snapshot.topics[self.name].partitions

    @property
    def controller(self) -> int:
        found = self.view.snapshot.controller_id
        assert found is not None
        return found

    def wait(self, met: Callable[[Partitions], bool]) -> float:
        """Returns the seconds that the election took."""
        began = time.monotonic()

        def is_so(snapshot: ClusterSnapshot) -> bool:
            return self.name in snapshot.topics and met(snapshot.topics[self.name].partitions)

        self.view.wait_for(is_so, 60)
        return time.monotonic() - began

    def wait_until_all_in_sync(self) -> None:
        self.wait(lambda now: all(set(each.isr) == {1, 2, 3} for each in now))


def value(broker: BrokerProcess, name: str, labels: str = "") -> float | None:
    """The value of a metric with these labels; None if it has none now."""
    line = re.escape(f"penstock_broker_{name}{labels}")
    found = re.search(rf"^{line} (\S+)$", broker.http("/metrics")[1], re.MULTILINE)
    return float(found[1]) if found else None


class Throttled(NamedTuple):
    """One side of a broker's throttle, from `/metrics`."""

    rate: float | None
    bytes: float
    waited: float

    @classmethod
    def of(cls, broker: BrokerProcess, side: str) -> "Throttled":
        labels = f'{{side="{side}"}}'
        return cls(
            value(broker, "throttle_bytes_per_second", labels),
            value(broker, "throttled_bytes_total", labels) or 0,
            value(broker, "throttle_waited_seconds_total", labels) or 0,
        )

    def since(self, before: "Throttled") -> "Throttled":
        return Throttled(self.rate, self.bytes - before.bytes, self.waited - before.waited)
