"""Batches with the right CRC and something wrong behind it are refused, or else read by everybody;
and where they stand in a log all the same, that is said.

HYPOTHESIS_PROFILE=fuzz changes more bytes of more batches.
"""

import contextlib
import os
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Corrupt
from client.reading import offsets
from client.reading.consumer import Consumer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import kafka_classpath, run_tool, why_no_kafka
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.penstock.running import At
from tests.system.bystander import Bystander
from tests.system.clients.aiokafka_client import Aiokafka
from tests.system.clients.interface import AtOffset, Client
from tests.system.clients.kafka_python import KafkaPython
from tests.system.clients.librdkafka import Librdkafka
from tests.system.clients.stored import segments
from tests.system.produce import must_produce
from tests.system.raw import PRODUCE, RawConnection, int32, produce_body, read_produced, request
from tests.system.topics import create
from tests.wire.poisoned_batches import (
    GZIP,
    LZ4,
    PACK,
    ZSTD,
    Suspect,
    batch,
    record,
    sized,
    sound_records,
    suspects,
)
from wire.record_batches.record_check import NATIVE

NONE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNSUPPORTED_CODEC, INVALID_RECORD = 0, 2, 10, 76, 87
REFUSALS = {MESSAGE_TOO_LARGE, UNSUPPORTED_CODEC, INVALID_RECORD}
IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
SEEDS = 20 if IS_LONG else 1
FLIPS = 100 if IS_LONG else 6
MIB = 1024 * 1024
READERS: list[Client] = [Librdkafka(), KafkaPython(), Aiokafka()]


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("poisoned")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/poisoned") as broker:
        create(broker.bootstrap, "suspects")
        create(broker.bootstrap, "others")
        create(broker.bootstrap, "bystander")
        yield broker


def answers_to(broker: BrokerProcess, topic: str, batches: list[bytes]) -> Iterator[int]:
    """The error code that each gets, one after the other."""
    with RawConnection(broker.bootstrap) as connection:
        for each in batches:
            answer = connection.ask(PRODUCE, 7, produce_body(topic, 0, each, 1), 60)
            yield read_produced(answer).error


@pytest.fixture(scope="module")
def taken(broker: BrokerProcess) -> list[Suspect]:
    """All that the broker took, of all suspects, in the order of their offsets."""
    seeds = [random.SystemRandom().getrandbits(32) for _ in range(SEEDS)]
    print(f"seeds {seeds}, {FLIPS} changed bytes of each codec")
    found: list[Suspect] = []
    for seed in seeds:
        each = list(suspects(seed, FLIPS))
        codes = answers_to(broker, "suspects", [suspect.batch for suspect in each])
        for suspect, code in zip(each, codes, strict=True):
            assert code == NONE or not suspect.is_sound, suspect.name
            assert code in {NONE, *REFUSALS}, (suspect.name, code)
            if code == NONE:
                found.append(suspect)
    return found


def offsets_of(taken: list[Suspect]) -> list[int]:
    counts = [struct.unpack_from(">i", suspect.batch, 57)[0] for suspect in taken]
    return list(range(sum(counts)))


@pytest.mark.fuzz
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_what_was_taken_is_read_by(
    reader: Client, broker: BrokerProcess, taken: list[Suspect]
) -> None:
    offsets = offsets_of(taken)
    assert len(taken) > 50
    read = reader.consume(broker.bootstrap, "suspects", 0, AtOffset(0), len(offsets))
    assert [each.offset for each in read] == offsets


@pytest.mark.fuzz
def test_what_was_taken_is_read_by_java(
    broker: BrokerProcess, taken: list[Suspect], tmp_path: Path
) -> None:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    count = len(offsets_of(taken))
    where = ["--topic", "suspects", "--partition", "0", "--offset", "earliest"]
    limits = ["--max-messages", str(count), "--timeout-ms", "30000"]
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    options = ["--bootstrap-server", broker.bootstrap, *where, *limits]
    run = run_tool(tool, *options, directory=tmp_path, within=120)
    assert f"Processed a total of {count} messages" in (run.stdout + run.stderr).decode(
        errors="replace"
    )


