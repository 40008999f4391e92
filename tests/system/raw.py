"""Kafka's protocol as bytes on a socket, so that requests can also be wrong.

It uses none of Penstock's code, and only versions without compact encodings, which are easy to
compare with the protocol's documentation.
"""

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Self

import crc32c
import msgspec

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 19, 20, 22
WITHIN = 15.0


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def string(text: str | None) -> bytes:
    if text is None:
        return int16(-1)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def frame(payload: bytes) -> bytes:
    return int32(len(payload)) + payload


def request(key: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    """A framed request with header version 1, which has no tagged fields."""
    return frame(int16(key) + int16(version) + int32(correlation) + string("raw") + body)


def varint(value: int) -> bytes:
    """A zigzag varint, as within records."""
    left = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def record_batch(
    values: Sequence[bytes],
    *,
    timestamp: int | None = None,
    producer_id: int = -1,
    sequence: int = -1,
    magic: int = 2,
    attributes: int = 0,
    wrong_crc: bool = False,
) -> bytes:
    """A batch of records without keys; a producer ID makes it idempotent, in epoch 0."""
    now = int(time.time() * 1000) if timestamp is None else timestamp
    records = bytearray()
    for delta, value in enumerate(values):
        inner = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(inner)) + inner
    epoch = 0 if producer_id >= 0 else -1
    checked = struct.pack(
        ">hiqqqhii", attributes, len(values) - 1, now, now, producer_id, epoch, sequence,
        len(values),
    ) + bytes(records)  # fmt: skip
    crc = crc32c.crc32c(checked) ^ (0xFFFF if wrong_crc else 0)
    rest = struct.pack(">ibI", -1, magic, crc) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def produce_body(topic: str, partition: int, records: bytes | None, acks: int = -1) -> bytes:
    """Versions 3 to 8."""
    blob = int32(-1) if records is None else int32(len(records)) + records
    one_partition = int32(1) + int32(partition) + blob
    return string(None) + int16(acks) + int32(30_000) + int32(1) + string(topic) + one_partition


def fetch_body(
    topic: str, partition: int, offset: int, *, max_bytes: int, wait_ms: int, min_bytes: int = 1
) -> bytes:
    """Version 4."""
    head = int32(-1) + int32(wait_ms) + int32(min_bytes) + int32(max_bytes) + b"\0"
    one_partition = int32(1) + int32(partition) + int64(offset) + int32(max_bytes)
    return head + int32(1) + string(topic) + one_partition


def metadata_body(topics: Sequence[str] | None) -> bytes:
    """Versions 1 to 3."""
    if topics is None:
        return int32(-1)
    return int32(len(topics)) + b"".join(string(topic) for topic in topics)


class Produced(msgspec.Struct, frozen=True):
    error: int
    base_offset: int


def read_produced(answer: bytes) -> Produced:
    """A response of versions 2 to 7 about one partition."""
    (name,) = struct.unpack_from(">h", answer, 4)
    error, base_offset = struct.unpack_from(">hq", answer, 4 + 2 + name + 4 + 4)
    return Produced(error, base_offset)


class Fetched(msgspec.Struct, frozen=True):
    error: int
    high_watermark: int
    records: bytes


def read_fetched(answer: bytes) -> Fetched:
    """A response of version 4 about one partition, without aborted transactions."""
    (name,) = struct.unpack_from(">h", answer, 8)
    position = 8 + 2 + name + 4 + 4
    error, high_watermark, _stable, aborted = struct.unpack_from(">hqqi", answer, position)
    assert aborted <= 0
    return Fetched(error, high_watermark, answer[position + 2 + 8 + 8 + 4 + 4 :])


class Closed(Exception):
    """The broker closed the connection."""


class RawConnection:
    """One socket; answers are returned without their length and correlation ID."""

    def __init__(self, bootstrap: str, *, receive_buffer: int | None = None) -> None:
        host, port = bootstrap.split(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WITHIN)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise
        self.name = "{}:{}".format(*self.socket.getsockname())
        self._received = bytearray()

    def send(self, data: bytes) -> None:
        """Send all of it; raises `Closed` if the broker has closed the connection."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def answer(self, within: float = WITHIN) -> bytes:
        """The next response after its correlation ID; raises `Closed` or `TimeoutError`."""
        length = struct.unpack(">i", self._take(4, within))[0]
        return self._take(length, within)[4:]

    def _take(self, count: int, within: float) -> bytes:
        deadline = time.monotonic() + within
        while len(self._received) < count:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self.socket.recv(1 << 20)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not piece:
                raise Closed(f"after {len(self._received)} of {count} bytes")
            self._received += piece
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def ask(self, key: int, version: int, body: bytes, within: float = WITHIN) -> bytes:
        self.send(request(key, version, body))
        return self.answer(within)

    def wait_closed(self, within: float = WITHIN) -> None:
        """Fails unless the broker closes the connection without another answer."""
        try:
            answer = self.answer(within)
        except Closed:
            return
        except TimeoutError:
            raise AssertionError(f"{self.name} is still open after {within:g} s") from None
        raise AssertionError(f"an answer instead of the end: {answer[:80]!r}")

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def advertised(bootstrap: str) -> dict[int, range]:
    """Every API that the broker advertises, with its versions."""
    with RawConnection(bootstrap) as connection:
        answer = connection.ask(API_VERSIONS, 0, b"")
    return dict(read_api_versions(answer))


def read_api_versions(answer: bytes) -> Iterator[tuple[int, range]]:
    """A response of version 0, after its error code."""
    (count,) = struct.unpack_from(">i", answer, 2)
    for key, lowest, highest in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count]):
        yield key, range(lowest, highest + 1)
