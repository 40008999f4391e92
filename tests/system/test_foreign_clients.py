"""The clients of others, unmodified, write to the broker and read from it, byte for byte.

What one client wrote is read by all of them. The same tests run, in part, against Apache Kafka:
what fails there is the test's fault.
"""

import time
import zlib
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.broker.api.mirroring import MARK, mirror, source_batch
from tests.broker.api.running_broker import RawClient
from tests.system.clients import kcat
from tests.system.clients.aiokafka_client import Aiokafka
from tests.system.clients.contents import EPOCH, awkward, plain, without_timestamps
from tests.system.clients.interface import (
    CODEC_BITS,
    CODECS,
    Acks,
    AtEnd,
    AtOffset,
    AtTime,
    Client,
    Record,
    Refused,
    Start,
)
from tests.system.clients.kafka_python import KafkaPython
from tests.system.clients.kcat import Kcat
from tests.system.clients.librdkafka import Librdkafka
from tests.system.clients.stored import stored_batches
from tests.system.conftest import Server, against_both
from tests.system.topics import create
from wire.errors import ErrorCode
from wire.mirrored import MIRROR_OF
from wire.record_batches.records import Codec

LIBRARIES: list[Client] = [Librdkafka(), KafkaPython(), Aiokafka()]
each_library = pytest.mark.parametrize("client", LIBRARIES, ids=lambda client: client.name)
# Partition 0 is written to idempotently, with every codec; each of these has one for itself.
MANNERS: list[Acks] = ["0", "1", "all"]


@pytest.fixture(scope="session")
def readers() -> list[Client]:
    """All that can read; kcat only where it is installed."""
    return [*LIBRARIES, Kcat()] if kcat.installed() else LIBRARIES


@pytest.fixture
def kcat_client() -> Kcat:
    if not kcat.installed():
        pytest.skip("kcat is not installed")
    return Kcat()


def seed(topic: str) -> int:
    """Chosen by the topic's name, so by the run; a failure shows the name."""
    return zlib.crc32(topic.encode())


def written_in_every_way(
    server: Server, topic: str, client: Client, sent: Sequence[list[Record]]
) -> None:
    """Records for each codec, all to partition 0, and of the first of them to the other ones."""
    create(server.bootstrap, topic, partitions=1 + len(MANNERS))
    first = 0
    for records, codec in zip(sent, CODECS, strict=True):
        offsets = client.produce(
            server.bootstrap, topic, 0, records, codec=codec, acks="all", idempotent=True
        )
        assert offsets in (None, list(range(first, first + len(records))))
        first += len(records)
    for partition, acks in enumerate(MANNERS, 1):
        client.produce(server.bootstrap, topic, partition, sent[0], codec="gzip", acks=acks)


