"""Three brokers, of which one goes: killed, stopped, or only away; others lead."""

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.session import Session
from cluster.values import NO_LEADER, ClusterSnapshot, PartitionInfo
from cluster.view import ClusterView
from harness.broker_process import BrokerProcess
from harness.waiting import wait_until

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

PARTITIONS = 12
SESSION_SECONDS = 4.0
TICK_SECONDS = 0.5  # sessions end in steps of it
ELECTING_SECONDS = 2.5  # on a busy machine; alone it is a tenth of that
TOPIC = "elected"


class Trio:
    """Three brokers of one cluster, and the map that they share."""

    def __init__(self, brokers: dict[int, BrokerProcess], view: ClusterView) -> None:
        self.brokers = brokers
        self._view = view
        self.bootstrap = ",".join(each.bootstrap for each in brokers.values())

    def partitions(self) -> tuple[PartitionInfo, ...]:
        return self._view.snapshot.topics[TOPIC].partitions

    def wait(self, met: Callable[[tuple[PartitionInfo, ...]], bool], within: float = 60) -> float:
        """How long it took."""
        began = time.monotonic()

        def is_so(snapshot: ClusterSnapshot) -> bool:
            return TOPIC in snapshot.topics and met(snapshot.topics[TOPIC].partitions)

        self._view.wait_for(is_so, within)
        return time.monotonic() - began

    def wait_until_all_in_sync(self) -> None:
        self.wait(lambda now: all(set(each.isr) == {1, 2, 3} for each in now))

    @property
    def controller(self) -> int:
        found = self._view.snapshot.controller_id
        assert found is not None
        return found

    def send(self, first: int, count: int) -> None:
        """Numbers, spread over the partitions, acknowledged by all in sync."""
        failed: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for number in range(first, first + count):
            producer.produce(
                TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=note
            )
        assert producer.flush(120) == 0
        assert not failed

    def received(self, count: int) -> list[int]:
        """What can be consumed, in order of numbers."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        found: list[int] = []
        give_up = time.monotonic() + 60
        while len(found) < count and time.monotonic() < give_up:
            for message in consumer.consume(10_000, timeout=0.2):
                assert message.error() is None, message.error()
                found.append(int(message.value() or b""))
        consumer.close()
        return sorted(found)


@pytest.fixture
def trio(chroot: str, tmp_path: Path) -> Iterator[Trio]:
    with ExitStack() as running:
        brokers = {
            number: BrokerProcess(
                tmp_path / str(number),
                zookeeper=chroot,
                broker_id=number,
                settings={"zookeeper_session_seconds": SESSION_SECONDS, "rack": f"rack-{number}"},
            )
            for number in (1, 2, 3)
        }
        for each in brokers.values():
            running.enter_context(each)
        session = Session.connect(chroot, secret=None)
        running.callback(session.close)
        view = ClusterView(session)
        view.start(lambda _: None)
        running.callback(view.close)
        admin = AdminClient({"bootstrap.servers": ",".join(b.bootstrap for b in brokers.values())})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)
        trio = Trio(brokers, view)
        trio.wait_until_all_in_sync()
        yield trio


def test_a_broker_is_killed_and_others_lead(trio: Trio) -> None:
    """The controller may be it, too; and nothing that was acknowledged is lost."""
    trio.send(0, 1000)
    victim = trio.controller
    assert sum(each.leader == victim for each in trio.partitions()) == PARTITIONS // 3
    trio.brokers[victim].kill()
    took = trio.wait(lambda now: all(each.leader not in {victim, NO_LEADER} for each in now))
    assert took < SESSION_SECONDS + TICK_SECONDS + ELECTING_SECONDS
    trio.wait(lambda now: all(victim not in each.isr for each in now))  # each is read by itself
    trio.send(1000, 1000)
    trio.brokers[victim].start()
    trio.wait_until_all_in_sync()
    assert trio.received(2000) == list(range(2000))


def test_a_broker_is_stopped_and_others_lead_before(trio: Trio) -> None:
    """Also while somebody writes: nothing fails, nothing is lost."""
    stopped = next(each for each in trio.brokers if each != trio.controller)
    before = trio.partitions()
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(trio.send, 0, 20_000)
        assert trio.brokers[stopped].terminate() == 0
        sending.result()
    assert "others lead now" in trio.brokers[stopped].log()
    trio.wait(lambda now: all(stopped not in each.isr for each in now))
    for was, each in zip(before, trio.partitions(), strict=True):
        assert each.leader not in {stopped, NO_LEADER}
        assert each.leader_epoch == was.leader_epoch + (was.leader == stopped)
    assert trio.received(20_000) == list(range(20_000))


def test_replicas_move_while_somebody_writes(trio: Trio) -> None:
    """From three brokers to one each, as a Kafka client asks for it."""
    wanted = {index: (index % 3 + 1,) for index in range(PARTITIONS)}
    admin = kafka.KafkaAdminClient(bootstrap_servers=trio.bootstrap.split(","))
    with closing(admin), ThreadPoolExecutor(1) as threads:
        sending = threads.submit(trio.send, 0, 5000)
        admin.alter_partition_reassignments(
            {kafka.TopicPartition(TOPIC, index): list(where) for index, where in wanted.items()}
        )
        trio.wait(lambda now: [each.replicas for each in now] == list(wanted.values()))
        sending.result()
        assert not any(admin.list_partition_reassignments().values())
        back = (2, 3)
        admin.alter_partition_reassignments(
            {kafka.TopicPartition(TOPIC, index): list(back) for index in wanted}
        )
    trio.wait(lambda now: all(each.replicas == back == tuple(sorted(each.isr)) for each in now))
    assert trio.received(5000) == list(range(5000))
    kept = [trio.brokers[1].partition_dir(TOPIC, each) for each in range(PARTITIONS)]
    wait_until(lambda: not any(each.exists() for each in kept), within=30, what="they are deleted")
