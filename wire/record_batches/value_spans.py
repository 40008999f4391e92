"""Finds the values of many records, and one header of each, without making objects of them.

The records may be those of several batches, concatenated. `_records.c` walks over them; if it is
not compiled, a loop does, some fifty times as slowly. Lengths, but not offsets and times, are
checked. Pure.
"""

import array
from typing import Final

from ground.varints import long_at
from wire.errors import BatchError, ErrorCode

try:
    from wire._records import spans
except ImportError:
    NATIVE = False
else:
    NATIVE = True

NUMBERS: Final = 4  # a record: the value's first byte and its end, and the header's
ABSENT: Final = -1

_MOST_HEADERS: Final = 65_536
_ITEM: Final = "q"


def value_spans(
    records: bytes | memoryview, count: int, header: bytes, *, native: bool = NATIVE
) -> memoryview:
    """Returns `NUMBERS` integers for each record: where its value begins and ends, and where the
    value of its first header with this name does; `ABSENT` for what is not there. Raises
    BatchError."""
    try:
        if native:
            return memoryview(spans(records, count, header)).cast(_ITEM)
        return memoryview(_found(records, count, header))
    except (ValueError, IndexError) as error:
        raise BatchError(
            ErrorCode.corrupt_message, str(error) or "the last record is incomplete"
        ) from None


def _found(records: bytes | memoryview, count: int, header: bytes) -> "array.array[int]":
    found_spans = array.array(_ITEM)
    position = 0
    for _ in range(count):
        size, start = long_at(records, position)
        position = start + size
        if size < 0 or position > len(records):
            raise ValueError(f"malformed records: a record of {size} bytes")
        found_spans.extend(_of_record(records[start:position], start, header))
    if position != len(records):
        raise ValueError(f"{len(records) - position} bytes behind {count} records")
    return found_spans


def _of_record(record: bytes | memoryview, start: int, header: bytes) -> tuple[int, int, int, int]:
    """Returns the spans in a record, which begins at `start`."""
    _, at = long_at(record, 1)  # after the attributes: the time
    _, at = long_at(record, at)  # the offset
    _, _, at = _sized(record, at)  # the key
    value_start, value_end, at = _sized(record, at)
    header_start = header_end = ABSENT
    count, at = long_at(record, at)
    if not 0 <= count <= _MOST_HEADERS:
        raise ValueError(f"a record with {count} headers")
    is_sought = True
    for _ in range(count):
        name_start, name_end, at = _sized(record, at)
        if name_start == ABSENT:
            raise ValueError("a header without a name")
        other_start, other_end, at = _sized(record, at)
        if is_sought and record[name_start:name_end] == header:
            header_start, header_end, is_sought = other_start, other_end, False
    if at != len(record):
        raise ValueError(f"{len(record) - at} bytes behind what a record holds")
    value_start, value_end, header_start, header_end = (
        place if place == ABSENT else start + place
        for place in (value_start, value_end, header_start, header_end)
    )
    return value_start, value_end, header_start, header_end


def _sized(record: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Returns where a value begins and ends, and where the next one begins."""
    size, at = long_at(record, at)
    if size < 0:
        return ABSENT, ABSENT, at
    if at + size > len(record):
        raise ValueError(f"malformed records: {size} bytes in a record that has not as many left")
    return at, at + size, at + size
