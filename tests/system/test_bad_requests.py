"""Requests that are well-formed and wrong: each gets Kafka's proper error, and changes nothing."""

import struct
import zlib
from pathlib import Path

import crc32c
import pytest

from harness.processes.waiting import wait_until
from tests.system.conftest import Server, against_both
from tests.system.raw import (
    CREATE_TOPICS,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    Fetched,
    RawConnection,
    fetch_body,
    int16,
    int32,
    int64,
    metadata_body,
    produce_body,
    read_fetched,
    read_produced,
    record_batch,
    string,
)
from tests.system.topics import create

OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE = 1, 2, 3, 10
NOT_LEADER = 6
COORDINATOR_LOADS, INVALID_TOPIC, INVALID_REQUIRED_ACKS, UNSUPPORTED_FORMAT = 14, 17, 21, 43
OUT_OF_ORDER_SEQUENCE, INVALID_RECORD = 45, 87


def produced(
    server: Server, topic: str, partition: int, records: bytes | None, acks: int = -1
) -> int:
    """The error code that these records get."""
    with RawConnection(server.bootstrap) as connection:
        body = produce_body(topic, partition, records, acks)
        return read_produced(connection.ask(PRODUCE, 7, body)).error


def end_of(server: Server, topic: str) -> int:
    """A topic that was just made may be listed before its leader knows that it leads."""
    with RawConnection(server.bootstrap) as connection:

        def fetched() -> Fetched | None:
            body = fetch_body(topic, 0, 0, max_bytes=1000, wait_ms=0)
            answer = read_fetched(connection.ask(FETCH, 4, body))
            return None if answer.error in {UNKNOWN_TOPIC, NOT_LEADER} else answer

        answer = wait_until(fetched, what=f"{topic} is led")
    assert answer is not None
    assert answer.error == 0
    return answer.high_watermark


def message_of_old(magic: int) -> bytes:
    """A message set of one message, as before Kafka 0.11."""
    rest = bytes([magic, 0]) + (int64(1) if magic == 1 else b"") + int32(-1) + int32(1) + b"v"
    message = struct.pack(">I", zlib.crc32(rest)) + rest
    return int64(0) + int32(len(message)) + message


def changed(batch: bytes, position: int, replacement: bytes) -> bytes:
    """The batch with other bytes at a position that its CRC does not cover."""
    return batch[:position] + replacement + batch[position + len(replacement) :]


GOOD = record_batch([b"a", b"b"], timestamp=1_700_000_000_000)


