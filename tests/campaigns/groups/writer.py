"""Writes numbered records to all partitions of a topic: each partition's number is its offset."""

import random
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.campaigns.cluster.writers import RETURN
from tests.campaigns.groups.events import Ended, Written
from tests.campaigns.groups.member import REFRESH_MS, content
from tests.campaigns.history import Notebook, Trouble
from tests.system.crash import Worker

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
