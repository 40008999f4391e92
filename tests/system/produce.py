"""Writes to and reads from one partition with raw requests, for tests of error codes."""

import contextlib
import struct
from collections.abc import Sequence

from harness.processes.waiting import wait_until
from tests.system.raw import (
    FETCH,
    PRODUCE,
    Closed,
    Fetched,
    Produced,
    RawConnection,
    fetch_body,
    produce_body,
    read_fetched,
    read_produced,
    record_batch,
)

STORAGE_ERROR = 56
_NOT_THE_LEADER = 6
UNAVAILABLE = frozenset({3, 5, 6, 56})
"""Unknown topic, no leader, not the leader, storage error: a partition in no state to serve."""


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes],
    *,
    partition: int = 0,
    acks: int = -1,
    within: float = 15,
    timestamp: int | None = None,
) -> Produced:
    """Write one batch on a new connection."""
    with RawConnection(bootstrap) as connection:
        body = produce_body(topic, partition, record_batch(values, timestamp=timestamp), acks)
        return read_produced(connection.ask(PRODUCE, 7, body, within))


def must_produce(bootstrap: str, topic: str, values: Sequence[bytes], *, partition: int = 0) -> int:
    """Like `produce`, but fails unless acknowledged; returns the first offset."""
    done = produce(bootstrap, topic, values, partition=partition)
    assert done.error == 0, f"{topic}-{partition}: error {done.error}"
    return done.base_offset


def fetch_error(bootstrap: str, topic: str, *, partition: int = 0, offset: int = 0) -> int:
    with RawConnection(bootstrap) as connection:
        body = fetch_body(topic, partition, offset, max_bytes=1000, wait_ms=0)
        return read_fetched(connection.ask(FETCH, 4, body)).error


def high_watermark(bootstrap: str, topic: str, *, partition: int = 0) -> int:
    """Up to where records may be read; 0 is always a legal place to ask from in these tests."""
    with RawConnection(bootstrap) as connection:
        body = fetch_body(topic, partition, 0, max_bytes=1, wait_ms=0)
        fetched = read_fetched(connection.ask(FETCH, 4, body))
        assert fetched.error == 0, fetched.error
        return fetched.high_watermark


def values_in(records: bytes) -> dict[int, bytes]:
    """Offsets and values of uncompressed batches without keys, as `record_batch` makes them."""
    found: dict[int, bytes] = {}
    position = 0
    while position + 61 <= len(records):
        base, length = struct.unpack_from(">qi", records, position)
        end = position + 12 + length
        if end > len(records):
            break
        (count,) = struct.unpack_from(">i", records, position + 57)
        at = position + 61
        for number in range(count):
            _, at = varint_at(records, at)
            at += 1
            for _ in range(3):  # timestamp, offset, length of the key
                _, at = varint_at(records, at)
            size, at = varint_at(records, at)
            found[base + number] = records[at : at + size]
            at += size + 1
        position = end
    return found


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def read_values(bootstrap: str, topic: str, *, partition: int = 0) -> dict[int, bytes]:
    """All visible records by offset, from the beginning, which is 0."""
    found: dict[int, bytes] = {}

    def fetched() -> Fetched | None:
        """None without a leader: after a lost session, a broker leads again on request."""
        body = fetch_body(topic, partition, len(found), max_bytes=1 << 20, wait_ms=0)
        answer = read_fetched(connection.ask(FETCH, 4, body))
        return None if answer.error == _NOT_THE_LEADER else answer

    with RawConnection(bootstrap) as connection:
        while True:
            answer = wait_until(fetched, what=f"{topic}-{partition} is led")
            assert answer is not None
            assert answer.error == 0, f"{topic}-{partition}: error {answer.error}"
            if len(found) >= answer.high_watermark:
                return found
            offset = len(found)
            new = {at: value for at, value in values_in(answer.records).items() if at >= offset}
            assert new, f"{topic}-{partition}: nothing at {offset}"
            found |= new


def wait_writable(bootstrap: str, topic: str, *, partition: int = 0) -> int:
    """Retry until a record is acknowledged; returns its offset."""

    def written() -> Produced | None:
        with contextlib.suppress(OSError, Closed):
            done = produce(bootstrap, topic, [b"try"], partition=partition)
            return done if done.error == 0 else None
        return None

    done = wait_until(written, what=f"{topic}-{partition} is writable")
    assert done is not None
    return done.base_offset
