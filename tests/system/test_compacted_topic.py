"""A compacted topic, through librdkafka, while it is written to and across a SIGKILL; and one of
which next to nothing is left, through clients in other languages."""

import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.kafka.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.releases.reading import messages
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.other_languages.programs import (
    FRANZ_GO,
    KAFKA_GO,
    KAFKAJS,
    RSKAFKA,
    SARAMA,
    Client,
    ClientUnavailable,
)
from tests.system.topics import create

KEYS = 20
CODECS = ("none", "zstd")  # of the others: tests/broker/storage/cleaning/test_cleaner.py
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def write(bootstrap: str, topic: str, rounds: range, codec: str) -> dict[bytes, bytes]:
    """Every key once a round, every fifth is deleted in the end; what then is to be known."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 1,
        }
    )
    known = {}
    for number in rounds:
        for key in range(KEYS):
            deleted = key % 5 == 0 and number == rounds[-1]
            value = None if deleted else random.Random(f"{number} {key}").randbytes(150)
            producer.produce(topic, value, b"key-%d" % key)
            if value is not None:
                known[b"key-%d" % key] = value
            else:
                known.pop(b"key-%d" % key, None)
        assert producer.flush(20) == 0
    return known


def read(bootstrap: str, topic: str) -> tuple[int, dict[bytes, bytes]]:
    """How many records there are, and what one knows who has read them."""
    count, known = 0, dict[bytes, bytes]()
    for message in messages(bootstrap, topic, 0):
        count += 1
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        if value is None:
            known.pop(key, None)
        else:
            assert isinstance(value, bytes)
            known[key] = value
    return count, known


def test_the_last_value_of_each_key_is_what_readers_find(chroot: str, tmp_path: Path) -> None:
    """A topic for each codec, all at once."""
    settings = {"intervals": {"compaction": 0.2}}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings) as broker:
        check_last_values(broker)
    if kafka_classpath() is None:
        pytest.skip(f"what Kafka says of it was not asked: {why_no_kafka()}")
    logs = [log for codec in CODECS for log in sorted(broker.partition_dir(codec).glob("*.log"))]
    said = dump_log(logs, directory=tmp_path)
    assert "isvalid: false" not in said
    assert said.count("isvalid: true") >= len(logs)


def check_last_values(broker: BrokerProcess) -> None:
    known: dict[str, Mapping[bytes, bytes]] = {}
    for codec in CODECS:
        create(broker.bootstrap, codec, configs=CONFIGS)
        known[codec] = write(broker.bootstrap, codec, range(30), codec)

    def has_shrunk(codec: str) -> bool:
        count, found = read(broker.bootstrap, codec)
        assert found == known[codec]
        return count < 30 * KEYS / 2

    for codec in CODECS:
        what = f"{codec}: most superseded records are gone"
        wait_until(partial(has_shrunk, codec), within=60, what=what)
    broker.kill()
    broker.start()
    for codec in CODECS:
        assert read(broker.bootstrap, codec)[1] == known[codec]
        known[codec] = write(broker.bootstrap, codec, range(30, 45), codec)
        assert read(broker.bootstrap, codec)[1] == known[codec]
    assert "compaction failed" not in broker.log()


ROUNDS, PRODUCERS = 40, 4


@contextmanager
def sparse_topic(chroot: str, directory: Path) -> Iterator[tuple[str, list[str]]]:
    """A broker with the topic `sparse`, of which only the last value of each key and the last
    batch of each producer are left; and the values."""
    settings = {"intervals": {"compaction": 0.2}}
    with BrokerProcess(directory, zookeeper=chroot, settings=settings) as broker:
        create(broker.bootstrap, "sparse", configs={**CONFIGS, "cleanup.policy": "delete"})
        idempotent = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
        producers = [Producer({**idempotent, "batch.num.messages": 1}) for _ in range(PRODUCERS)]
        for number in range(ROUNDS):
            last = write_round(producers[number % PRODUCERS], number)
        LibrdkafkaAdmin().alter(broker.bootstrap, "sparse", {"cleanup.policy": "compact"})
        wait_until(
            lambda: read(broker.bootstrap, "sparse")[0] < 4 * KEYS,
            within=60,
            what="most superseded records are gone",
        )
        yield broker.bootstrap, last


def write_round(producer: Producer, number: int) -> list[str]:
    """Every key once, in batches of one record."""
    values = [f"{number}-{key}-{'v' * 700}" for key in range(KEYS)]
    for key, value in enumerate(values):
        producer.produce("sparse", value, b"key-%d" % key)
    assert producer.flush(20) == 0
    return values


PROGRAMS: Sequence[tuple[Client, str, Sequence[str]]] = (
    (FRANZ_GO, "read", ["sparse", "1"]),
    (KAFKA_GO, "read", ["sparse"]),
    (RSKAFKA, "read", ["sparse"]),
    (KAFKAJS, "member", ["group-of-kafkajs", "sparse", "30000"]),
    (SARAMA, "member", ["group-of-sarama", "sparse", "30000", "range", ""]),
)


@pytest.mark.long
def test_other_languages_read_what_is_left_to_the_end(chroot: str, tmp_path: Path) -> None:
    commands, missing = {}, []
    for client, task, arguments in PROGRAMS:
        try:
            commands[client.name] = client.program(task), arguments
        except ClientUnavailable as reason:
            missing.append(f"{client.name} cannot be had: {reason}")
    with sparse_topic(chroot, tmp_path / "broker") as (bootstrap, last), ExitStack() as running:
        for name, (command, arguments) in commands.items():
            words = [*command.words, bootstrap, *arguments]
            running.enter_context(started(words, command.environment, tmp_path / name))
        outputs = [tmp_path / name for name in commands]
        wait_until(
            lambda: all(f" {last[-1]}\n" in path.read_text() for path in outputs),
            what=f"{outputs} have the last record",
        )
    if missing:
        pytest.skip("; ".join(missing))


@contextmanager
def started(
    words: Sequence[str], environment: Mapping[str, str], output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that reads until it is killed. Its standard input stays open as long."""
    with (
        output.open("wb") as out,
        subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=out) as program,
    ):
        try:
            yield program
        finally:
            program.kill()
