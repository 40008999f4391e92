"""The requests of the raw load generators, encoded once, and the layout of their answers.

They are written out here, instead of using `wire`, so that a mistake there shows. Answers are
checked by position: Produce v7 answers have a fixed length for a given topic, so a thousand of them
are checked with a few strided slices.
"""

import struct
import time
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import msgspec
from aiokafka.record.default_records import (
    DefaultRecordBatchBuilder,
)

CLIENT = b"bench"
MESSAGE_SIZE = 200
MEGABYTE_BATCH = 4_750  # messages; just under 1,000,000 bytes with framing
_PRODUCE, _FETCH, _LIST_OFFSETS, _API_VERSIONS = 0, 1, 2, 18
_UNKNOWN_TOPIC = 3
LATEST = -1


class AnswerError(Exception):
    """An answer has an error, or is not an answer of the protocol."""


def frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Returns a request with its length prefix."""
    header = struct.pack(">hhih", key, version, correlation_id, len(CLIENT)) + CLIENT
    return struct.pack(">i", len(header) + len(body)) + header + body


def string(text: str) -> bytes:
    """Encodes a string for the protocol: its length, then UTF-8."""
    utf8 = text.encode()
    return struct.pack(">h", len(utf8)) + utf8


def message(number: int = 0) -> bytes:
    """Returns a message of 200 bytes, like a log line."""
    start = f"2026-11-20T07:00:00.000Z INFO shop.checkout request={number:012d} "
    return (start + "user=4711 path=/cart/items status=200 bytes=5120 " * 4).encode()[:MESSAGE_SIZE]


def record_batch(messages: int) -> bytes:
    """Returns an uncompressed batch (format v2) of 200-byte messages, without a producer id."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**30,
    )
    now = int(time.time() * 1000)
    for number in range(messages):
        builder.append(number, now, None, message(number), [])
    return bytes(builder.build())


class EqualRequests(msgspec.Struct, frozen=True):
    """Consecutive requests of equal length, whose answers also have equal lengths."""

    cycle: bytes
    request_size: int
    answer_size: int
    error_at: int  # position of the error code in an answer with its length prefix
    expected: int = 0  # error code

    def check(self, answers: bytearray | memoryview) -> int:
        """Returns the number of complete answers in the buffer; raises AnswerError for another
        error code or length."""
        count = len(answers) // self.answer_size
        end = count * self.answer_size
        length = (self.answer_size - 4).to_bytes(4, "big")
        for position, expected in enumerate(length):
            if bytes(answers[position : end : self.answer_size]).count(expected) != count:
                raise AnswerError("an answer has an unexpected length")
        for position, expected in enumerate(self.expected.to_bytes(2, "big"), self.error_at):
            if bytes(answers[position : end : self.answer_size]).count(expected) != count:
                raise AnswerError(f"a request was answered with error {self._error(answers)}")
        return count

    def _error(self, answers: bytearray | memoryview) -> int:
        for start in range(0, len(answers) - self.answer_size + 1, self.answer_size):
            (code,) = struct.unpack_from(">h", answers, start + self.error_at)
            if code != self.expected:
                return int(code)
        return self.expected


def produce_request(
    topic: str, partition: int, batch: bytes, acks: int, correlation_id: int = 0
) -> bytes:
    """Returns a Produce v7 request."""
    partitions = struct.pack(">iii", 1, partition, len(batch)) + batch
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic) + partitions
    return frame(_PRODUCE, 7, correlation_id, body)


def produce_requests(
    topic: str, partition: int, batch: bytes, acks: int, *, at_least: int = 1
) -> EqualRequests:
    """Returns a cycle of Produce v7 requests: at least 256 KiB, and at least `at_least`
    requests."""
    size = len(produce_request(topic, partition, batch, acks))
    count = max(at_least, 2**18 // size, 1)
    cycle = b"".join(
        produce_request(topic, partition, batch, acks, correlation_id)
        for correlation_id in range(count)
    )
    error_position = 4 + 4 + 4 + len(string(topic)) + 4 + 4
    return EqualRequests(
        cycle=cycle,
        request_size=size,
        answer_size=error_position + 2 + 8 + 8 + 8 + 4,
        error_at=error_position,
    )


def fetches_in_vain(topics: Sequence[str]) -> EqualRequests:
    """Returns Fetch v11 requests for topics that do not exist and whose names have equal
    lengths."""
    requests = [fetch_request(topic, 0, 0, 2**20, wait_ms=0) for topic in topics]
    error_position = 4 + 4 + 4 + 2 + 4 + 4 + len(string(topics[0])) + 4 + 4
    return EqualRequests(
        cycle=b"".join(requests),
        request_size=len(requests[0]),
        answer_size=error_position + 2 + 8 + 8 + 8 + 4 + 4 + 4,
        error_at=error_position,
        expected=_UNKNOWN_TOPIC,
    )


def fetch_request(
    topic: str, partition: int, offset: int, max_bytes: int, *, wait_ms: int = 500
) -> bytes:
    """Returns a Fetch v11 request without a session, which waits for up to half a second at the end
    of the log."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    return frame(_FETCH, 11, 0, body + struct.pack(">i", 0) + string(""))


def fetched_records(answer: memoryview, topic: str) -> memoryview:
    """Returns the record bytes of a Fetch v11 answer (without its length prefix) for one
    partition."""
    header_size = 4 + 4 + 2 + 4
    position = header_size + 4 + len(string(topic)) + 4
    (request_error,) = struct.unpack_from(">h", answer, 8)
    _, error, _, _, _, aborted_count = struct.unpack_from(">ihqqqi", answer, position)
    if request_error or error:
        raise AnswerError(f"Fetch failed with error {request_error or error}")
    position += 4 + 2 + 8 + 8 + 8 + 4 + max(aborted_count, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4 : position + 4 + max(size, 0)]


def read_answer(stream: BinaryIO) -> bytes:
    """Returns the next answer, without its length prefix."""
    prefix = stream.read(4)
    if len(prefix) < 4:
        raise AnswerError("the broker closed the connection")
    return stream.read(int.from_bytes(prefix, "big"))


def api_versions_request() -> bytes:
    """Returns an ApiVersions request, the first request of every client."""
    return frame(_API_VERSIONS, 0, 0, b"")


def end_offsets_request(topics: Iterable[tuple[str, int]]) -> bytes:
    """Returns a ListOffsets v1 request for the ends of all partitions, given (topic, number of
    partitions)."""
    topic_list = list(topics)
    body = struct.pack(">ii", -1, len(topic_list))
    for topic, partitions in topic_list:
        body += string(topic) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", index, LATEST) for index in range(partitions))
    return frame(_LIST_OFFSETS, 1, 0, body)


def end_offsets(answer: bytes) -> dict[tuple[str, int], int]:
    """Returns the offsets in a ListOffsets v1 answer; raises AnswerError if a partition has an
    error."""
    offsets = {}
    (topics,) = struct.unpack_from(">i", answer, 4)
    position = 8
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", answer, position)
        topic = answer[position + 2 : position + 2 + length].decode()
        (partitions,) = struct.unpack_from(">i", answer, position + 2 + length)
        position += 2 + length + 4
        for _ in range(partitions):
            index, error, _, offset = struct.unpack_from(">ihqq", answer, position)
            if error:
                raise AnswerError(f"ListOffsets: error {error} for {topic}-{index}")
            offsets[topic, index] = offset
            position += 22
    return offsets
