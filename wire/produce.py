"""Hand-written encoding and decoding of Produce, the one request that arrives tens of thousands of
times a second.

It yields the same bytes as `wire.messages.produce` through `wire.framing.codec`, as tests check, in
about a quarter of the time; the generic codec costs more than all other work on a small request.
Versions 3 to 9, of which 9 is flexible.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ground.varints import unsigned_varint
from wire.errors import ErrorCode, ProtocolError
from wire.framing import primitives

FLEXIBLE = 9

_NULL = -1

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INDEX_AND_SIZE = struct.Struct(">ii")
_SIZE_AND_ID = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqqq")
# The most common request and its response: one batch for one partition.
_ONE_TOPIC = struct.Struct(">hhiih")  # no transactional id | acks | time-out | 1 | size of the name
_ONE_PARTITION = struct.Struct(">iii")  # 1 | index | size of the batch
_SHORTEST_WITH_BATCH = _ONE_TOPIC.size + _ONE_PARTITION.size
_ANSWER_TO_ONE = struct.Struct(">iiih")  # size | id | 1 | size of the name
_ONE_RESULT = struct.Struct(">iihqqqi")  # 1 | as _RESULT | throttle
_FLEXIBLE_ANSWER = struct.Struct(">iiBBB")  # size | id | tags | 1 | size of the name
_FLEXIBLE_RESULT = struct.Struct(
    ">BihqqqBBBBiB"
)  # 1 | as _RESULT | errors, message, tags, throttle
_PLAIN_SIZE = _ANSWER_TO_ONE.size + _ONE_RESULT.size - 4
_FLEXIBLE_SIZE = _FLEXIBLE_ANSWER.size + _FLEXIBLE_RESULT.size - 4
_ONE_BYTE = 127  # sizes below, which are written one greater, take one byte
_WITHOUT_SHORT_CUT = frozenset({3, 4, 8})  # older forms, which no recent client uses
_LONGEST_MESSAGE = 1000
MOST_BATCHES = 5_000  # in a request, since it is read and answered without a pause
_NO_RECORD_ERRORS = _NO_THROTTLE = b"\x00\x00\x00\x00"

_read_nullable, _ = primitives.string(flexible=True, nullable=True)


class PartitionBatch(NamedTuple):
    """A batch and its target; `records` is a view of the received bytes, None if null."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    batches: list[PartitionBatch]


class PartitionResult(NamedTuple):
    """The outcome for one batch."""

    topic: str
    partition: int
    code: ErrorCode
    base_offset: int = -1
    append_time: int = -1
    start_offset: int = -1
    message: str | None = None
    record: int | None = None
    """The faulty record in the batch, if it is only one."""


def read_request(version: int, body: memoryview) -> ProduceRequest:
    """Parses the request at the start of `body`."""
    try:
        return _read_flexible(body) if version >= FLEXIBLE else _read_plain(body)
    except (struct.error, IndexError):
        raise ProtocolError(f"the message is truncated at byte {len(body)}") from None
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a string is not UTF-8: {error.reason}") from None


def _read_plain(body: memoryview) -> ProduceRequest:
    if len(body) >= _SHORTEST_WITH_BATCH:
        size_of_id, acks, timeout_ms, topic_count, size = _ONE_TOPIC.unpack_from(body)
        if size_of_id == _NULL and topic_count == 1 and size >= 0:
            position = _ONE_TOPIC.size + size
            start = position + _ONE_PARTITION.size
            partition_count = 0
            if start <= len(body):
                partition_count, index, length = _ONE_PARTITION.unpack_from(body, position)
            if partition_count == 1 and 0 <= length <= len(body) - start:
                topic = str(body[_ONE_TOPIC.size : position], "utf-8")
                batch = PartitionBatch(topic, index, body[start : start + length])
                return ProduceRequest(None, acks, timeout_ms, [batch])
    transactional_id, position = None, 2
    (size,) = _INT16.unpack_from(body)
    if size != _NULL:
        transactional_id, position = str(_cut(body, 2, size), "utf-8"), 2 + size
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, position)
    (topic_count,) = _INT32.unpack_from(body, position + 6)
    position += 10
    batches: list[PartitionBatch] = []
    for _ in range(_count(topic_count, body, position)):
        (size,) = _INT16.unpack_from(body, position)
        topic = str(_cut(body, position + 2, size), "utf-8")
        position += 2 + size
        (partition_count,) = _INT32.unpack_from(body, position)
        position += 4
        for _ in range(_count(partition_count, body, position, MOST_BATCHES - len(batches))):
            index, size = _INDEX_AND_SIZE.unpack_from(body, position)
            position += 8
            records = None
            if size != _NULL:
                records = _cut(body, position, size)
                position += size
            batches.append(PartitionBatch(topic, index, records))
    return ProduceRequest(transactional_id, acks, timeout_ms, batches)


