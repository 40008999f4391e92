"""Reads and writes the records in a batch.

Readers trust nothing. They get uncompressed bytes only (`wire.record_batches.compression`
decompresses within bounds), and anything wrong with a batch is a `BatchError`. The CRC is not
checked: it was when the batch was received, and code that has it from elsewhere calls
`check_batch`. `_records.c` reads the records; if it is not compiled, aiokafka's parser does, in
`wire.record_batches.unaided_records`.

Batches are encoded here rather than by aiokafka's builder, because a compacted batch keeps its base
offset, last offset and base timestamp whichever of its records remain, and the builder determines
all three itself.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from ground.varints import VARINTS
from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import (
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
from wire.record_batches.compression import MAX_UNPACKED, Codec, compress, decompress

try:
    from wire._records import read
except ImportError:
    NATIVE = False
else:
    NATIVE = True

__all__ = ["Codec", "Record", "build_batch", "records"]

DELETE_HORIZON = 0x40  # attribute bit: the base timestamp is the delete horizon of tombstones

_PIECE = 1024  # records, and bytes, to be turned into objects at a time
_PIECE_BYTES = 256 * 1024


class Record(NamedTuple):
    """One message in a batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(batch: Buffer, limit: int = MAX_UNPACKED, *, native: bool = NATIVE) -> Iterator[Record]:
    """Yields the records of the one batch in `batch`, decompressing at most `limit` bytes."""
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise _corrupt(f"a record batch has at least {HEADER_SIZE} bytes, this has {len(view)}")
    header = read_header(view)
    if header.magic != MAGIC or header.size != len(view):
        raise _corrupt(
            f"not one batch of format {MAGIC}: format {header.magic}, "
            f"{len(view)} bytes, but the header says {header.size}"
        )
    if header.record_count < 0:
        raise _corrupt(f"invalid record count {header.record_count}")
    try:
        codec = Codec(header.codec)
    except ValueError:
        raise BatchError(
            ErrorCode.unsupported_compression_type, f"unknown compression codec {header.codec}"
        ) from None
    record_bytes = decompress(codec, view[HEADER_SIZE:], limit)
    return _read(record_bytes, header) if native else _read_unaided(record_bytes, header)


def _read(unpacked: Buffer, header: BatchHeader) -> Iterator[Record]:
    remaining_count, at, previous_offset = header.record_count, 0, header.base_offset - 1
    time = header.max_timestamp if header.is_append_time else None
    frame = header.base_offset, header.last_offset, header.base_timestamp, time
    while remaining_count:
        try:
            portion, at = read(
                Record,
                unpacked,
                at,
                min(remaining_count, _PIECE),
                _PIECE_BYTES,
                frame,
                previous_offset,
            )
        except (ValueError, OverflowError) as error:  # OverflowError for offsets beyond 64 bits
            raise _corrupt(str(error)) from None
        remaining_count -= len(portion)
        previous_offset = portion[-1].offset
        yield from portion
    if at != len(unpacked):
        raise _corrupt(
            f"{len(unpacked) - at} bytes after the last of {header.record_count} records"
        )


def _read_unaided(unpacked: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
    from wire.record_batches.unaided_records import parsed  # noqa: PLC0415  imports all of aiokafka

    try:
        for fields in parsed(unpacked, header):
            yield Record(*fields)
    except ValueError as error:
        raise _corrupt(str(error)) from error


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
    """Builds a batch of messages with ascending offsets from `base_offset` on, which may have gaps.

    `attributes` are the flags besides the codec. Other values default to those of the messages: the
    batch ends at the last, its base timestamp is the first's and its maximum the highest. An empty
    batch needs all of them.
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
    """Deltas beyond 64 bits wrap around; readers add like Kafka, with wrap-around, and get the
    right time."""
    try:
        return VARINTS[delta]
    except OverflowError:
        return VARINTS[(delta + (1 << 63)) % (1 << 64) - (1 << 63)]


def _corrupt(message: str) -> BatchError:
    return BatchError(ErrorCode.corrupt_message, message)