def assert_stored_as_written(server: Server, topic: str, count: int) -> None:
    """What lies on the disk is compressed as the client was told to: nobody has done it anew."""
    for partition in range(1 + len(MANNERS)):
        stored = list(stored_batches(server.data_dir / f"{topic}-{partition}"))
        assert {batch.producer_id >= 0 for batch in stored} == {partition == 0}
        codecs = [CODEC_BITS["gzip"]] if partition else CODEC_BITS.values()
        for number, codec in enumerate(codecs):
            found = {each.codec for each in stored if each.base_offset // count == number}
            # Some clients leave a batch as it is when compression would make it longer.
            assert codec in found
            assert found <= {codec, CODEC_BITS["none"]}


@each_library
def test_what_a_library_writes_all_libraries_read(
    server: Server, topic: str, client: Client
) -> None:
    sent = [
        awkward(seed(topic) + number, null_headers=client.null_headers)
        for number in range(len(CODECS))
    ]
    written_in_every_way(server, topic, client, sent)
    everything = [record for records in sent for record in records]
    for reader in LIBRARIES:
        seen = reader.consume(server.bootstrap, topic, 0, "beginning", len(everything))
        assert [each.offset for each in seen] == list(range(len(everything))), reader.name
        assert [each.record for each in seen] == everything, reader.name
    for partition, reader in enumerate(LIBRARIES, 1):
        seen = reader.consume(server.bootstrap, topic, partition, "beginning", len(sent[0]))
        assert [each.record for each in seen] == sent[0], reader.name
    assert_stored_as_written(server, topic, len(sent[0]))


def test_what_kcat_writes_all_read(
    server: Server, topic: str, kcat_client: Kcat, readers: list[Client]
) -> None:
    sent = [plain(seed(topic) + number, null_headers=True) for number in range(len(CODECS))]
    before = int(time.time() * 1000)
    written_in_every_way(server, topic, kcat_client, sent)
    after = int(time.time() * 1000)
    everything = [record for records in sent for record in records]
    for reader in readers:
        seen = reader.consume(server.bootstrap, topic, 0, "beginning", len(everything))
        assert [each.offset for each in seen] == list(range(len(everything))), reader.name
        assert without_timestamps(seen) == everything, reader.name
        assert all(before <= (each.record.timestamp or 0) <= after for each in seen)
    for partition, reader in enumerate(LIBRARIES, 1):
        seen = reader.consume(server.bootstrap, topic, partition, "beginning", len(sent[0]))
        assert without_timestamps(seen) == sent[0], reader.name
    assert_stored_as_written(server, topic, len(sent[0]))


@against_both
@each_library
def test_kcat_reads_what_a_library_writes(
    server: Server, topic: str, client: Client, kcat_client: Kcat
) -> None:
    sent = plain(seed(topic), null_headers=client.null_headers)
    create(server.bootstrap, topic)
    client.produce(server.bootstrap, topic, 0, sent, codec="zstd")
    seen = kcat_client.consume(server.bootstrap, topic, 0, "beginning", len(sent))
    assert without_timestamps(seen) == sent


@against_both
def test_reading_from_beginning_end_offset_and_timestamp(
    server: Server, topic: str, readers: list[Client]
) -> None:
    create(server.bootstrap, topic)
    sent = [Record(f"{number}".encode(), timestamp=EPOCH + 1000 * number) for number in range(30)]
    # Three batches, one of them compressed, so that a start lies within a batch.
    for first, codec in ((0, "none"), (10, "gzip"), (20, "none")):
        part = sent[first : first + 10]
        Librdkafka().produce(server.bootstrap, topic, 0, part, codec=codec)  # type: ignore[arg-type]
    starts: dict[Start, int] = {
        "beginning": 0,
        AtOffset(14): 14,
        AtTime(EPOCH - 1): 0,
        AtTime(EPOCH + 15_000): 15,
        AtTime(EPOCH + 28_001): 29,
    }
    for reader in readers:
        for start, first in starts.items():
            count = min(12, 30 - first)
            seen = reader.consume(server.bootstrap, topic, 0, start, count)
            expected = list(range(first, first + count))
            assert [each.offset for each in seen] == expected, (reader.name, start)
            assert [each.record for each in seen] == sent[first : first + count]
    end = 30
    for reader in readers:
        fresh = [Record(f"for {reader.name} {number}".encode()) for number in range(3)]

        def write(records: list[Record] = fresh) -> None:
            Librdkafka().produce(server.bootstrap, topic, 0, records)

        seen = reader.consume(server.bootstrap, topic, 0, AtEnd(write), 3)
        assert [each.offset for each in seen] == [end, end + 1, end + 2], reader.name
        assert [each.record.value for each in seen] == [each.value for each in fresh]
        end += 3


@against_both
@each_library
def test_a_large_record_passes_and_a_larger_one_is_refused(
    server: Server, topic: str, client: Client
) -> None:
    create(server.bootstrap, topic)
    large = Record(bytes(range(256)) * 4000)  # 1,024,000 bytes; a batch may have 1,048,588
    client.produce(server.bootstrap, topic, 0, [large])
    with pytest.raises(Refused, match=r"(?i)MESSAGE_?(SIZE_)?TOO_?LARGE|MSG_SIZE_TOO_LARGE"):
        client.produce(server.bootstrap, topic, 0, [Record(bytes(1_500_000))])
    client.produce(server.bootstrap, topic, 0, [Record(b"after")])
    seen = client.consume(server.bootstrap, topic, 0, "beginning", 2)
    assert [each.record.value for each in seen] == [large.value, b"after"]


@against_both
@each_library
def test_a_topic_comes_into_being_when_it_is_written_to(
    server: Server, topic: str, client: Client
) -> None:
    client.produce(server.bootstrap, topic, 0, [Record(b"first")])
    assert client.consume(server.bootstrap, topic, 0, "beginning", 1)[0].record.value == b"first"


def test_a_mirrors_copy_is_read_and_cannot_be_written_to(
    server: Server, topic: str, readers: list[Client]
) -> None:
    create(server.bootstrap, topic, configs={MIRROR_OF: MARK})
    sent = source_batch(912, content=b"one", codec=Codec.ZSTD) + source_batch(915, content=b"two")
    with RawClient(int(server.bootstrap.rpartition(":")[2])) as client:
        assert mirror(client, topic, sent).error_code is ErrorCode.none
    for reader in readers:
        seen = reader.consume(server.bootstrap, topic, 0, "beginning", 6)
        found = [(each.offset, each.record.value) for each in seen]
        assert found == [(912 + at, b"one" if at < 3 else b"two") for at in range(6)], reader.name
    failed: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        failed.append(error)

    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(topic, b"mine", partition=0, on_delivery=note)
    producer.flush(60)
    (error,) = failed
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION
