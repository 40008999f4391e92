"""Checks the records of large batches piece by piece.

The same checks as in `wire.record_batches.record_check`, for batches that would block an event loop
or exhaust its memory if checked at once: a megabyte may decompress to sixty, or be a record with
half a million headers, each of which becomes an object. `unpack_large` may run on any thread, and
releases the interpreter. So does `walk_large`, which does the whole check, if `_records.c` is
compiled. Otherwise `LargeBatch.check` takes turns: it yields after each piece. Records are cut by
their lengths, and those of ordinary size are parsed many at a time by aiokafka's C parser; the
header that it needs is written over records that are already checked. Large records are checked
here, without copying their contents.
"""

import mmap
from collections.abc import Callable, Iterator
from typing import Final

from wire.errors import BatchError
from wire.record_batches.batch import CODEC_MASK, HEADER, HEADER_SIZE, BatchHeader
from wire.record_batches.compression import Codec, unpack_frame
from wire.record_batches.record_check import (
    SLACK,
    check_forms,
    invalid,
    length_at,
    parse,
    walk_batch,
)

_LARGE_RECORD: Final = 64 * 1024
_MOST_HEADERS: Final = 65_536
_INT64_SIZE: Final = 10  # bytes that a varint of 64 bits may have
_PIECE: Final = 64 * 1024
_RECORDS_A_PIECE: Final = 4096


def unpack_large(batch: memoryview, header: BatchHeader, limit: int) -> memoryview:
    """Returns the batch in its own memory with its records uncompressed, at most `limit` bytes."""
    codec = header.attributes & CODEC_MASK
    if not codec:
        room = memoryview(bytearray(len(batch) + SLACK))
        room[: len(batch)] = batch
        return room[: len(batch)]
    # In pages that take memory only when they are written.
    pages = mmap.mmap(-1, HEADER_SIZE + limit + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room = memoryview(pages)
    try:
        size = unpack_frame(Codec(codec), batch[HEADER_SIZE:], room[HEADER_SIZE:-SLACK])
    except BatchError as error:
        raise invalid(str(error)) from None
    return room[: HEADER_SIZE + size]


def walk_large(batch: memoryview, header: BatchHeader, limit: int, *, keyed: bool) -> None:
    """Checks the records in a copy of the batch, as the connection's memory may be reused
    meanwhile. Raises `BatchError`."""
    walk_batch(unpack_large(batch, header, limit), header.record_count, keyed)


class LargeBatch:
    """A batch that `unpack_large` has unpacked to `plain`. `allows` returns whether the forms of
    this many records may be checked, which takes time."""

    def __init__(
        self,
        plain: memoryview,
        header: BatchHeader,
        *,
        keyed: bool,
        allows: Callable[[int], bool],
    ) -> None:
        self._plain = plain
        self._count = header.record_count
        self._fields = header._replace(attributes=0)
        self._keyed = keyed
        self._allows = allows

    def check(self) -> Iterator[None]:
        """Checks the records, and overwrites them. Raises `BatchError`."""
        batch = self._plain
        end = len(batch)
        start = at = HEADER_SIZE  # start and end of records that are cut and not parsed
        first_number = 0
        try:
            for record_number in range(self._count):
                byte = batch[at]
                if not byte & 0x81:  # one byte, not negative
                    size, body = byte >> 1, at + 1
                elif not byte & 1 and batch[at + 1] < 0x80:  # two
                    size, body = (batch[at + 1] << 7 | byte & 0x7F) >> 1, at + 2
                else:
                    size, body = length_at(batch, at)
                record_end = body + size
                if size < 0 or record_end > end:
                    raise invalid(f"invalid record size {size} at byte {at} of {end}")
                large = size > _LARGE_RECORD
                if (
                    large
                    or record_end - start > _PIECE
                    or record_number - first_number >= _RECORDS_A_PIECE
                ):
                    self._parse(start, at, range(first_number, record_number))
                    start, first_number = at, record_number
                    yield
                if large:
                    _check_record(batch[:record_end], body, record_number, keyed=self._keyed)
                    start, first_number = record_end, record_number + 1
                at = record_end
        except IndexError:
            raise invalid("malformed records: the last record is incomplete") from None
        if at != end:
            raise invalid(f"{end - at} bytes after the last of {self._count} records")
        self._parse(start, at, range(first_number, self._count))

    def _parse(self, start: int, end: int, offsets: range) -> None:
        if not offsets:
            return
        piece = self._plain[start - HEADER_SIZE : end]
        HEADER.pack_into(piece, 0, *self._fields._replace(record_count=len(offsets)))
        parse(piece, list(offsets), self._keyed)
        if self._allows(len(offsets)):
            check_forms(piece, len(offsets))


def _check_record(plain: memoryview, at: int, offset: int, *, keyed: bool) -> None:
    """Checks the last record of `plain`, whose body begins at `at`."""
    end = len(plain)
    if plain[at] > 0x7F:
        raise invalid(f"a record's attributes are {plain[at]:#04x}, beyond 0x7f")
    time_start = at + 1
    at = time_start
    while plain[at] > 0x7F:
        at += 1
    if at - time_start >= _INT64_SIZE:
        raise invalid("a timestamp delta of more than ten bytes")
    offset_delta, at = length_at(plain, at + 1)
    if offset_delta != offset:
        raise invalid(f"offset delta {offset_delta}, expected {offset}", offset)
    size, at = length_at(plain, at)
    if keyed and size < 0:
        raise invalid("a compacted topic needs a key in every record", offset)
    size, at = length_at(plain, at + max(size, 0))
    count, at = length_at(plain, at + max(size, 0))
    if not 0 <= count <= _MOST_HEADERS:
        raise invalid(f"a record with {count} headers, at most {_MOST_HEADERS} are accepted")
    for _ in range(count):
        size, at = length_at(plain, at)
        if size < 0 or at + size > end:
            raise invalid(f"a header's name of {size} bytes")
        try:
            str(plain[at : at + size], "utf-8")
        except UnicodeDecodeError as error:
            raise invalid(f"a header's name is not UTF-8: {error.reason}") from None
        size, at = length_at(plain, at + size)
        at += max(size, 0)
    if at != end:
        raise invalid(f"malformed records: offset delta {offset} ends at byte {at}, not {end}")
