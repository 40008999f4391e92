"""The topic of a run, and who looks at its groups.

Writer    numbered records to all partitions: each partition's number is its offset
Growth    more partitions. Whoever writes hears of them when all brokers know them; members of
          groups find out by themselves
Watcher   notes each generation of groups of Kafka's kind that it sees in ZooKeeper
"""

import random
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from cluster.errors import ClusterError
from cluster.groups import groups
from cluster.session.session import Session
from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from tests.campaigns.cluster.clients import RETURN
from tests.campaigns.groups.events import Ended, Saved, Written
from tests.campaigns.groups.member import REFRESH_MS, content
from tests.campaigns.history import Notebook, Trouble
from tests.system.crash import Worker
from wire.consumer_protocol import pairs, read_assignment

_PATIENCE: Final = 120.0
_BURSTS: Final = (1, 2, 3, 10)


class Writer(Worker):
    """Idempotent, acks=all. When it is finished, all that it has sent is acknowledged, and nothing
    is empty."""

    def __init__(self, notebook: Notebook, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__("writer")
        self._notebook, self._topic = notebook, topic
        self.ends = dict.fromkeys(range(partitions), 0)
        options: dict[str, object] = {
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 3_600_000,
            "request.timeout.ms": 5_000,
            "socket.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
        }
        self._producer = Producer({"bootstrap.servers": bootstrap, **options, **RETURN})

    def work(self) -> None:
        chance = random.Random(self.name)
        try:
            while not self.stopping:
                for _ in range(chance.choice(_BURSTS)):
                    self._send(chance.randrange(len(self.ends)))
                until = time.monotonic() + chance.uniform(0.02, 0.2)
                while time.monotonic() < until:
                    self._producer.poll(0.05)
            self._fill()
            if left := self._producer.flush(_PATIENCE):
                self._trouble(f"{left} records without an answer {_PATIENCE:g} s after all is well")
        except (KafkaException, SystemError) as fatal:
            self._trouble(f"the writer was given a fatal error: {fatal}")
        self._producer.purge()
        for partition, end in self.ends.items():
            self._notebook.note(Ended(partition, end))

    def _fill(self) -> None:
        """A partition that came late has a record, too: who does not read it is found out."""
        until = time.monotonic() + _PATIENCE
        while (empty := [each for each, end in self.ends.items() if not end]) and (
            time.monotonic() < until
        ):
            for each in empty:
                self._send(each)
            self._producer.poll(0.05)
        if empty:
            self._trouble(f"the writer has not heard of partitions {empty}")

    def reach(self, partitions: int) -> None:
        """So many are written to from now on, if they were fewer."""
        for each in range(len(self.ends), partitions):
            self.ends[each] = 0

    def _send(self, partition: int) -> None:
        number = self.ends[partition]

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._trouble(f"record {number} of partition {partition}: {error}")
            elif message.offset() not in {number, None}:  # it is not told of what was there before
                words = f"record {number} of partition {partition} is at {message.offset()}"
                self._trouble(words)
            else:
                self._notebook.note(Written(partition, number))

        value = content(partition, number)
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return  # a new one, of which the producer has not heard yet
        self.ends[partition] += 1

    def _trouble(self, words: str) -> None:
        self._notebook.note(Trouble(f"stuck: {words}"))


_EVERY: Final = 0.5
_ANSWERED_WITHIN: Final = 10.0


class Growth(Worker):
    def __init__(self, cluster: BrokerCluster, topic: str, writer: Writer, partitions: int) -> None:
        super().__init__("growth")
        self._cluster, self._topic, self._writer = cluster, topic, writer
        self._wanted = partitions
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **RETURN})
        self._asked: list[Future[None]] = []

    def grow(self) -> None:
        """By one. It is not waited for: whether anybody can do it now is part of the run."""
        self._wanted += 1
        more = [NewPartitions(self._topic, self._wanted)]
        answers = self._admin.create_partitions(more, request_timeout=_ANSWERED_WITHIN)
        self._asked += answers.values()

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            self._writer.reach(self._known)

    def settle(self, *, within: float) -> int:
        """How many there are when all is well and nothing is asked for any more; the writer knows.
        Raises TimeoutError if brokers do not agree."""
        wait(self._asked)
        what = f"all brokers know as many partitions of {self._topic}"
        wait_until(lambda: self._known > 0, within=within, what=what, every=_EVERY)
        self._writer.reach(self._known)
        return len(self._writer.ends)

    @property
    def _known(self) -> int:
        """By all brokers; 0 if one of them is away or knows of another number."""
        said = {len(self._cluster.reported_by(each, self._topic)) for each in self._cluster.ids}
        return said.pop() if len(said) == 1 else 0


_EVERY: Final = 0.1


class Watcher(Worker):
    """By a connection of its own, that no fault of a link concerns."""

    def __init__(self, notebook: Notebook, address: str, watched: Sequence[str]) -> None:
        super().__init__("watcher")
        self._notebook, self._groups = notebook, watched
        self._session = Session.connect(
            address, secret=None, timeout_s=4.0, connect_timeout_s=60, makes_map=False
        )

    def work(self) -> None:
        seen: dict[str, Saved] = {}
        try:
            while not self._stop_asked.wait(_EVERY):
                try:
                    found = [each for name in self._groups if (each := self._look(name))]
                except ClusterError:
                    continue
                for each in found:
                    if seen.get(each.group) != each:
                        seen[each.group] = each
                        self._notebook.note(each)
        finally:
            self._session.close()

    def _look(self, group: str) -> Saved | None:
        stored = groups.read_group(self._session, group)
        if stored is None:
            return None
        owners = {
            each.member_id: tuple(
                partition
                for _, partition in pairs(read_assignment(each.assignment).assigned_partitions)
            )
            for each in stored.members
        }
        return Saved(group, stored.info.generation, owners)
