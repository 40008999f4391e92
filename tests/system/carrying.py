"""Foreign clients that write and read on, whatever happens to brokers, with the settings that they
come with: what an application is told of a fault is a failure of `finish`.

Each has a topic of its own name, a thread that writes numbers, one after the other over all
partitions, and one that reads them from the beginning. The clients of Go and of Node.js do so in
programs (other_languages/), which say what they do line by line, and stop when their input ends.
"""

import asyncio
import select
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import IO, Final

import aiokafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.java.jvm import Jvm
from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from tests.system.crash import Worker
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, Client

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls outdated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

PARTITIONS: Final = 3
REPLICAS: Final = ([1, 2, 3], [2, 3, 1], [3, 1, 2])
SESSION_SECONDS: Final = 8  # so long that nobody loses one where much else runs
_EVERY: Final = 0.02
_ANSWERS_WITHIN: Final = 180.0
_READ_WITHIN: Final = 120.0
_ENDS_WITHIN: Final = 30.0  # where it has failed
_PROGRAM_ENDS_WITHIN: Final = 150.0
_NO_GROUP: Final = {"group.id": "none", "enable.auto.commit": False}
_JAVA: Final = "org.apache.kafka"


class Writer(Worker):
    """`sent` is the current number; at the end all of them are acknowledged."""

    def __init__(self, write: "Callable[[Writer], None]", bootstrap: str, topic: str) -> None:
        super().__init__(f"{topic} writes")
        self.bootstrap, self.topic = bootstrap, topic
        self.sent = 0
        self._write = write

    def work(self) -> None:
        self._write(self)

    def numbers(self) -> Iterable[int]:
        """Numbers, with pauses, until it is stopped."""
        while not self.stopping:
            yield self.sent
            self.sent += 1
            time.sleep(_EVERY)


class Reader(Worker):
    """`seen` has the values by partition, in the order of arrival."""

    def __init__(self, read: "Callable[[Reader], None]", bootstrap: str, topic: str) -> None:
        super().__init__(f"{topic} reads")
        self.bootstrap, self.topic = bootstrap, topic
        self.seen: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._wanted: int | None = None
        self._read = read

    def work(self) -> None:
        self._read(self)

    def finish_with(self, count: int) -> None:
        """Returns after reading `count` values; raises the reader's error."""
        self._wanted = count
        wait_until(
            lambda: self.failure is not None or self.is_over,
            within=_READ_WITHIN,
            what=f"{self.name}: {count}",
        )
        self.finish()

    @property
    def is_over(self) -> bool:
        return self.stopping or sum(map(len, self.seen)) == self._wanted

    def note(self, partition: int, value: bytes) -> None:
        self.seen[partition].append(int(value))


Clients = dict[str, tuple[Writer, Reader]]  # by topic


def librdkafka_writes(writer: Writer) -> None:
    failed: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer({"bootstrap.servers": writer.bootstrap, "enable.idempotence": True})
    for number in writer.numbers():
        value, partition = str(number).encode(), number % PARTITIONS
        producer.produce(writer.topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(_ANSWERS_WITHIN) == 0
    assert not failed


def librdkafka_reads(reader: Reader) -> None:
    with closing(Consumer({"bootstrap.servers": reader.bootstrap, **_NO_GROUP})) as consumer:
        consumer.assign([TopicPartition(reader.topic, each, 0) for each in range(PARTITIONS)])
        while not reader.is_over:
            for message in consumer.consume(500, 0.2):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                reader.note(message.partition(), message.value())


def kafka_python_writes(writer: Writer) -> None:
    brokers = writer.bootstrap.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True)
    with closing(producer):
        sent = [
            producer.send(writer.topic, str(number).encode(), partition=number % PARTITIONS)
            for number in writer.numbers()
        ]
        for each in sent:
            each.get(_ANSWERS_WITHIN)


def kafka_python_reads(reader: Reader) -> None:
    brokers = reader.bootstrap.split(",")
    options = {"group_id": None, "auto_offset_reset": "none"}
    with closing(kafka.KafkaConsumer(bootstrap_servers=brokers, **options)) as consumer:
        where = [kafka.TopicPartition(reader.topic, each) for each in range(PARTITIONS)]
        consumer.assign(where)
        for each in where:
            consumer.seek(each, 0)
        while not reader.is_over:
            for found in consumer.poll(timeout_ms=200).values():
                for message in found:
                    reader.note(message.partition, message.value)


async def aiokafka_writes(writer: Writer) -> None:
    brokers = writer.bootstrap
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=brokers, enable_idempotence=True) as out:
        sent = []
        while not writer.stopping:
            value, partition = str(writer.sent).encode(), writer.sent % PARTITIONS
            sent.append(await out.send(writer.topic, value, partition=partition))
            writer.sent += 1
            await asyncio.sleep(_EVERY)
        async with asyncio.timeout(_ANSWERS_WITHIN):
            for each in sent:
                await each


async def aiokafka_reads(reader: Reader) -> None:
    options = {"auto_offset_reset": "none", "enable_auto_commit": False}
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=reader.bootstrap, **options)
    async with consumer:
        where = [aiokafka.TopicPartition(reader.topic, each) for each in range(PARTITIONS)]
        consumer.assign(where)
        for each in where:
            consumer.seek(each, 0)
        while not reader.is_over:
            for found in (await consumer.getmany(timeout_ms=200)).values():
                for message in found:
                    reader.note(message.partition, message.value)


