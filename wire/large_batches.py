"""Whether the records of a large batch are what they must be, piece by piece.

The same questions as `wire.record_check` asks, for batches that would hold up an event loop or its
memory if they were looked through at once: a megabyte may unpack to sixty, or be a record with half
a million headers, each of which becomes an object. `unpack_large` may run on any thread, and leaves
the interpreter to others meanwhile. So does `walk_large`, which does all there is to do, where
`_records.c` is compiled. Where it is not, `LargeBatch.check` takes turns: it yields after each
piece. Records are cut by their lengths, and those of usual size are parsed many at a time by
aiokafka's C parser; the header that it wants before them is written over records that have been
looked at already. Large records are looked at here, without copying what they hold.
"""

import mmap
from collections.abc import Callable, Iterator
from typing import Final

from wire.batch import CODEC_MASK, HEADER, HEADER_SIZE, BatchHeader
from wire.compression import Codec, unpack_frame
from wire.errors import BatchError
from wire.record_check import SLACK, check_forms, invalid, length_at, parse, walk_batch

_LARGE_RECORD: Final = 64 * 1024
_MOST_HEADERS: Final = 65_536
_INT64_SIZE: Final = 10  # bytes that a varint of 64 bits may have
_PIECE: Final = 64 * 1024
_RECORDS_A_PIECE: Final = 4096


def unpack_large(batch: memoryview, header: BatchHeader, limit: int) -> memoryview:
    """The batch in memory of its own, with its records unpacked; at most `limit` bytes of them."""
    codec = header.attributes & CODEC_MASK
    if not codec:
        room = memoryview(bytearray(len(batch) + SLACK))
        room[: len(batch)] = batch
        return room[: len(batch)]
    # In pages that become memory only when they are written.
    pages = mmap.mmap(-1, HEADER_SIZE + limit + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room = memoryview(pages)
    try:
        size = unpack_frame(Codec(codec), batch[HEADER_SIZE:], room[HEADER_SIZE:-SLACK])
    except BatchError as error:
        raise invalid(str(error)) from None
    return room[: HEADER_SIZE + size]


def walk_large(batch: memoryview, header: BatchHeader, limit: int, *, keyed: bool) -> None:
    """Raise `BatchError` if the records are not what they must be. Walks over its own copy: whom
    the batch was received from may leave, and its memory be another's."""
    walk_batch(unpack_large(batch, header, limit), header.record_count, keyed)


class LargeBatch:
    """One that `unpack_large` has unpacked to `plain`. `allows` is asked whether the forms of so
    many records may be looked at, which takes time."""

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
        """Raise `BatchError` if its records are not what they must be. Overwrites them."""
        plain = self._plain
        end = len(plain)
        start = at = HEADER_SIZE  # of the records that were cut and not parsed, and behind them
        first = 0
        try:
            for number in range(self._count):
                byte = plain[at]
                if not byte & 0x81:  # one byte, and not below zero
                    size, body = byte >> 1, at + 1
                elif not byte & 1 and plain[at + 1] < 0x80:  # two
                    size, body = (plain[at + 1] << 7 | byte & 0x7F) >> 1, at + 2
                else:
                    size, body = length_at(plain, at)
                behind = body + size
                if size < 0 or behind > end:
                    raise invalid(f"a record of {size} bytes at byte {at} of {end}")
                large = size > _LARGE_RECORD
                if large or behind - start > _PIECE or number - first >= _RECORDS_A_PIECE:
                    self._parse(start, at, range(first, number))
                    start, first = at, number
                    yield
                if large:
                    _check_record(plain[:behind], body, number, keyed=self._keyed)
                    start, first = behind, number + 1
                at = behind
        except IndexError:
            raise invalid("malformed records: they end in the middle of one") from None
        if at != end:
            raise invalid(f"{end - at} bytes behind {self._count} records")
        self._parse(start, at, range(first, self._count))

    def _parse(self, start: int, end: int, offsets: range) -> None:
        if not offsets:
            return
        piece = self._plain[start - HEADER_SIZE : end]
        HEADER.pack_into(piece, 0, *self._fields._replace(record_count=len(offsets)))
        parse(piece, list(offsets), self._keyed)
        if self._allows(len(offsets)):
            check_forms(piece, len(offsets))


def _check_record(plain: memoryview, at: int, offset: int, *, keyed: bool) -> None:
    """The last record of `plain`, whose body begins at `at`."""
    end = len(plain)
    if plain[at] > 0x7F:
        raise invalid(f"a record's attributes are {plain[at]:#04x}, beyond 0x7f")
    times = at + 1
    at = times
    while plain[at] > 0x7F:
        at += 1
    if at - times >= _INT64_SIZE:
        raise invalid("a time of more than ten bytes")
    found, at = length_at(plain, at + 1)
    if found != offset:
        raise invalid(f"offset delta {found} where {offset} must be", offset)
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
