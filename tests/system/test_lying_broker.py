"""What a compromised broker shows and stores passes for a broker's: its clients check CRCs."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from crc32c import crc32c

from client.admin.topics import create_topic
from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from client.reading.offsets import offsets_at
from client.reading.partition_reader import PartitionReader
from harness.penstock.broker import BrokerProcess
from tests.campaigns.attackers.lies import BrokerLies, Lie
from tests.system.altered_batches import (
    emptied,
    rebuilt,
    reordered,
    with_altered_byte,
    with_crc_of,
    with_values,
)
from tests.system.lying_broker import LyingBroker
from wire.messages.list_offsets import LATEST
from wire.record_batches.batch import CRC_START, check_batch, read_header
from wire.record_batches.records import Codec, Record, build_batch, records

VALUES = [b"line %d" % number for number in range(5)]
ALTERATIONS = {
    "altered": (with_altered_byte, [*VALUES[:-1], b"line t"]),
    "reordered": (reordered, VALUES[::-1]),
    "dropped": (emptied, []),
    "other values": (lambda batch: with_values(batch, [b"x"] * 5), [b"x"] * 5),
}


def batch_of(values: list[bytes], codec: Codec = Codec.ZSTD) -> bytes:
    content = [Record(100 + at, 7 + at, None, value) for at, value in enumerate(values)]
    numbers = {"producer_id": 17, "producer_epoch": 2, "base_sequence": 40}
    return build_batch(content, codec=codec, base_offset=100, leader_epoch=3, **numbers)


def values_of(batch: bytes) -> list[bytes | None]:
    return [record.value for record in records(batch)]


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_batch_keeps_its_place_and_its_producers_numbers(name: str) -> None:
    alter, values = ALTERATIONS[name]
    batch = batch_of(VALUES)
    altered = alter(batch)
    before, after = read_header(batch), read_header(altered)
    assert values_of(altered) == values
    assert after.crc == crc32c(altered[CRC_START:])
    for field in ("base_offset", "last_offset_delta", "leader_epoch", "producer_id"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.producer_epoch, after.base_sequence) == (2, 40)
    assert after.crc != before.crc


@pytest.mark.parametrize("seed", range(20))
def test_any_batch_can_have_any_crc(seed: int) -> None:
    chance = random.Random(seed)
    batch = batch_of([chance.randbytes(chance.randint(1, 300)) for _ in range(1 + seed)])
    altered = with_crc_of(with_altered_byte(batch), batch)
    assert check_batch(memoryview(altered)).crc == read_header(batch).crc
    assert values_of(altered) == values_of(with_altered_byte(batch)) != values_of(batch)


@contextmanager
def lied_to(broker: BrokerProcess, topic: str, lies: BrokerLies) -> Iterator[LyingBroker]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        create_topic(brokers, topic, partitions=1)
    with LyingBroker(Address("127.0.0.1", broker.port), lies, ["agent", "loader"]) as proxy:
        yield proxy


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Sends one idempotent batch."""
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        producer = Producer(brokers, topic, codec=Codec.ZSTD)
        for value in values:
            producer.send(value, partition=0, timestamp=7)
        producer.flush()


def read(bootstrap: str, topic: str) -> list[bytes]:
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        brokers.refresh([topic])
        end = offsets_at(brokers, topic, [0], LATEST)[0]
        return [bytes(batch.data) for batch in PartitionReader(brokers, topic, 0, 0, end)]


@pytest.mark.parametrize("name", ["altered", "reordered", "other values"])
def test_one_client_is_shown_another_batch(
    running_broker: BrokerProcess, new_topic: str, name: str
) -> None:
    alter, values = ALTERATIONS[name]
    lies = BrokerLies()
    with lied_to(running_broker, new_topic, lies) as proxy:
        produce(proxy.bootstrap("agent"), new_topic, VALUES)
        (stored,) = read(running_broker.bootstrap, new_topic)
        lie = lies.show("loader", new_topic, stored, with_crc_of(alter(stored), stored))
        assert not lie.is_told
        (shown,) = read(proxy.bootstrap("loader"), new_topic)
        assert lie.is_told
        assert values_of(shown) == values
        assert read(proxy.bootstrap("agent"), new_topic) == [stored]
        assert values_of(stored) == VALUES


def test_a_batch_is_stored_altered_and_acknowledged(
    running_broker: BrokerProcess, new_topic: str
) -> None:
    lies, lie = BrokerLies(), Lie(with_altered_byte)
    with lied_to(running_broker, new_topic, lies) as proxy:
        lies.store_next(new_topic, lie)
        produce(proxy.bootstrap("agent"), new_topic, VALUES)
        (stored,) = read(running_broker.bootstrap, new_topic)
    assert values_of(stored) == ALTERATIONS["altered"][1]
    assert (values_of(lie.batch), lie.offsets, lie.is_told) == (VALUES, range(5), True)


def test_a_batch_is_acknowledged_and_not_stored(
    running_broker: BrokerProcess, new_topic: str
) -> None:
    lies, lie = BrokerLies(), Lie(lambda batch: None)
    with lied_to(running_broker, new_topic, lies) as proxy:
        lies.store_next(new_topic, lie)
        produce(proxy.bootstrap("agent"), new_topic, VALUES)
        assert read(running_broker.bootstrap, new_topic) == []
        produce(proxy.bootstrap("agent"), new_topic, [b"later"])
        (stored,) = read(running_broker.bootstrap, new_topic)
    assert (values_of(stored), lie.offsets, lie.is_told) == ([b"later"], range(5), True)


def test_a_batch_without_an_alteration_is_the_same_again() -> None:
    batch = batch_of(VALUES, Codec.NONE)
    assert rebuilt(batch, records(batch)) == batch