def test_a_batch_that_claims_to_be_huge(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    huge = changed(GOOD, 8, int32(2**31 - 1))
    assert produced(server, topic, 0, huge) in {CORRUPT_MESSAGE, INVALID_RECORD}
    assert end_of(server, topic) == 0


@against_both
@pytest.mark.parametrize(
    ("what", "records", "errors"),
    [
        ("wrong crc", record_batch([b"x"], wrong_crc=True), {CORRUPT_MESSAGE}),
        ("a flipped bit", GOOD[:-1] + bytes([GOOD[-1] ^ 1]), {CORRUPT_MESSAGE}),
        ("cut off", GOOD[:-3], {CORRUPT_MESSAGE, INVALID_RECORD}),
        ("header only", GOOD[:61], {CORRUPT_MESSAGE, INVALID_RECORD}),
        ("less than a header", GOOD[:30], {CORRUPT_MESSAGE, INVALID_RECORD}),
        ("too short a length", changed(GOOD, 8, int32(10)), {CORRUPT_MESSAGE, INVALID_RECORD}),
        ("a negative length", changed(GOOD, 8, int32(-5)), {CORRUPT_MESSAGE, INVALID_RECORD}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_batch_that_is_damaged(
    server: Server, topic: str, what: str, records: bytes, errors: set[int]
) -> None:
    create(server.bootstrap, topic)
    assert produced(server, topic, 0, records) in errors, what
    assert end_of(server, topic) == 0
    assert produced(server, topic, 0, GOOD) == 0
    assert end_of(server, topic) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_refused_by_its_name(server: Server, topic: str, magic: int) -> None:
    create(server.bootstrap, topic)
    assert produced(server, topic, 0, message_of_old(magic)) == UNSUPPORTED_FORMAT
    assert end_of(server, topic) == 0


def test_a_batch_whose_count_contradicts_its_offsets(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    inner = bytearray(record_batch([b"a", b"b"]))
    inner[57:61] = int32(7)
    inner[17:21] = struct.pack(">I", crc32c.crc32c(bytes(inner[21:])))
    assert produced(server, topic, 0, bytes(inner)) in {INVALID_RECORD, CORRUPT_MESSAGE}
    assert end_of(server, topic) == 0


@against_both
def test_a_batch_larger_than_its_topic_allows(server: Server, topic: str) -> None:
    create(server.bootstrap, topic, configs={"max.message.bytes": "1000"})
    assert produced(server, topic, 0, record_batch([bytes(2000)])) == MESSAGE_TOO_LARGE
    assert produced(server, topic, 0, record_batch([bytes(500)])) == 0


@against_both
def test_acks_that_do_not_exist(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    assert produced(server, topic, 0, GOOD, acks=2) == INVALID_REQUIRED_ACKS
    assert end_of(server, topic) == 0


@against_both
def test_a_sequence_with_a_hole(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    producer_id = new_producer_id(server)
    first = record_batch([b"a", b"b"], producer_id=producer_id, sequence=0)
    assert produced(server, topic, 0, first) == 0
    hole = record_batch([b"c"], producer_id=producer_id, sequence=5)
    assert produced(server, topic, 0, hole) == OUT_OF_ORDER_SEQUENCE
    # The duplicate is not written again; what follows is.
    assert produced(server, topic, 0, first) == 0
    following = record_batch([b"c"], producer_id=producer_id, sequence=2)
    assert produced(server, topic, 0, following) == 0
    assert end_of(server, topic) == 3


def new_producer_id(server: Server) -> int:
    """Apache Kafka may still be loading."""
    with RawConnection(server.bootstrap) as connection:

        def given() -> tuple[int, int] | None:
            answer = connection.ask(INIT_PRODUCER_ID, 0, string(None) + int32(60_000))
            error, producer_id = struct.unpack_from(">hq", answer, 4)
            return None if error == COORDINATOR_LOADS else (error, producer_id)

        found = wait_until(given, what="an identity is given")
    assert found is not None
    assert found[0] == 0
    return found[1]


@against_both
def test_topics_and_partitions_that_do_not_exist(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    with RawConnection(server.bootstrap) as connection:
        for name, partition in ((f"no-{topic}", 0), (topic, 1), (topic, -1), (topic, 2**31 - 1)):
            body = produce_body(name, partition, GOOD)
            assert read_produced(connection.ask(PRODUCE, 7, body)).error == UNKNOWN_TOPIC
            body = fetch_body(name, partition, 0, max_bytes=1000, wait_ms=0)
            assert read_fetched(connection.ask(FETCH, 4, body)).error == UNKNOWN_TOPIC


@against_both
@pytest.mark.parametrize("offset", [-1, 3, 2**63 - 1])
def test_an_offset_out_of_range(server: Server, topic: str, offset: int) -> None:
    create(server.bootstrap, topic)
    assert produced(server, topic, 0, GOOD) == 0
    with RawConnection(server.bootstrap) as connection:
        body = fetch_body(topic, 0, offset, max_bytes=1000, wait_ms=0)
        assert read_fetched(connection.ask(FETCH, 4, body)).error == OFFSET_OUT_OF_RANGE


ILLEGAL = ["../escaped", "", "x" * 250, ".", "..", "a/b", "a b", "ä", "a\0b", "/etc/passwd", "a:b"]


@against_both
@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_name_never_becomes_a_topic(server: Server, name: str) -> None:
    files_before = listing(server.data_dir.parent)
    with RawConnection(server.bootstrap) as connection:
        # Asking for metadata creates topics that may be created.
        answer = connection.ask(METADATA, 1, metadata_body([name]))
        assert metadata_error(answer) == INVALID_TOPIC
        body = produce_body(name, 0, GOOD)
        error = read_produced(connection.ask(PRODUCE, 7, body)).error
        assert error in {INVALID_TOPIC, UNKNOWN_TOPIC}
        wanted = int32(1) + string(name) + int32(1) + int16(1) + int32(0) + int32(0)
        answer = connection.ask(CREATE_TOPICS, 2, wanted + int32(5000) + b"\0")
        (length,) = struct.unpack_from(">h", answer, 8)
        assert struct.unpack_from(">h", answer, 10 + length)[0] == INVALID_TOPIC
    assert listing(server.data_dir.parent) == files_before


def listing(directory: Path) -> set[str]:
    return {str(path) for path in (*directory.iterdir(), *directory.parent.iterdir())}


def metadata_error(answer: bytes) -> int:
    """The error of the first topic in a response of version 1."""
    (brokers,) = struct.unpack_from(">i", answer)
    position = 4
    for _ in range(brokers):
        (host,) = struct.unpack_from(">h", answer, position + 4)
        position += 4 + 2 + host + 4
        (rack,) = struct.unpack_from(">h", answer, position)
        position += 2 + max(rack, 0)
    (topics, error) = struct.unpack_from(">ih", answer, position + 4)
    assert topics == 1
    return int(error)