def test_who_sent_it_is_told_and_so_is_the_log(broker: BrokerProcess, topic: str) -> None:
    create(broker.bootstrap, topic)
    body = produce_body(topic, 0, batch(b"garbage, not records"), 1)
    with RawConnection(broker.bootstrap) as connection:
        answer = connection.ask(PRODUCE, 8, body)
    assert read_produced(answer).error == INVALID_RECORD
    assert b"malformed records: " in answer
    (line,) = [line for line in broker.log().splitlines() if f"topic={topic} " in line]
    assert "batch refused client=127.0.0.1" in line
    assert "partition=0 error=INVALID_RECORD" in line
    assert "malformed records: " in line
    _, metrics = broker.http("/metrics")
    assert re.search(r'rejected_batches_total\{error="INVALID_RECORD"\} [1-9]', metrics)


def test_a_broker_says_that_it_is_slower_than_it_could_be(broker: BrokerProcess) -> None:
    assert ("checking records without wire/_records.c" in broker.log()) is not NATIVE


def test_who_wants_no_answer_is_hung_up_on(broker: BrokerProcess) -> None:
    for body in (sound_records()[:-1], large_records()[:-1]):
        packed = batch(PACK[ZSTD](body), ZSTD, count=5 if len(body) < MIB else LARGE)
        with RawConnection(broker.bootstrap) as connection:
            connection.send(request(PRODUCE, 7, produce_body("others", 0, packed, 0)))
            connection.wait_closed()


LARGE = 40_000


def large_records() -> bytes:
    return b"".join(record(offset, rest=sized(b"0123456789" * 3)) for offset in range(LARGE))


@pytest.mark.parametrize(
    ("configs", "acks"), [({}, -1), ({"message.timestamp.type": "LogAppendTime"}, 1)]
)
def test_large_batches_keep_their_place_in_the_order(
    broker: BrokerProcess, topic: str, configs: dict[str, str], acks: int
) -> None:
    """They are looked through beside other things, and what was sent behind them waits."""
    create(broker.bootstrap, topic, configs=configs)
    small, large = batch(sound_records()), batch(PACK[ZSTD](large_records()), ZSTD, count=LARGE)
    broken = batch(PACK[ZSTD](large_records()[:-1]), ZSTD, count=LARGE)
    with RawConnection(broker.bootstrap) as connection:
        sent = [small, large, small, broken, small, large]
        for each in sent:
            connection.send(request(PRODUCE, 7, produce_body(topic, 0, each, acks)))
        answers = [read_produced(connection.answer(60)) for _ in sent]
    errors = [answer.error for answer in answers]
    assert errors == [NONE, NONE, NONE, INVALID_RECORD, NONE, NONE]
    bases = [answer.base_offset for answer in answers if answer.error == NONE]
    assert bases == [0, 5, 5 + LARGE, 10 + LARGE, 15 + LARGE]
    read = Librdkafka().consume(broker.bootstrap, topic, 0, AtOffset(0), 15 + 2 * LARGE)
    assert read[-1].offset == 14 + 2 * LARGE


def test_a_large_batch_among_others_in_one_request(broker: BrokerProcess, topic: str) -> None:
    create(broker.bootstrap, topic, partitions=3)
    batches = [batch(sound_records()), batch(PACK[ZSTD](large_records()), ZSTD, count=LARGE)]
    batches.append(batch(b"garbage"))
    name = struct.pack(">h", len(topic)) + topic.encode()
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + name + int32(3)
    body += b"".join(int32(index) + int32(len(each)) + each for index, each in enumerate(batches))
    with RawConnection(broker.bootstrap) as connection:
        answer = connection.ask(PRODUCE, 7, body, 60)
    at = 4 + len(name) + 4
    codes = [struct.unpack_from(">ih", answer, at + 30 * each) for each in range(3)]
    assert codes == [(0, NONE), (1, NONE), (2, INVALID_RECORD)]


def test_keys_are_asked_for_in_large_batches_too(broker: BrokerProcess, topic: str) -> None:
    create(broker.bootstrap, topic, configs={"cleanup.policy": "compact"})
    keyed = b"".join(record(offset, key=sized(b"k")) for offset in range(LARGE))
    batches = [
        batch(sound_records()),
        batch(PACK[ZSTD](large_records()), ZSTD, count=LARGE),
        batch(PACK[ZSTD](keyed), ZSTD, count=LARGE),
    ]
    assert list(answers_to(broker, topic, batches)) == [INVALID_RECORD, INVALID_RECORD, NONE]


