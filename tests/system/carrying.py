"""Foreign clients that write and read on, whatever happens to brokers, with the settings that they
come with: what an application is told of a fault is a failure of `finish`.

Each has a thread that writes numbers, one after the other over all partitions, and one that reads
them from the beginning.
"""

import asyncio
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import aiokafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.broker_cluster import BrokerCluster
from harness.jvm import Jvm
from harness.waiting import wait_until
from tests.system.crash import Worker

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls outdated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

PARTITIONS: Final = 3
_EVERY: Final = 0.02
_ANSWERS_WITHIN: Final = 180.0
_READ_WITHIN: Final = 120.0
_ENDS_WITHIN: Final = 30.0  # where it has failed
_NO_GROUP: Final = {"group.id": "none", "enable.auto.commit": False}


class Writer(Worker):
    """`sent`: how many by now; when it has finished, all of them are acknowledged."""

    def __init__(self, client: str, bootstrap: str, topic: str) -> None:
        super().__init__(f"{client} writes")
        self.bootstrap, self.topic = bootstrap, topic
        self.sent = 0

    def numbers(self) -> Iterable[int]:
        """The next one, in a moment, until it is told to stop."""
        while not self.stopping:
            yield self.sent
            self.sent += 1
            time.sleep(_EVERY)


class Reader(Worker):
    """`seen`: by partition, in the order in which it came."""

    def __init__(self, client: str, bootstrap: str, topic: str) -> None:
        super().__init__(f"{client} reads")
        self.bootstrap, self.topic = bootstrap, topic
        self.seen: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._wanted: int | None = None

    def finish_with(self, count: int) -> None:
        """Returns when it has read so many; raises what it was told instead."""
        self._wanted = count
        until = time.monotonic() + _READ_WITHIN
        while self.failure is None and not self.is_over and time.monotonic() < until:
            time.sleep(0.05)
        self.finish()

    @property
    def is_over(self) -> bool:
        return self.stopping or sum(map(len, self.seen)) == self._wanted

    def note(self, partition: int, value: bytes) -> None:
        self.seen[partition].append(int(value))


Clients = dict[str, tuple[Writer, Reader]]  # by topic


class LibrdkafkaWriter(Writer):
    def work(self) -> None:
        failed: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(str(error))

        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in self.numbers():
            value, partition = str(number).encode(), number % PARTITIONS
            producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(_ANSWERS_WITHIN) == 0
        assert not failed


class LibrdkafkaReader(Reader):
    def work(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **_NO_GROUP})
        with closing(consumer):
            consumer.assign([TopicPartition(self.topic, each, 0) for each in range(PARTITIONS)])
            while not self.is_over:
                for message in consumer.consume(500, 0.2):
                    if (error := message.error()) is not None:
                        raise KafkaException(error)
                    self.note(message.partition(), message.value())


class KafkaPythonWriter(Writer):
    def work(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","), acks="all", enable_idempotence=True
        )
        with closing(producer):
            sent = [
                producer.send(self.topic, str(number).encode(), partition=number % PARTITIONS)
                for number in self.numbers()
            ]
            for each in sent:
                each.get(_ANSWERS_WITHIN)


class KafkaPythonReader(Reader):
    def work(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","), group_id=None, auto_offset_reset="none"
        )
        with closing(consumer):
            where = [kafka.TopicPartition(self.topic, each) for each in range(PARTITIONS)]
            consumer.assign(where)
            for each in where:
                consumer.seek(each, 0)
            while not self.is_over:
                for found in consumer.poll(timeout_ms=200).values():
                    for message in found:
                        self.note(message.partition, message.value)


class AiokafkaWriter(Writer):
    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True
        )
        async with producer:
            sent = []
            while not self.stopping:
                value, partition = str(self.sent).encode(), self.sent % PARTITIONS
                sent.append(await producer.send(self.topic, value, partition=partition))
                self.sent += 1
                await asyncio.sleep(_EVERY)
            async with asyncio.timeout(_ANSWERS_WITHIN):
                for each in sent:
                    await each


class AiokafkaReader(Reader):
    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="none", enable_auto_commit=False
        )
        async with consumer:
            where = [aiokafka.TopicPartition(self.topic, each) for each in range(PARTITIONS)]
            consumer.assign(where)
            for each in where:
                consumer.seek(each, 0)
            while not self.is_over:
                for found in (await consumer.getmany(timeout_ms=200)).values():
                    for message in found:
                        self.note(message.partition, message.value)


_JAVA: Final = "org.apache.kafka"
_STRINGS: Final = f"{_JAVA}.common.serialization.String"