def _read_flexible(body: memoryview) -> ProduceRequest:
    read_size, skip_tags = primitives.read_unsigned_varint, primitives.skip_tagged_fields
    transactional_id, position = _read_nullable(body, 0)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, position)
    topic_count, position = read_size(body, position + 6)
    batches: list[PartitionBatch] = []
    for _ in range(_count(topic_count - 1, body, position)):
        size, position = read_size(body, position)
        topic = str(_cut(body, position, size - 1), "utf-8")
        partition_count, position = read_size(body, position + size - 1)
        for _ in range(_count(partition_count - 1, body, position, MOST_BATCHES - len(batches))):
            (index,) = _INT32.unpack_from(body, position)
            size, position = read_size(body, position + 4)
            records = None
            if size:
                records = _cut(body, position, size - 1)
                position += size - 1
            position = position + 1 if body[position] == 0 else skip_tags(body, position)
            batches.append(PartitionBatch(topic, index, records))
        position = position + 1 if body[position] == 0 else skip_tags(body, position)
    skip_tags(body, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, batches)


def _count(count: int, body: memoryview, position: int, most: int = MOST_BATCHES) -> int:
    if not 0 <= count <= most or count > len(body) - position:
        raise ProtocolError(f"invalid array length {count} at byte {position} of {len(body)}")
    return count


def _cut(body: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if size < 0 or end > len(body):
        raise ProtocolError(f"invalid length {size} at byte {position} of {len(body)}")
    return body[position:end]


def response_frame(
    version: int, correlation_id: int, results: Sequence[PartitionResult], throttle_ms: int = 0
) -> bytearray:
    """Encodes the response; results of one topic must be adjacent."""
    frame = _response_frame(version, correlation_id, results)
    if throttle_ms:
        _INT32.pack_into(frame, len(frame) - (5 if version >= FLEXIBLE else 4), throttle_ms)
    return frame


def _response_frame(
    version: int, correlation_id: int, results: Sequence[PartitionResult]
) -> bytearray:
    if len(results) == 1 and version not in _WITHOUT_SHORT_CUT:
        topic, partition, code, base_offset, append_time, start_offset, message, _ = results[0]
        name = topic.encode()
        size = len(name)
        if message is None and size < _ONE_BYTE:
            result = partition, code, base_offset, append_time, start_offset
            if version < FLEXIBLE:
                frame = bytearray(_ANSWER_TO_ONE.pack(size + _PLAIN_SIZE, correlation_id, 1, size))
                frame += name
                frame += _ONE_RESULT.pack(1, *result, 0)
            else:
                frame = bytearray(
                    _FLEXIBLE_ANSWER.pack(size + _FLEXIBLE_SIZE, correlation_id, 0, 2, size + 1)
                )
                frame += name
                frame += _FLEXIBLE_RESULT.pack(2, *result, 1, 0, 0, 0, 0, 0)
            return frame
    out = bytearray(8)
    if version >= FLEXIBLE:
        _write_flexible(out, results)
    else:
        _write_plain(out, version, results)
    _SIZE_AND_ID.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def _write_plain(out: bytearray, version: int, results: Sequence[PartitionResult]) -> None:
    topics = _by_topic(results)
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        name = topic.encode()
        out += _INT16.pack(len(name))
        out += name
        out += _INT32.pack(len(partitions))
        for result in partitions:
            out += _RESULT.pack(*result[1:6])
            if version < 5:
                del out[-8:]  # start offset
            if version >= 8:
                text = _text(result.message)
                encoded_message = _INT16.pack(-1 if result.message is None else len(text)) + text
                if result.record is None:
                    out += _NO_RECORD_ERRORS
                else:
                    out += _INDEX_AND_SIZE.pack(1, result.record)
                    out += encoded_message
                out += encoded_message
    out += _NO_THROTTLE


def _write_flexible(out: bytearray, results: Sequence[PartitionResult]) -> None:
    topics = _by_topic(results)
    out += b"\x00"  # tags of the header
    out += unsigned_varint(len(topics) + 1)
    for topic, partitions in topics:
        name = topic.encode()
        out += unsigned_varint(len(name) + 1)
        out += name
        out += unsigned_varint(len(partitions) + 1)
        for result in partitions:
            out += _RESULT.pack(*result[1:6])
            text = _text(result.message)
            encoded_message = (
                b"\x00" if result.message is None else unsigned_varint(len(text) + 1) + text
            )
            if result.record is None:
                out += b"\x01"  # no errors of single records
            else:
                out += b"\x02" + _INT32.pack(result.record) + encoded_message + b"\x00"
            out += encoded_message
            out += b"\x00"
        out += b"\x00"
    out += _NO_THROTTLE
    out += b"\x00"


def _text(message: str | None) -> bytes:
    """Messages quote what clients sent, which may be of any length."""
    return b"" if message is None else message[:_LONGEST_MESSAGE].encode()


def _by_topic(results: Sequence[PartitionResult]) -> list[tuple[str, Sequence[PartitionResult]]]:
    if len(results) == 1:
        return [(results[0].topic, results)]
    topics: list[tuple[str, list[PartitionResult]]] = []
    for result in results:
        if topics and topics[-1][0] == result.topic:
            topics[-1][1].append(result)
        else:
            topics.append((result.topic, [result]))
    return list(topics)