def java_writes(java: Jvm, writer: Writer) -> None:
    serializer = java.new(f"{_JAVA}.common.serialization.StringSerializer")
    options = {"bootstrap.servers": writer.bootstrap}
    name = f"{_JAVA}.clients.producer.KafkaProducer"
    with closing(java.new(name, options, serializer, serializer)) as producer:
        sent = []
        for number in writer.numbers():
            record = f"{_JAVA}.clients.producer.ProducerRecord"
            which = (writer.topic, number % PARTITIONS)
            sent.append(producer.send(java.new(record, *which, None, str(number))))
        producer.flush()
        for each in sent:
            each.get()


def java_reads(java: Jvm, reader: Reader) -> None:
    deserializer = java.new(f"{_JAVA}.common.serialization.StringDeserializer")
    options = {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    options["bootstrap.servers"] = reader.bootstrap
    name = f"{_JAVA}.clients.consumer.KafkaConsumer"
    with closing(java.new(name, options, deserializer, deserializer)) as consumer:
        which = f"{_JAVA}.common.TopicPartition"
        where = [java.new(which, reader.topic, each) for each in range(PARTITIONS)]
        consumer.assign(where)
        for each in where:
            consumer.seek(each, 0)
        moment = java.find("java.time.Duration").ofMillis(200)
        while not reader.is_over:
            records = consumer.poll(moment).iterator()
            while records.hasNext():
                record = records.next()
                reader.note(record.partition(), record.value().encode())


def program_writes(client: Client, writer: Writer) -> None:
    for line in _lines(client, "write", writer, lambda: writer.stopping):
        writer.sent = int(line) + 1


def program_reads(client: Client, reader: Reader) -> None:
    for line in _lines(client, "read", reader, lambda: reader.is_over):
        partition, value = line.split()
        reader.note(int(partition), value)


def _lines(
    client: Client, task: str, worker: Writer | Reader, is_over: Callable[[], bool]
) -> Iterator[bytes]:
    """What it says, until it has ended, which it is told to as soon as it is over."""
    command = client.program(task)
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [*command.words, worker.bootstrap, worker.topic, str(PARTITIONS)],
            env=command.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            bufsize=0,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield from _said(process.stdout, process.stdin, is_over)
            code = process.wait(_PROGRAM_ENDS_WITHIN)
        finally:
            process.kill()
        complaints.seek(0)
        assert code == 0, f"{client.name} {task}: {complaints.read().decode()}"


def _said(output: IO[bytes], until: IO[bytes], is_over: Callable[[], bool]) -> Iterator[bytes]:
    """Line by line, to the end. What it waits for is closed when it is over."""
    begun, patience = b"", 0.0
    while True:
        if not until.closed and is_over():
            until.close()
            patience = time.monotonic() + _PROGRAM_ENDS_WITHIN
        if select.select([output], [], [], 0.1)[0]:
            said = output.read(1 << 16)
            if not said:
                return
            *lines, begun = (begun + said).split(b"\n")
            yield from lines
        assert not until.closed or time.monotonic() < patience, "it does not end"


def pairs_of_python(bootstrap: str) -> Clients:
    """Clients that need neither a JVM nor a program."""
    return _pairs(
        bootstrap,
        {
            "librdkafka": (librdkafka_writes, librdkafka_reads),
            "kafka-python": (kafka_python_writes, kafka_python_reads),
            "aiokafka": (
                lambda writer: asyncio.run(aiokafka_writes(writer)),
                lambda reader: asyncio.run(aiokafka_reads(reader)),
            ),
        },
    )


def pairs_of_others(bootstrap: str, java: Jvm) -> Clients:
    """A consumer of kafkajs is always one of a group, which it leaves when a broker dies: franz-go
    reads what it writes. Raises ClientUnavailable."""
    programs = (FRANZ_GO, KAFKAJS)
    for client in programs:
        client.program("write")
    return _pairs(
        bootstrap,
        {
            "java": (partial(java_writes, java), partial(java_reads, java)),
            **{
                each.name: (partial(program_writes, each), partial(program_reads, FRANZ_GO))
                for each in programs
            },
        },
    )


def _pairs(
    bootstrap: str,
    by_name: dict[str, tuple[Callable[[Writer], None], Callable[[Reader], None]]],
) -> Clients:
    return {
        name: (Writer(write, bootstrap, name), Reader(read, bootstrap, name))
        for name, (write, read) in by_name.items()
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


def make_topics(cluster: BrokerCluster, topics: Clients) -> None:
    for topic in topics:
        cluster.create_topic(topic, replicas=REPLICAS, configs={})
    wait_until_whole(cluster, topics)


def wait_until_whole(cluster: BrokerCluster, topics: Clients) -> None:
    wait_until(lambda: all(map(cluster.alive, cluster.ids)), what="all brokers run")
    for topic in topics:
        cluster.wait_in_sync(topic, PARTITIONS, within=120)


def wait_until_led_by_others(cluster: BrokerCluster, topics: Clients, broker: int) -> None:
    others = set(cluster.ids) - {broker}
    partitions = [(topic, each) for topic in topics for each in range(PARTITIONS)]
    wait_until(
        lambda: all(cluster.leader(*each) in others for each in partitions),
        what=f"others lead than broker {broker}",
        every=0.2,
    )


def go_on(clients: Clients) -> None:
    """Wait until what is sent from now on has been read by all."""
    wanted = {topic: writer.sent + PARTITIONS * 5 for topic, (writer, _) in clients.items()}

    def are_there() -> bool:
        for worker in (worker for pair in clients.values() for worker in pair):
            if worker.failure is not None:
                raise AssertionError(f"{worker.name}") from worker.failure
        return all(
            sum(map(len, reader.seen)) >= wanted[topic] for topic, (_, reader) in clients.items()
        )

    wait_until(are_there, within=120, what="all clients write and read on")
