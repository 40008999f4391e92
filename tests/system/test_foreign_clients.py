"""The clients of others, unmodified, write to the broker and read from it, byte for byte.

What one client wrote is read by all of them. The same tests run, in part, against Apache Kafka:
what fails there is the test's fault.
"""

import time
import zlib

import pytest

from tests.system.clients import kcat
from tests.system.clients.aiokafka_client import Aiokafka
from tests.system.clients.contents import EPOCH, awkward, plain, without_timestamps
from tests.system.clients.interface import (
    CODEC_BITS,
    CODECS,
    Acks,
    AtOffset,
    AtTime,
    Client,
    Codec,
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

LIBRARIES: list[Client] = [Librdkafka(), KafkaPython(), Aiokafka()]
each_library = pytest.mark.parametrize("client", LIBRARIES, ids=lambda client: client.name)
each_codec = pytest.mark.parametrize("codec", CODECS)
# How a partition can be written to: acks, and whether idempotently.
MANNERS: list[tuple[Acks, bool]] = [("0", False), ("1", False), ("all", False), ("all", True)]


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


def some_manners(codec: Codec) -> list[tuple[int, Acks, bool]]:
    """Partitions, and how to write to each: idempotently in any case, and one other way in turn."""
    chosen = (CODECS.index(codec) % (len(MANNERS) - 1), len(MANNERS) - 1)
    return [(partition, *MANNERS[partition]) for partition in chosen]


def some_of(readers: list[Client], partition: int) -> list[Client]:
    """All of them where it matters most, else one after the other."""
    idempotent = MANNERS[partition][1]
    return readers if idempotent else [readers[partition % len(readers)]]


def assert_compressed(server: Server, topic: str, partition: int, codec: Codec) -> None:
    """What lies on the disk is compressed as the client was told to."""
    stored = {batch.codec for batch in stored_batches(server.data_dir / f"{topic}-{partition}")}
    # Some clients leave a batch as it is when compression would make it longer.
    assert CODEC_BITS[codec] in stored
    assert stored <= {CODEC_BITS[codec], CODEC_BITS["none"]}


@each_codec
@each_library
def test_what_a_library_writes_all_libraries_read(
    server: Server, topic: str, client: Client, codec: Codec
) -> None:
    create(server.bootstrap, topic, partitions=len(MANNERS))
    for partition, acks, idempotent in some_manners(codec):
        sent = awkward(seed(topic) + partition, null_headers=client.null_headers)
        offsets = client.produce(
            server.bootstrap,
            topic,
            partition,
            sent,
            codec=codec,
            acks=acks,
            idempotent=idempotent,
        )
        assert offsets in (None, list(range(len(sent))))
        for reader in some_of(LIBRARIES, partition):
            seen = reader.consume(server.bootstrap, topic, partition, "beginning", len(sent))
            assert [each.offset for each in seen] == list(range(len(sent))), reader.name
            assert [each.record for each in seen] == sent, reader.name
        # The batch is the unit: nobody has compressed it anew.
        assert_compressed(server, topic, partition, codec)
        idempotently = {
            batch.producer_id >= 0
            for batch in stored_batches(server.data_dir / f"{topic}-{partition}")
        }
        assert idempotently == {idempotent}


@each_codec
def test_what_kcat_writes_all_read(
    server: Server, topic: str, codec: Codec, kcat_client: Kcat, readers: list[Client]
) -> None:
    create(server.bootstrap, topic, partitions=len(MANNERS))
    for partition, acks, idempotent in some_manners(codec):
        sent = plain(seed(topic) + partition, null_headers=True)
        before = int(time.time() * 1000)
        kcat_client.produce(
            server.bootstrap,
            topic,
            partition,
            sent,
            codec=codec,
            acks=acks,
            idempotent=idempotent,
        )
        after = int(time.time() * 1000)
        for reader in some_of(readers, partition):
            seen = reader.consume(server.bootstrap, topic, partition, "beginning", len(sent))
            assert [each.offset for each in seen] == list(range(len(sent))), reader.name
            assert without_timestamps(seen) == sent, reader.name
            assert all(before <= (each.record.timestamp or 0) <= after for each in seen)
        assert_compressed(server, topic, partition, codec)


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
        AtOffset(0): 0,
        AtOffset(14): 14,
        AtOffset(29): 29,
        AtTime(EPOCH - 1): 0,
        AtTime(EPOCH + 15_000): 15,
        AtTime(EPOCH + 15_001): 16,
        AtTime(EPOCH + 29_000): 29,
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

        seen = reader.consume(server.bootstrap, topic, 0, "end", 3, positioned=write)
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
    sent = [Record(b"first")]
    client.produce(server.bootstrap, topic, 0, sent)
    assert client.consume(server.bootstrap, topic, 0, "beginning", 1)[0].record.value == b"first"
