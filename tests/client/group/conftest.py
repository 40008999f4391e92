"""A group and a topic for each test."""

from collections.abc import Iterator

import pytest
import yaml

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.reading.offsets import Beginning, Start
from cluster.session.session import Session
from cluster.values import TopicPartition
from harness.penstock.broker import BrokerProcess
from tests.client.group.witness import Witness, judge
from tests.client.group.working import Worker, until_read, write


def zookeeper_of(broker: BrokerProcess) -> str:
    """The address of the broker's map in ZooKeeper."""
    return str(yaml.safe_load(broker.config.read_text())["zookeeper"])


class Site:
    """One group with its topic, members and witness."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.group = f"group/{topic}"
        self.zookeeper = zookeeper_of(broker)
        self.brokers = Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=120)
        self.session = Session.connect(self.zookeeper, secret=None, connect_timeout_s=60)
        self.witness = Witness()
        self.written: dict[TopicPartition, int] = {}
        self._workers: list[Worker] = []

    def create(self, partitions: int) -> None:
        create_topic(self.brokers, self.topic, partitions=partitions)

    def join(
        self,
        start: Start = Beginning(),  # noqa: B008
        *,
        zookeeper: str = "",
        timeout_s: float = 20.0,
        commits: bool = True,
        commits_every_s: float = 0.0,
    ) -> Worker:
        """Add a member, which leaves at the end of the test."""
        worker = Worker(
            *(self.broker.bootstrap, zookeeper or self.zookeeper, self.group, [self.topic]),
            self.witness,
            start=start,
            timeout_s=timeout_s,
            commits=commits,
            commits_every_s=commits_every_s,
        )
        self._workers.append(worker)
        return worker

    def write(self, partitions: int, each: int) -> None:
        for where, count in write(self.broker.bootstrap, self.topic, partitions, each).items():
            self.written[where] = self.written.get(where, 0) + count

    def until_all_is_read(self) -> None:
        until_read(self.witness, self.written)

    def judge(self) -> None:
        judge(self.witness, self.written)

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        self.session.close()
        self.brokers.close()


@pytest.fixture
def site(running_broker: BrokerProcess, new_topic: str) -> Iterator[Site]:
    site = Site(running_broker, new_topic)
    yield site
    site.close()