def test_bombs_cost_little_memory_and_stop_nobody(broker: BrokerProcess) -> None:
    value, tiny = bytes(62 * MIB), b"".join(map(record_of_nothing, range(200_000)))
    headers = b"\x80\x80\x80\x08" + bytes(2 * 8 * MIB)
    bodies = (
        (record(0, rest=sized(value)), 1),
        (record(0, rest=sized(value + bytes(4 * MIB))), 1),
        (record(0, headers=headers), 1),
        (tiny, 200_000),
    )
    kinds = [(GZIP, *bodies[0]), *((codec, *each) for codec in (LZ4, ZSTD) for each in bodies)]
    bombs = [batch(PACK[codec](body), codec, count=count) for codec, body, count in kinds]
    bombs = [each for each in bombs if len(each) <= 1_000_000]
    assert len(bombs) > 6
    before = peak(broker)
    bystander = Bystander(broker.bootstrap, "bystander")
    with contextlib.ExitStack() as stack:
        stack.callback(bystander.finish)
        opened = [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(4)]
        for connection in opened:
            for bomb in bombs:
                connection.send(request(PRODUCE, 7, produce_body("others", 0, bomb, 1)))
        for connection in opened:
            for _ in bombs:
                answer = connection.answer(120)
                assert read_produced(answer).error in {NONE, INVALID_RECORD}
    assert peak(broker) - before < 110 * MIB, (before, peak(broker))


def record_of_nothing(offset: int) -> bytes:
    return record(offset, rest=sized(None))


def peak(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


# A log from before the broker looked at records, or from Kafka: whoever reads it says what is wrong
# and where, and does not wait for ever


CRC_AT, CRC_START, HEADER_SIZE = 17, 21, 61


def poison(broker: BrokerProcess, topic: str, position: int = 0) -> None:
    """What lies at this position of the log keeps its header, has garbage, and a CRC for it."""
    (file,) = segments(broker.partition_dir(topic))
    data = bytearray(file.read_bytes())
    end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    garbage = b"garbage, not records " * 100
    data[position + HEADER_SIZE : end] = garbage[: end - position - HEADER_SIZE]
    crc = crc32c(bytes(data[position + CRC_START : end]))
    data[position + CRC_AT : position + CRC_START] = crc.to_bytes(4, "big")
    file.write_bytes(data)


def test_readers_say_where_it_is_and_read_on_behind_it(broker: BrokerProcess, topic: str) -> None:
    create(broker.bootstrap, topic)
    must_produce(broker.bootstrap, topic, [b"one", b"two"])
    must_produce(broker.bootstrap, topic, [b"three"])
    broker.stop()
    poison(broker, topic)
    broker.start()

    run = At(broker.bootstrap).run("consume", topic, "--from", "beginning")
    assert run.returncode
    assert f"{topic}-0, offset 0: malformed records: " in run.stderr

    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        with (
            Consumer(brokers, topic, offsets.AtOffset(0), to_end=True) as consumer,
            pytest.raises(Corrupt, match="offset 0: malformed records"),
        ):
            list(consumer)
        with Consumer(brokers, topic, offsets.AtOffset(2), to_end=True) as consumer:
            assert [message.record.value for message in consumer] == [b"three"]


def test_a_registry_leaves_it_out_and_says_so(broker: BrokerProcess, tmp_path: Path) -> None:
    create(broker.bootstrap, "_schemas", configs={"cleanup.policy": "compact"})
    with RegistryProcess(tmp_path / "registry", brokers=broker.bootstrap) as registry:
        assert registry.register("one", "string").status == 200
        assert registry.register("two", "long").status == 200
    broker.stop()
    poison(broker, "_schemas")
    broker.start()
    with RegistryProcess(tmp_path / "another", brokers=broker.bootstrap) as registry:
        assert "two" in registry.ask("GET", "/subjects").body
        named = "batch skipped offset=0"
        wait_until(lambda: named in registry.log(), what="the batch is named in the log")
