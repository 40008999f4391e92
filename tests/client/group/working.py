"""Members of a group that read until they are stopped, in threads with a session each."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from client.reading.offsets import Beginning, Start
from cluster.errors import Fenced, Unavailable
from cluster.session.session import Session
from cluster.values import TopicPartition
from harness.processes.waiting import wait_until
from tests.client.group.witness import Witness, WitnessedConsumer

WITHIN = 240.0


class Worker:
    """A member in a thread."""

    def __init__(
        self,
        bootstrap: str,
        zookeeper: str,
        group: str,
        topics: list[str],
        witness: Witness,
        *,
        start: Start = Beginning(),  # noqa: B008
        timeout_s: float = 6.0,
        commits: bool = True,
        commits_every_s: float = 0.0,
    ) -> None:
        self.session = Session.connect(
            zookeeper, secret=None, timeout_s=timeout_s, connect_timeout_s=60, makes_map=False
        )
        self._brokers = Brokers(Bootstrap.of(bootstrap), patience_seconds=120)
        self.consumer = WitnessedConsumer(
            *(self._brokers, self.session, group, topics),
            start=start,
            before_release=self._commit,
        )
        self.fenced = 0
        self.failure: BaseException | None = None
        self._witness = witness
        self._commits = commits
        self._commits_every_s = commits_every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self.consumer:
                committed = time.monotonic()
                while not self._stopping.is_set():
                    asked = time.monotonic()
                    for message in self.consumer.poll(0.5):
                        got = time.monotonic()
                        self._witness.note(self.consumer.read(message, asked, got))
                        asked = time.monotonic()
                        if self._stopping.is_set():
                            break
                    if time.monotonic() >= committed + self._commits_every_s:
                        self._commit()
                        committed = time.monotonic()
        except BaseException as failure:  # noqa: BLE001  # the test's thread raises it
            self.failure = failure

    def _commit(self) -> None:
        if not self._commits:
            return
        try:
            self.consumer.commit_noted(self._witness)
        except Fenced:
            self.fenced += 1
        except Unavailable:
            pass

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.consumer.partitions)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._brokers.close()
        self.session.close()
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Writer:
    """Writes to all partitions until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, every_s: float = 0.05) -> None:
        self.written: dict[TopicPartition, int] = {}
        self.failure: BaseException | None = None
        self._topic = topic
        self._partitions = partitions
        self._every_s = every_s
        self._brokers = Brokers(Bootstrap.of(bootstrap), patience_seconds=120)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            producer = Producer(self._brokers, self._topic)
            while not self._stopping.wait(self._every_s):
                for number in range(self._partitions):
                    producer.send(b"x", partition=number)
                producer.flush()
                for number in range(self._partitions):
                    where = TopicPartition(self._topic, number)
                    self.written[where] = self.written.get(where, 0) + 1
        except BaseException as failure:  # noqa: BLE001
            self.failure = failure

    def stop(self) -> dict[TopicPartition, int]:
        self._stopping.set()
        self._thread.join()
        self._brokers.close()
        if self.failure is not None:
            raise self.failure
        return self.written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def write(bootstrap: str, topic: str, partitions: int, each: int) -> dict[TopicPartition, int]:
    """Write `count` messages to each partition."""
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=120) as brokers:
        producer = Producer(brokers, topic)
        for number in range(partitions):
            for _ in range(each):
                producer.send(b"x", partition=number)
        producer.flush()
    return {TopicPartition(topic, number): each for number in range(partitions)}


def until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, within=WITHIN, what=what)


def until_read(witness: Witness, written: dict[TopicPartition, int]) -> None:
    """Wait until any members have read everything."""
    wanted = {(*where, offset) for where, count in written.items() for offset in range(count)}

    def is_read() -> bool:
        return wanted <= {(each.topic, each.partition, each.offset) for each in witness.reads}

    wait_until(is_read, within=WITHIN, what="all messages are read", every=0.2)


def shared(*workers: Worker) -> dict[TopicPartition, Worker]:
    """The owner of each partition; fails if a partition has two."""
    owners: dict[TopicPartition, Worker] = {}
    for worker in workers:
        for each in worker.partitions:
            assert each not in owners
            owners[each] = worker
    return owners


@contextmanager
def all_stopped(workers: list[Worker]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
