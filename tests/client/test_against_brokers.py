"""Topics, messages in, messages out: with Penstock's broker and with Apache Kafka."""

import select
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from msgspec.structs import force_setattr

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import ErrorCode, Refused, UnknownTopic
from client.producing.producer import Acks, Delivered, Identity, Producer, take_identity
from client.reading.consumer import Consumer, ConsumerRecord
from client.reading.fetcher import Fetcher
from client.reading.offsets import AtOffset, AtTime, Beginning, End, Start, start_offsets
from wire.record_batches.batch import check_batch
from wire.record_batches.records import Codec

IMPATIENT = 1.0  # seconds


def read(
    brokers: Brokers, topic: str, start: Start, partitions: list[int] | None = None
) -> list[ConsumerRecord]:
    with Consumer(brokers, topic, start, partitions, to_end=True) as consumer:
        return list(consumer)


def values(messages: list[ConsumerRecord]) -> list[bytes | None]:
    return [message.record.value for message in messages]


def test_a_topic_from_its_creation_to_its_end(brokers: Brokers, new_topic: str) -> None:
    created = admin.create_topic(
        brokers, new_topic, partitions=2, configs={"retention.ms": "5000000"}
    )
    assert [partition.index for partition in created.partitions] == [0, 1]
    assert new_topic in admin.all_topics(brokers).topics

    def own_configs() -> dict[str, str | None]:
        configs = admin.topic_configs(brokers, new_topic)
        return {config.name: config.value for config in configs if not config.is_default}

    assert own_configs() == {"retention.ms": "5000000"}
    changes = {"retention.ms": None, "max.message.bytes": "123456"}
    admin.alter_topic(brokers, new_topic, changes)
    deadline = time.monotonic() + 60
    while own_configs() != {"max.message.bytes": "123456"}:
        assert time.monotonic() < deadline, own_configs()
        time.sleep(0.05)

    assert len(admin.add_partitions(brokers, new_topic, 3).partitions) == 3
    admin.delete_topic(brokers, new_topic)
    while new_topic in admin.all_topics(brokers).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(UnknownTopic, match=f"no topic {new_topic}"):
        brokers.topic(new_topic)


def test_what_is_known_of_one_topic_stays_when_another_is_asked_about(
    brokers: Brokers, new_topic: str
) -> None:
    for name in (new_topic, f"{new_topic}-2"):
        admin.create_topic(brokers, name)
        brokers.topic(name)
    assert list(brokers.leaders(new_topic, [0]).values()) == [[0]]


