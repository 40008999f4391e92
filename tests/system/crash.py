"""Writers and a reader that survive the broker's crashes, and the checks of the log afterwards.

A value follows from its writer's name and its number, so a log can be compared byte for byte
without stored values. Writers record acknowledgements; the `Watcher` records everything that it
has read. After the broker was killed, `check_*` judge what a new client reads.
"""

import hashlib
import random
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.processes.waiting import wait_until
from tests.system.raw import (
    PRODUCE,
    Closed,
    RawConnection,
    produce_body,
    read_produced,
    record_batch,
)

PATIENCE = 240.0
"""How long a client may take to find its broker again, that is killed while it starts, too."""

QUICK_RETURN = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "log_level": 2,
}


Values = dict[int, bytes]
"""What a client reads from one partition, by offset."""


class Violated(AssertionError):
    """A promise of the log is broken."""


def value_of(writer: str, number: int) -> bytes:
    """The content of a writer's record: its name and number, and 0 to 2,000 further bytes."""
    digest = hashlib.shake_128(f"{writer}/{number}".encode())
    size = int.from_bytes(digest.digest(2), "big") % 2000
    return f"{writer} {number} ".encode() + digest.digest(size)


def number_of(value: bytes, writer: str) -> int | None:
    """The number of this writer's record; None if another wrote it; fails if it was changed."""
    name, number, _ = value.split(b" ", 2)
    if name.decode() != writer:
        return None
    if value != value_of(writer, int(number)):
        raise Violated(f"{writer}: record {int(number)} was changed")
    return int(number)


class Worker:
    """A thread that works until it is stopped, and whose error is not lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._stop_asked = threading.Event()
        # Held, not inherited: a thread has private methods whose names are soon taken by accident.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def work(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001  raised again in `finish`
            self.failure = failure

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stop_asked.set()

    @property
    def stopping(self) -> bool:
        return self._stop_asked.is_set()

    def end(self, *, within: float) -> None:
        """Stop and wait for `within` seconds; only `finish` raises its error."""
        self.ask_to_stop()
        self._thread.join(within)

    def finish(self) -> None:
        """Stop, wait, and raise its error."""
        self.ask_to_stop()
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure


def finish_all(workers: Sequence[Worker]) -> None:
    """Stop all; raises the first error after the last one has ended."""
    failures = []
    for worker in workers:
        worker.ask_to_stop()
    for worker in workers:
        try:
            worker.finish()
        except BaseException as failure:  # noqa: BLE001  raised below
            failures.append(failure)
    if failures:
        raise failures[0]


class IdempotentWriter(Worker):
    """librdkafka, idempotent, acks=all, on several partitions.

    When it has finished, all it sent is acknowledged.
    """

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        super().__init__(name)
        self.topic = topic
        self.sent = dict.fromkeys(partitions, 0)
        self.acknowledged = dict.fromkeys(partitions, 0)
        self._errors: list[str] = []
        options = {"enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 300_000}
        self._producer = Producer({"bootstrap.servers": bootstrap, **options, **QUICK_RETURN})

    def of(self, partition: int) -> str:
        return f"{self.name}/{partition}"

    def work(self) -> None:
        chance = random.Random(self.name)
        partitions = list(self.sent)
        while not self.stopping and not self._errors:
            # In bursts of very different sizes, at about a thousand a second.
            for _ in range(chance.choice([1, 5, 50, 200])):
                partition = chance.choice(partitions)
                value = value_of(self.of(partition), self.sent[partition])
                self._producer.produce(
                    self.topic, value, partition=partition, on_delivery=self._delivered
                )
                self.sent[partition] += 1
            self._producer.poll(0.06)
            while len(self._producer) > 1000 and not (self._errors or self.stopping):
                self._producer.poll(0.05)
        left = self._producer.flush(PATIENCE)
        if left or self._errors:
            raise Violated(f"{self.name}: {left} records without an answer; {self._errors[:3]}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(str(error))
        else:
            self.acknowledged[message.partition()] += 1


class PlainWriter(Worker):
    """One batch at a time, without idempotence, sent again until it is acknowledged."""

    def __init__(self, name: str, bootstrap: str, topic: str, partition: int, acks: int) -> None:
        super().__init__(name)
        self.topic, self.partition, self.acks = topic, partition, acks
        self.acknowledged = 0
        self._address = bootstrap
        self._connection: RawConnection | None = None

    def work(self) -> None:
        chance = random.Random(self.name)
        while not self.stopping:
            count = chance.choice([1, 3, 20])
            numbers = range(self.acknowledged, self.acknowledged + count)
            batch = record_batch([value_of(self.name, number) for number in numbers])
            body = produce_body(self.topic, self.partition, batch, self.acks)
            what = f"{self.name}: an acknowledgement"
            wait_until(partial(self._is_acknowledged, body), within=PATIENCE, what=what)
            self.acknowledged += count
            time.sleep(0.005)  # A load, not a race for the disk's size.
        self._hang_up()

    def _is_acknowledged(self, body: bytes) -> bool:
        try:
            self._connection = self._connection or RawConnection(self._address)
            return read_produced(self._connection.ask(PRODUCE, 7, body, within=10)).error == 0
        except (OSError, Closed):
            self._hang_up()
            return False

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Watcher(Worker):
    """A consumer that remembers everything it has read."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        super().__init__(name)
        self.shown: dict[int, dict[int, int]] = {partition: {} for partition in partitions}
        self._topic = topic
        # What was exposed is there: an offset out of range is an error, not a reason to jump.
        options = {"group.id": "none", "auto.offset.reset": "error", "enable.auto.commit": False}
        options |= {"fetch.wait.max.ms": 50}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **options, **QUICK_RETURN})

    def work(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in self.shown])
        try:
            while not self.stopping:
                for message in self._consumer.consume(500, 0.1):
                    self._note(message)
        finally:
            self._consumer.close()

    def _note(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise Violated(f"what was shown is gone: {error}")
            return
        seen = self.shown[message.partition()]
        if message.offset() in seen:
            raise Violated(f"offset {message.offset()} was shown twice")
        seen[message.offset()] = zlib.crc32(message.value())


def read_all(bootstrap: str, topic: str, partition: int) -> Values:
    """The whole partition, read by a new consumer."""
    options = {"group.id": "none", "auto.offset.reset": "error", "enable.partition.eof": True}
    options |= {"enable.auto.commit": False, "log_level": 2}
    values: Values = {}

    def is_at_the_end() -> bool:
        for message in consumer.consume(1000, 0.5):
            error = message.error()
            if error is None:
                values[message.offset()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return True
            else:
                raise KafkaException(error)
        return False

    with closing(Consumer({"bootstrap.servers": bootstrap, **options})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        wait_until(is_at_the_end, within=PATIENCE, what=f"{topic}-{partition} is read to its end")
    return values


def check_dense(values: Values) -> None:
    """Offsets are 0, 1, 2 … without a gap."""
    offsets = sorted(values)
    if offsets != list(range(len(offsets))):
        hole = next(at for at, offset in enumerate(offsets) if at != offset)
        raise Violated(f"no record at offset {hole}, the next is at {offsets[hole]}")


def check_exactly_once(values: Values, writer: str, sent: int) -> None:
    """Each of the writer's records occurs once, in order, unchanged."""
    numbers = list(_numbers(values, writer))
    if numbers != list(range(sent)):
        raise Violated(f"{writer}: {_first_difference(numbers, sent)}")


def check_at_least_once(values: Values, writer: str, acknowledged: int) -> None:
    """Each record occurs at least once, with first occurrences in order."""
    first: dict[int, None] = dict.fromkeys(_numbers(values, writer))
    numbers = list(first)[:acknowledged]
    if numbers != list(range(acknowledged)):
        raise Violated(f"{writer}: {_first_difference(numbers, acknowledged)}")


def check_still_there(values: Values, shown: dict[int, int]) -> None:
    """Everything that was ever read is still at its offset, unchanged."""
    for offset, crc in shown.items():
        value = values.get(offset)
        if value is None:
            raise Violated(f"offset {offset} was shown and is gone")
        if zlib.crc32(value) != crc:
            raise Violated(f"offset {offset} was shown with another value")


def _numbers(values: Values, writer: str) -> Iterable[int]:
    for offset in sorted(values):
        number = number_of(values[offset], writer)
        if number is not None:
            yield number


def _first_difference(numbers: Sequence[int], count: int) -> str:
    for at, number in enumerate(numbers[:count]):
        if at != number:
            return f"record {number} where {at} belongs, of {count} (read {len(numbers)})"
    return f"{len(numbers)} records of {count}"
