"""The records inside a batch: read by aiokafka's C parser, written here.

Readers trust nothing. The parser is handed plain bytes only (`wire.compression` unpacks, bounded),
and whatever is wrong with a batch is a `BatchError`. The CRC is not looked at: it was when the
batch came in, and whoever has it from elsewhere calls `check_batch`.

Written here rather than with aiokafka's builder, because a compacted batch keeps its base offset,
last offset and base timestamp whichever of its records are left, and the builder fixes all three.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException

# Imported by its own name: without the C extension this must fail, not become thirty times slower.
from aiokafka.record._crecords import DefaultRecordBatch
from crc32c import crc32c

from ground.varints import VARINTS, long_at
from wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    read_header,
)
from wire.compression import MAX_UNPACKED, Codec, compress, decompress
from wire.errors import BatchError, ErrorCode

__all__ = ["Codec", "Record", "build_batch", "records"]

DELETE_HORIZON = 0x40  # attribute bit: the base timestamp is when tombstones may go

# The C parser looks at up to two bytes behind the end before it notices that it is there.
_SLACK = bytes(16)
# A header of two bytes becomes an object of 64, all of one record's at once. Batches beyond this
# size are looked through for records that would become gigabytes.
_SUSPICIOUS_BATCH = 4 * 1024 * 1024
_SUSPICIOUS_RECORD = 1024 * 1024
_MAX_HEADERS = 65_536


class Record(NamedTuple):
    """One message."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(batch: Buffer, limit: int = MAX_UNPACKED) -> Iterator[Record]:
    """The records of the one batch that `batch` holds, of which at most `limit` bytes unpack."""
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise _corrupt(f"a record batch has at least {HEADER_SIZE} bytes, this has {len(view)}")
    header = read_header(view)
    if header.magic != MAGIC or header.size != len(view):
        raise _corrupt(
            f"not one batch of format {MAGIC}: format {header.magic}, "
            f"says it has {header.size} bytes, has {len(view)}"
        )
    try:
        codec = Codec(header.codec)
    except ValueError:
        raise BatchError(
            ErrorCode.unsupported_compression_type, f"unknown compression codec {header.codec}"
        ) from None
    unpacked = decompress(codec, view[HEADER_SIZE:], limit)
    if len(unpacked) > _SUSPICIOUS_BATCH:
        _refuse_header_bombs(unpacked, header.record_count)
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK)
    buffer = b"".join((HEADER.pack(*plain), unpacked, _SLACK))
    return _parsed(memoryview(buffer)[: -len(_SLACK)], header)


def _parsed(plain: memoryview, header: BatchHeader) -> Iterator[Record]:
    previous, last = header.base_offset - 1, header.last_offset
    try:
        for record in DefaultRecordBatch(plain):
            offset = record.offset
            if not previous < offset <= last:
                raise _corrupt(
                    f"offset {offset} after {previous} in a batch of {header.base_offset} to {last}"
                )
            previous = offset
            timestamp, headers = record.timestamp, record.headers
            yield Record(
                offset,
                NO_TIMESTAMP if timestamp is None else timestamp,
                record.key,
                record.value,
                tuple(headers) if headers else (),
            )
    except (CorruptRecordException, UnicodeDecodeError, OverflowError, MemoryError) as error:
        # MemoryError: a length near 2⁶³ overflows in the parser's own check. What a true length
        # asks for is at most the buffer that is there already.
        raise _corrupt(f"malformed records: {error or type(error).__name__}") from error


def build_batch(
    messages: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = 0,
    attributes: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """A batch of these messages, whose offsets ascend from `base_offset`, not without gaps.

    `attributes` are the flags besides the codec. What is not given follows from the messages: the
    batch ends at the last, its base timestamp is the first's and its maximum the highest. Without
    messages it is an empty batch, of which all that counts is given.
    """
    messages = tuple(messages)
    if base_timestamp is None:
        base_timestamp = messages[0].timestamp if messages else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((message.timestamp for message in messages), default=base_timestamp)
    if last_offset_delta is None:
        last_offset_delta = messages[-1].offset - base_offset if messages else 0
    if not messages:
        codec = Codec.NONE
    body = compress(codec, _encode(messages, base_offset, base_timestamp))
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - LENGTH_PREFIX + len(body),
            leader_epoch,
            MAGIC,
            0,
            attributes & ~CODEC_MASK | codec,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(messages),
        )
    )
    batch += body
    batch[CRC_START - 4 : CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


def _encode(messages: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    out = bytearray()
    for offset, timestamp, key, value, headers in messages:
        parts = [
            b"\0",
            _time(timestamp - base_timestamp),
            VARINTS[offset - base_offset],
            _sized(key),
            _sized(value),
            VARINTS[len(headers)],
        ]
        for name, content in headers:
            parts.append(_sized(name.encode()))
            parts.append(_sized(content))
        body = b"".join(parts)
        out += VARINTS[len(body)]
        out += body
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return b"\1" if data is None else VARINTS[len(data)] + data


def _time(delta: int) -> bytes:
    """Of two times that are too far apart for 64 bits, readers come to the right one all the same:
    they add as Kafka does, and wrap round."""
    try:
        return VARINTS[delta]
    except OverflowError:
        return VARINTS[(delta + (1 << 63)) % (1 << 64) - (1 << 63)]


def _refuse_header_bombs(unpacked: bytes | memoryview, record_count: int) -> None:
    at = 0
    try:
        for _ in range(record_count):
            length, start = long_at(unpacked, at)
            at = start + length
            if length < 0 or at > len(unpacked):
                raise _corrupt(f"a record of {length} bytes at byte {start} of {len(unpacked)}")
            if (
                length > _SUSPICIOUS_RECORD
                and (count := _header_count(unpacked, start)) > _MAX_HEADERS
            ):
                raise _corrupt(f"a record with {count} headers, more than {_MAX_HEADERS}")
    except IndexError as error:
        raise _corrupt("malformed records: they end in the middle of one") from error
    except ValueError as error:
        raise _corrupt(str(error)) from None


def _header_count(unpacked: bytes | memoryview, record: int) -> int:
    at = record + 1  # attributes
    _, at = long_at(unpacked, at)  # timestamp
    _, at = long_at(unpacked, at)  # offset
    for _ in ("key", "value"):
        length, at = long_at(unpacked, at)
        at += max(length, 0)
    return long_at(unpacked, at)[0]


def _corrupt(message: str) -> BatchError:
    return BatchError(ErrorCode.corrupt_message, message)