def test_what_a_broker_refuses_is_said(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    with pytest.raises(Refused) as exists:
        admin.create_topic(brokers, new_topic)
    assert exists.value.code is ErrorCode.topic_already_exists
    with pytest.raises(Refused) as illegal:
        admin.create_topic(brokers, "../x")
    assert illegal.value.code is ErrorCode.invalid_topic_exception
    with pytest.raises(Refused) as unknown_config:
        admin.alter_topic(brokers, new_topic, {"no.such.config": "1"})
    assert unknown_config.value.code is ErrorCode.invalid_config
    with pytest.raises(Refused) as fewer:
        admin.add_partitions(brokers, new_topic, 1)
    assert fewer.value.code is ErrorCode.invalid_partitions
    with pytest.raises(Refused) as unknown:
        admin.delete_topic(brokers, f"{new_topic}-unknown")
    assert unknown.value.code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("acks", list(Acks))
def test_messages_come_out_as_they_went_in(
    brokers: Brokers, new_topic: str, codec: Codec, acks: Acks
) -> None:
    admin.create_topic(brokers, new_topic)
    # Only a leader answers this. With acks=0 nobody would say that it is not in office yet.
    start_offsets(brokers, new_topic, [0], End())
    producer = Producer(brokers, new_topic, acks=acks, codec=codec, batch_bytes=500)
    headers = [("a", b"1"), ("a", None), ("ü", b"\xff")]
    producer.send(b"first", b"key", timestamp=1_000, headers=headers)
    producer.send(None, b"tombstone", timestamp=2_000)
    for number in range(100):
        producer.send(b"%d" % number * 10, timestamp=3_000 + number)
    producer.flush()

    messages: list[ConsumerRecord] = []
    deadline = time.monotonic() + 60
    while len(messages) < 102 and time.monotonic() < deadline:
        messages = read(brokers, new_topic, Beginning())
    records = [message.record for message in messages]
    assert [record.offset for record in records] == list(range(102))
    assert records[0][1:] == (1_000, b"key", b"first", tuple(headers))
    assert records[1][1:] == (2_000, b"tombstone", None, ())
    assert [record.value for record in records[2:]] == [b"%d" % n * 10 for n in range(100)]
    assert [record.timestamp for record in records[2:]] == [3_000 + n for n in range(100)]


def test_where_reading_begins(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    producer = Producer(brokers, new_topic)
    for number in range(20):
        producer.send(b"%d" % number, timestamp=1_000_000 + number * 10)
    assert producer.flush() == [Delivered(0, 0, 20)]
    every = [b"%d" % number for number in range(20)]
    assert values(read(brokers, new_topic, Beginning())) == every
    assert values(read(brokers, new_topic, AtOffset(7))) == every[7:]
    assert values(read(brokers, new_topic, AtTime(1_000_155))) == every[16:]
    assert values(read(brokers, new_topic, AtTime(0))) == every
    assert values(read(brokers, new_topic, AtTime(2_000_000))) == []
    assert values(read(brokers, new_topic, End())) == []
    assert start_offsets(brokers, new_topic, [], AtTime(5)) == {}

    with Consumer(brokers, new_topic, End()) as consumer:
        assert list(consumer.poll(0.2)) == []
        producer.send(b"new")
        producer.flush()
        arrived: list[ConsumerRecord] = []
        deadline = time.monotonic() + 60
        while not arrived and time.monotonic() < deadline:
            arrived += consumer.poll(1)
        assert values(arrived) == [b"new"]


def test_an_offset_that_is_not_there_is_an_error(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    said = f"{new_topic}-0: offset 5 is not, or no longer, in the log"
    with (
        Consumer(brokers, new_topic, AtOffset(5)) as consumer,
        pytest.raises(Refused, match=said) as refused,
    ):
        list(consumer)
    assert refused.value.code is ErrorCode.offset_out_of_range


def test_what_does_not_exist(brokers: Brokers, new_topic: str) -> None:
    with pytest.raises(UnknownTopic):
        Consumer(brokers, new_topic, Beginning())
    admin.create_topic(brokers, new_topic)
    with pytest.raises(Refused, match=f"topic {new_topic}: no partition 1, only 0 to 0"):
        Consumer(brokers, new_topic, Beginning(), [1])


def test_all_partitions_or_some_of_them(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=4)
    producer = Producer(brokers, new_topic)
    for number in range(40):
        producer.send(b"%d" % number, partition=number % 4)
    producer.flush()
    everything = read(brokers, new_topic, Beginning())
    assert sorted(values(everything), key=lambda v: int(v or b"")) == [b"%d" % n for n in range(40)]
    assert values(read(brokers, new_topic, Beginning(), [2])) == [
        b"%d" % n for n in range(2, 40, 4)
    ]
    by_partition = {message.partition for message in read(brokers, new_topic, AtOffset(9), [0, 3])}
    assert by_partition == {0, 3}


def test_messages_without_a_key_go_to_one_partition_after_the_other(
    brokers: Brokers, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    producer = Producer(brokers, new_topic)
    chosen = []
    for _ in range(4):
        producer.send(b"a")
        producer.send(b"b")
        (delivered,) = producer.flush()
        assert delivered.messages == 2
        chosen.append(delivered.partition)
    assert chosen == [0, 1, 0, 1]


def test_a_message_that_is_too_large_is_refused(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, configs={"max.message.bytes": "1000"})
    producer = Producer(brokers, new_topic)
    producer.send(b"x" * 2000)
    with pytest.raises(Refused) as refused:
        producer.flush()
    assert refused.value.code is ErrorCode.message_too_large
    assert read(brokers, new_topic, Beginning()) == []


def test_a_producer_may_be_told_who_it_is_and_to_create_nothing(
    brokers: Brokers, new_topic: str
) -> None:
    with pytest.raises(UnknownTopic):
        Producer(brokers, new_topic, create=False)
    admin.create_topic(brokers, new_topic)
    identity = Identity(take_identity(brokers).producer_id, 7)
    producer = Producer(brokers, new_topic, create=False, identity=identity)
    producer.send(b"x")
    assert producer.flush() == [Delivered(0, 0, 1)]
    # A newer epoch begins anew and ends the older.
    newer = Producer(brokers, new_topic, identity=identity._replace(epoch=8))
    newer.send(b"y")
    assert newer.flush() == [Delivered(0, 1, 1)]
    producer.send(b"z")
    with pytest.raises(Refused) as refused:
        producer.flush()
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    assert values(read(brokers, new_topic, Beginning())) == [b"x", b"y"]


def test_raw_batches_are_those_that_were_written(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    producer = Producer(brokers, new_topic, codec=Codec.LZ4)
    for number in range(6):
        producer.send(b"%d" % number)
        if number % 2:
            producer.flush()
    fetcher = Fetcher(brokers, new_topic, {0: 0})
    batches = []
    deadline = time.monotonic() + 60
    while fetcher.positions[0] < 6 and time.monotonic() < deadline:
        batches += fetcher.poll(1)
    headers = [check_batch(batch.data) for batch in batches]
    assert [header.base_offset for header in headers] == [0, 2, 4]
    assert [header.base_sequence for header in headers] == [0, 2, 4]
    assert len({header.producer_id for header in headers}) == 1
    assert fetcher.ends == {0: 6}
    fetcher.close()


def test_an_answer_that_came_while_nobody_asked_is_not_late(
    brokers: Brokers, new_topic: str
) -> None:
    with waiting(brokers, new_topic) as (fetcher, connection):
        (under_way,) = fetcher._under_way.values()
        force_setattr(under_way.pending, "deadline", 0.0)  # as if it were much later by now
        producer = Producer(brokers, new_topic)
        producer.send(b"one")
        producer.flush()
        select.select([connection], [], [], 30)
        batches = fetcher.poll(0.0)  # it may be that there was nothing yet
        deadline = time.monotonic() + 30
        while not batches and time.monotonic() < deadline:
            batches = fetcher.poll(0.5)
        assert [batch.header.base_offset for batch in batches] == [0]


@contextmanager
def waiting(brokers: Brokers, topic: str) -> Iterator[tuple[Fetcher, BrokerConnection]]:
    """With a request under way."""
    admin.create_topic(brokers, topic)
    with (
        Brokers(brokers.bootstrap, patience_seconds=IMPATIENT) as others,
        closing(Fetcher(others, topic, {0: 0})) as fetcher,
    ):
        while not fetcher._under_way:
            fetcher.poll(0.0)
        (connection,) = fetcher._connections.values()
        yield fetcher, connection
