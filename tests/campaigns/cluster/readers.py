"""Who reads: consumers that were assigned all partitions from the beginning, and note all they see.

A reader with a rack is served by the replica in that rack, if the cluster serves from followers.
"""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.campaigns.cluster.events import Read, Refused
from tests.campaigns.cluster.writers import RETURN
from tests.campaigns.history import Notes
from tests.campaigns.logs import content_of
from tests.system.crash import Worker

# Reading on is not possible where it was: what was shown is said to be gone.
_REFUSALS: Final = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
}
_OPTIONS: Final = {
    "group.id": "none",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 400,
    "fetch.error.backoff.ms": 50,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 5_000,
    "check.crcs": True,
}


class Reader(Worker):
    def __init__(  # noqa: PLR0917  each is another part
        self,
        name: str,
        history: Notes,
        bootstrap: str,
        topic: str,
        partitions: Sequence[int],
        rack: str = "",
    ) -> None:
        super().__init__(name)
        self._history, self._topic, self._partitions = history, topic, partitions
        options = {"bootstrap.servers": bootstrap, "client.rack": rack, **_OPTIONS, **RETURN}
        self._consumer = Consumer(options)

    def work(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in self._partitions])
        try:
            while not self.stopping:
                for message in self._consumer.consume(200, 0.2):
                    self._note(message)
        finally:
            self._consumer.close()

    def _note(self, message: Message) -> None:
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is None:
            self._history.note(Read(self.name, partition, offset, content_of(message.value())))
        elif error.code() in _REFUSALS:
            self._history.note(Refused(self.name, partition, str(error)))


class NoEnd(Exception):
    """A partition could not be read to its end in time."""


def read_whole(bootstrap: str, topic: str, partition: int, *, within: float) -> dict[int, str]:
    """What a consumer that knows nothing of before reads, by offset."""
    options = {"bootstrap.servers": bootstrap, "enable.partition.eof": True, "log_level": 2}
    consumer = Consumer({**_OPTIONS, **options})
    found: dict[int, str] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found[message.offset()] = content_of(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                elif error.code() in _REFUSALS:
                    raise KafkaException(error)
        raise NoEnd(f"{topic}-{partition}: no end within {within:g} s")
    finally:
        consumer.close()
