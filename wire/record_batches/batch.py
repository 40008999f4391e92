"""Reads and stamps record batches of format v2, with their 61-byte header, in place.

A batch is never rebuilt. The broker checks the header and the CRC, writes the base offset and the
leader epoch into the bytes it received (the CRC covers neither), and passes the bytes on.

    baseOffset i64 | batchLength i32 | partitionLeaderEpoch i32 | magic i8 | crc u32
    attributes i16 | lastOffsetDelta i32 | baseTimestamp i64 | maxTimestamp i64
    producerId i64 | producerEpoch i16 | baseSequence i32 | recordCount i32 | records …
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from wire.errors import BatchError, ErrorCode

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
LENGTH_PREFIX = 12  # base offset and length, which `length` does not include
CRC_START = 21  # the CRC covers everything from the attributes on
MAGIC = 2
NO_PRODUCER = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_MAGIC_AT = 16
_CRC_AT = 17
_MAX_TIMESTAMP_AT = 35
_HIGHEST_CODEC = 4  # none, gzip, snappy, lz4, zstd
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The fields of a batch header, in wire order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch, in bytes."""
        return self.length + LENGTH_PREFIX

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record. Sequences wrap from 2³¹−1 to 0, as in Kafka."""
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def next_sequence(sequence: int, increment: int) -> int:
    """Returns the sequence number `increment` after `sequence`."""
    return (sequence + increment) & MAX_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header at `position`, where the caller has ensured `HEADER_SIZE` bytes."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def check_batch(view: memoryview) -> BatchHeader:
    """Returns the header of the one batch that fills `view`, with its CRC verified.

    This is all that a broker knows of a batch: what the CRC covers beyond the header concerns its
    writer and its readers.
    """
    size = len(view)
    if size < HEADER_SIZE:
        if size > _MAGIC_AT and view[_MAGIC_AT] < MAGIC:
            raise _old_format(view[_MAGIC_AT])
        raise BatchError(
            ErrorCode.corrupt_message,
            f"a record batch has at least {HEADER_SIZE} bytes, this has {size}",
        )
    header = BatchHeader._make(HEADER.unpack_from(view))
    if header.magic != MAGIC:
        if 0 <= header.magic < MAGIC:
            raise _old_format(header.magic)
        raise BatchError(ErrorCode.corrupt_message, f"unknown record format {header.magic}")
    if header.length != size - LENGTH_PREFIX:
        raise _wrong_length(header, size)
    if crc32c(view[CRC_START:]) != header.crc:
        raise BatchError(ErrorCode.corrupt_message, "the batch's CRC does not match its bytes")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise BatchError(
            ErrorCode.invalid_record,
            f"{header.record_count} records, but last offset delta {header.last_offset_delta}",
        )
    if header.attributes & CODEC_MASK > _HIGHEST_CODEC:
        raise BatchError(
            ErrorCode.unsupported_compression_type, f"unknown compression codec {header.codec}"
        )
    return header


def stamp(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes the broker's fields into the batch at the start of the buffer."""
    struct.pack_into(">q", buffer, 0, base_offset)
    struct.pack_into(">i", buffer, LENGTH_PREFIX, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, append_time: int) -> None:
    """Writes the broker's time into the batch at the start of the buffer; updates the CRC, which
    covers the time."""
    view = memoryview(buffer)
    (attributes,) = struct.unpack_from(">h", view, CRC_START)
    struct.pack_into(">h", view, CRC_START, attributes | LOG_APPEND_TIME)
    struct.pack_into(">q", view, _MAX_TIMESTAMP_AT, append_time)
    struct.pack_into(">I", view, _CRC_AT, crc32c(view[CRC_START:]))


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each batch that is complete in `buffer`, up to the first
    incomplete one.

    Trusts lengths only within the buffer; checks no CRC.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.size < HEADER_SIZE or position + header.size > end:
            return
        yield position, header
        position += header.size


def _old_format(magic: int) -> BatchError:
    return BatchError(
        ErrorCode.unsupported_for_message_format,
        f"record format {magic} is not supported, only {MAGIC} (Kafka 0.11 and newer)",
    )


def _wrong_length(header: BatchHeader, size: int) -> BatchError:
    if HEADER_SIZE <= header.size < size:
        return BatchError(
            ErrorCode.invalid_record,
            "one record batch per partition and request: "
            f"the first ends at {header.size} of {size} bytes",
        )
    return BatchError(
        ErrorCode.corrupt_message,
        f"the batch says it has {header.size} bytes, {size} were sent",
    )
