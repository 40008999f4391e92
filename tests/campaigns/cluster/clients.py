"""Who writes and who reads.

    LibrdkafkaWriter   goes where the cluster sends it, idempotent or not
    HeadstrongWriter   by hand; asks nobody who leads. Told of one broker, it writes to that one as
                       long as that takes anything: it is what finds a leader that was deposed and
                       does not know it. Told of several, it tries one after the other
    Reader             was assigned all partitions from the beginning, and notes all it sees. With a
                       rack it is served by the replica in that rack

Each writer writes to one partition, and notes what it sends before the first attempt, and what was
acknowledged, by whom it knows. No writer gives a record up by itself: a record is sent until it is
acknowledged, or until the run is over.
"""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.campaigns.cluster.events import Acknowledged, Began, Failed, Read, Refused, Sent
from tests.campaigns.history import Notes
from tests.campaigns.logs import content_of
from tests.campaigns.reading import messages
from tests.system.crash import Worker, value_of
from tests.system.raw import (
    PRODUCE,
    Closed,
    RawConnection,
    produce_body,
    read_produced,
    record_batch,
)

ALL: Final = -1
PATIENCE: Final = 120.0
_ANSWER_SECONDS: Final = 8.0
# Soon, and yet not so often that there is nothing else to do for this machine.
RETURN: Final = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "log_level": 2,
}
_BURSTS: Final = (1, 1, 3, 10, 30)


class LibrdkafkaWriter(Worker):
    """What it has sent when it is told to stop must be acknowledged within PATIENCE."""

    def __init__(
        self,
        name: str,
        history: Notes,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        acks: int,
        idempotent: bool,
        codec: str = "none",
    ) -> None:
        super().__init__(name)
        self._history, self._topic, self._partition = history, topic, partition
        self._sent = 0
        self._fatal = False
        options: dict[str, object] = {
            "acks": acks,
            "enable.idempotence": idempotent,
            "compression.type": codec,
            # Without idempotence, several requests under way may change places.
            "max.in.flight.requests.per.connection": 5 if idempotent or acks != ALL else 1,
            "linger.ms": 2,
            "message.timeout.ms": 3_600_000,
            "request.timeout.ms": 5_000,
            "socket.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": 5_000,
        }
        history.note(Began(name, partition, acks, idempotent))
        self._producer = Producer({"bootstrap.servers": bootstrap, **options, **RETURN})

    def work(self) -> None:
        try:
            self._write()
        except (KafkaException, SystemError) as fatal:
            # A fatal error is raised by whatever is called next, and by `flush` as one that has
            # got lost among other callbacks.
            self._history.note(Failed(self.name, self._sent, f"fatal: {fatal}"))
        self._producer.purge()

    def _write(self) -> None:
        chance = random.Random(self.name)
        while not self._is_over():
            for _ in range(chance.choice(_BURSTS)):
                self._send()
            # A load, not a race: what is slow meets the same as what is fast.
            until = time.monotonic() + chance.uniform(0.02, 0.4)
            while not self._is_over() and (time.monotonic() < until or len(self._producer) > 300):
                self._producer.poll(0.05)
        left = 0 if self._fatal else self._producer.flush(PATIENCE)
        if left:
            why = f"stuck: {left} records without an answer {PATIENCE:g} s after all was well"
            self._history.note(Failed(self.name, self._sent - left, why))

    def _is_over(self) -> bool:
        return self.stopping or self._fatal

    def _send(self) -> None:
        number = self._sent
        self._sent += 1
        self._history.note(Sent(self.name, number))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                told = offset if offset is not None and offset >= 0 else -1
                self._history.note(Acknowledged(self.name, number, told, 0))
            elif error.code() not in {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}:
                self._history.note(Failed(self.name, number, str(error)))
                self._fatal = True

        value = value_of(self.name, number)
        self._producer.produce(self._topic, value, partition=self._partition, on_delivery=delivered)


class HeadstrongWriter(Worker):
    """One batch at a time, to one of `addresses` (by broker), again until it is acknowledged."""

    def __init__(  # noqa: PLR0917  each is another part
        self,
        name: str,
        history: Notes,
        addresses: Mapping[int, str],
        topic: str,
        partition: int,
        acks: int,
    ) -> None:
        super().__init__(name)
        self._history, self._topic, self._partition = history, topic, partition
        self._addresses, self._acks = dict(addresses), acks
        self._connection: RawConnection | None = None
        history.note(Began(name, partition, acks, idempotent=False))

    def work(self) -> None:
        chance = random.Random(self.name)
        brokers = list(self._addresses)
        at = sent = 0
        while not self.stopping:
            numbers = range(sent, sent + chance.choice([1, 3, 8]))
            for number in numbers:
                self._history.note(Sent(self.name, number))
            batch = record_batch([value_of(self.name, number) for number in numbers])
            body = produce_body(self._topic, self._partition, batch, self._acks)
            while not self.stopping:
                broker = brokers[at % len(brokers)]
                offset = self._attempt(broker, body)
                if offset is not None:
                    for delta, number in enumerate(numbers):
                        self._history.note(Acknowledged(self.name, number, offset + delta, broker))
                    break
                self._hang_up()
                at += 1
                time.sleep(chance.uniform(0.05, 0.6))
            sent += len(numbers)
            time.sleep(chance.uniform(0.0, 0.2))
        self._hang_up()

    def _attempt(self, broker: int, body: bytes) -> int | None:
        """The offset of the first, or nothing: then nobody knows."""
        try:
            connection = self._connection or RawConnection(self._addresses[broker])
            self._connection = connection
            done = read_produced(connection.ask(PRODUCE, 7, body, within=_ANSWER_SECONDS))
        except (OSError, Closed):
            return None
        return done.base_offset if done.error == 0 else None

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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


def read_whole(bootstrap: str, topic: str, partition: int, *, within: float) -> dict[int, str]:
    """What a consumer that knows nothing of before reads, by offset."""
    found = messages(bootstrap, topic, partition, within=within)
    return {each.offset: content_of(each.value) for each in found}
