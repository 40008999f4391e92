"""Reads records with aiokafka's C parser, where `_records.c` is not compiled.

It makes an object of each record, which takes 100 to 300 ns, and importing it costs 45 ms and 5 MB,
because aiokafka imports its whole client. So this module is only imported where it is needed.
"""

from collections.abc import Iterator
from operator import attrgetter, ne
from typing import Final

from aiokafka.errors import CorruptRecordException

# Imported by its own name: without the C extension it must fail, not be thirty times slower.
from aiokafka.record._crecords import DefaultRecordBatch

from ground.varints import long_at
from wire.record_batches.batch import CODEC_MASK, HEADER, NO_TIMESTAMP, BatchHeader

# The parser reads up to two bytes beyond the end before it notices.
_SLACK: Final = bytes(16)
# A header of two bytes becomes an object of 64, all of a record's at once. Batches beyond this size
# are searched for records that would become gigabytes.
_SUSPICIOUS_BATCH: Final = 4 * 1024 * 1024
_SUSPICIOUS_RECORD: Final = 1024 * 1024
_MAX_HEADERS: Final = 65_536

# MemoryError: a length near 2⁶³ overflows in the parser's own check. A valid length requires at
# most the size of the buffer.
_MALFORMED: Final = (CorruptRecordException, UnicodeDecodeError, OverflowError, MemoryError)
_offset: Final = attrgetter("offset")
_key: Final = attrgetter("key")

Fields = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def parsed(unpacked: bytes | memoryview, header: BatchHeader) -> Iterator[Fields]:
    """Yields offset, time, key, value and headers of a batch's records. Raises ValueError."""
    if len(unpacked) > _SUSPICIOUS_BATCH:
        _refuse_header_bombs(unpacked, header.record_count)
    plain_header = header._replace(attributes=header.attributes & ~CODEC_MASK)
    buffer = b"".join((HEADER.pack(*plain_header), unpacked, _SLACK))
    previous_offset, last_offset = header.base_offset - 1, header.last_offset
    try:
        for record in DefaultRecordBatch(memoryview(buffer)[: -len(_SLACK)]):
            offset = record.offset
            if not previous_offset < offset <= last_offset:
                raise ValueError(
                    f"offset {offset} after {previous_offset} in a batch of {header.base_offset} "
                    f"to {last_offset}"
                )
            previous_offset = offset
            timestamp, headers = record.timestamp, record.headers
            yield (
                offset,
                NO_TIMESTAMP if timestamp is None else timestamp,
                record.key,
                record.value,
                tuple(headers) if headers else (),
            )
    except _MALFORMED as error:
        raise ValueError(f"malformed records: {error or type(error).__name__}") from error


def parse(plain: memoryview, offsets: list[int], keyed: bool) -> None:
    """Checks that the batch in `plain` has records with these offsets. Raises ValueError."""
    try:
        if keyed:
            records = list(DefaultRecordBatch(plain))
            actual_offsets = list(map(_offset, records))
            keys = list(map(_key, records))
            if None in keys:
                record_number = offsets[keys.index(None)]
                raise ValueError(
                    f"a compacted topic needs a key in every record (record {record_number})"
                )
        else:
            actual_offsets = list(map(_offset, DefaultRecordBatch(plain)))
    except _MALFORMED as error:
        raise ValueError(f"malformed records: {error or type(error).__name__}") from None
    if actual_offsets != offsets:
        delta, expected_delta = next(
            pair for pair in zip(actual_offsets, offsets, strict=True) if ne(*pair)
        )
        raise ValueError(
            f"offset delta {delta}, expected {expected_delta} (record {expected_delta})"
        )


def _refuse_header_bombs(unpacked: bytes | memoryview, record_count: int) -> None:
    at = 0
    try:
        for _ in range(record_count):
            length, start = long_at(unpacked, at)
            at = start + length
            if length < 0 or at > len(unpacked):
                raise ValueError(f"invalid record size {length} at byte {start} of {len(unpacked)}")
            if (
                length > _SUSPICIOUS_RECORD
                and (count := _header_count(unpacked, start)) > _MAX_HEADERS
            ):
                raise ValueError(f"a record with {count} headers, more than {_MAX_HEADERS}")
    except IndexError as error:
        raise ValueError("malformed records: the last record is incomplete") from error


def _header_count(unpacked: bytes | memoryview, record: int) -> int:
    at = record + 1  # attributes
    _, at = long_at(unpacked, at)  # timestamp
    _, at = long_at(unpacked, at)  # offset
    for _ in ("key", "value"):
        length, at = long_at(unpacked, at)
        at += max(length, 0)
    return long_at(unpacked, at)[0]