class JavaWriter(Writer):
    def __init__(self, java: Jvm, bootstrap: str, topic: str) -> None:
        super().__init__("java", bootstrap, topic)
        self._java = java

    def work(self) -> None:
        serializer = self._java.new(f"{_STRINGS}Serializer")
        options = {"bootstrap.servers": self.bootstrap}
        new = self._java.new
        producer = new(f"{_JAVA}.clients.producer.KafkaProducer", options, serializer, serializer)
        with closing(producer):
            sent = []
            for number in self.numbers():
                record = f"{_JAVA}.clients.producer.ProducerRecord"
                partition = number % PARTITIONS
                sent.append(producer.send(new(record, self.topic, partition, None, str(number))))
            producer.flush()
            for each in sent:
                each.get()


class JavaReader(Reader):
    def __init__(self, java: Jvm, bootstrap: str, topic: str) -> None:
        super().__init__("java", bootstrap, topic)
        self._java = java

    def work(self) -> None:
        new = self._java.new
        deserializer = new(f"{_STRINGS}Deserializer")
        options = {
            "bootstrap.servers": self.bootstrap,
            "auto.offset.reset": "none",
            "enable.auto.commit": "false",
        }
        name = f"{_JAVA}.clients.consumer.KafkaConsumer"
        consumer = new(name, options, deserializer, deserializer)
        with closing(consumer):
            where = [
                new(f"{_JAVA}.common.TopicPartition", self.topic, each)
                for each in range(PARTITIONS)
            ]
            consumer.assign(where)
            for each in where:
                consumer.seek(each, 0)
            moment = self._java.find("java.time.Duration").ofMillis(200)
            while not self.is_over:
                records = consumer.poll(moment).iterator()
                while records.hasNext():
                    record = records.next()
                    self.note(record.partition(), record.value().encode())


def pairs(bootstrap: str, java: Jvm) -> Clients:
    """By the names of their topics, one each."""
    of_java = JavaWriter(java, bootstrap, "java"), JavaReader(java, bootstrap, "java")
    return {**pairs_of_python(bootstrap), "java": of_java}


def pairs_of_python(bootstrap: str) -> Clients:
    """Those that need no JVM."""
    return {
        "librdkafka": (
            LibrdkafkaWriter("librdkafka", bootstrap, "librdkafka"),
            LibrdkafkaReader("librdkafka", bootstrap, "librdkafka"),
        ),
        "kafka-python": (
            KafkaPythonWriter("kafka-python", bootstrap, "kafka-python"),
            KafkaPythonReader("kafka-python", bootstrap, "kafka-python"),
        ),
        "aiokafka": (
            AiokafkaWriter("aiokafka", bootstrap, "aiokafka"),
            AiokafkaReader("aiokafka", bootstrap, "aiokafka"),
        ),
    }


@contextmanager
def at_work(clients: Clients) -> Iterator[None]:
    """They write and read meanwhile; in the end all that was written was read, once and in
    order."""
    workers = [worker for pair in clients.values() for worker in pair]
    for worker in workers:
        worker.start()
    try:
        yield
        for writer, _ in clients.values():
            writer.ask_to_stop()
        for writer, reader in clients.values():
            writer.finish()
            reader.finish_with(writer.sent)
    finally:
        for worker in workers:
            worker.ask_to_stop()
        for worker in workers:
            worker.end(within=_ENDS_WITHIN)
    for topic, (writer, reader) in clients.items():
        wanted = [list(range(each, writer.sent, PARTITIONS)) for each in range(PARTITIONS)]
        assert reader.seen == wanted, topic


def wait_until_whole(cluster: BrokerCluster, topics: Clients) -> None:
    wait_until(lambda: all(map(cluster.alive, cluster.ids)), within=60, what="all brokers run")
    for topic in topics:
        cluster.wait_in_sync(topic, PARTITIONS, within=120)


def wait_until_led_by_others(cluster: BrokerCluster, topics: Clients, broker: int) -> None:
    others = set(cluster.ids) - {broker}
    wait_until(
        lambda: all(
            cluster.leader(topic, each) in others for topic in topics for each in range(PARTITIONS)
        ),
        within=60,
        what=f"others lead than broker {broker}",
        every=0.2,
    )


def go_on(clients: Clients) -> None:
    """What is sent from now on is read by all."""
    wanted = {topic: writer.sent + PARTITIONS * 5 for topic, (writer, _) in clients.items()}

    def are_there() -> bool:
        for topic, (writer, reader) in clients.items():
            for worker in (writer, reader):
                if worker.failure is not None:
                    raise AssertionError(f"{worker.name}") from worker.failure
            if sum(map(len, reader.seen)) < wanted[topic]:
                return False
        return True

    wait_until(are_there, within=120, what="all clients write and read on")
