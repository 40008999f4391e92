"""Whether the records of a producer's batch are what its header says, looked at before it is kept.

A batch with the right CRC and garbage behind it stops everyone who reads its partition, for ever:
clients stay where it begins, and try again. So every batch is unpacked, and its records are looked
through. Refused is what is not: `record_count` records that end where the batch ends, with offsets
that ascend from the base one by one, headers whose names are UTF-8, in one compressed frame with
nothing behind it.

Where `_records.c` is compiled (`NATIVE`), it walks over all records where they lie, and asks
all that is asked, for 7 to 10 ns a record. The rest of this file is for where it is not: there,
aiokafka's C parser (`wire.unaided_records`) makes an object of each.

The parser looks up to twenty bytes behind the end before it notices that it is there, and believes
none of them: a record that went on there would not end where it must. So it is given a room of its
own, with so many bytes to spare. A batch for which that room is too small is left to
`wire.large_batches`.

Three things it takes that some client does not (`check_forms`). Nobody writes them by accident, and
to look for them costs five times as much, so that is done as far as an allowance goes: of every
batch where no more comes than that, and of a sample where more does.
"""

import re
from typing import Final

from wire.batch import CODEC_MASK, HEADER, HEADER_SIZE, MAX_SEQUENCE, BatchHeader
from wire.compression import Codec, TooLarge, unpack_frame
from wire.errors import BatchError, ErrorCode

try:
    from wire._records import walk
except ImportError:
    NATIVE = False
else:
    NATIVE = True

SLACK: Final = 32
# What is more than this is not looked at while everyone waits.
_LARGEST: Final = 1024 * 1024 + 4096  # unpacked; the default of `max.message.bytes`, and a bit
_LARGEST_PACKED: Final = 64 * 1024
_LARGEST_WALKED: Final = 4 * 1024 * 1024  # where there is nothing to unpack
_MOST_RECORDS: Final = 16_384

# Records whose forms are looked at: so many a millisecond, some 1 % of a core, and so many at once.
_ALLOWED_PER_MS: Final = 20
_MOST_ALLOWED: Final = 20_000

_OFFSETS: Final = list(range(_MOST_RECORDS))
_RECORD_NAMED: Final = re.compile(r"\(record ([0-9]{1,10})[,)]")
_INT32_SIZE: Final = 5  # bytes that a varint of 32 bits may have


class RecordCheck:
    """Looks through batches, one at a time, in memory that it keeps."""

    def __init__(self, *, native: bool = NATIVE) -> None:
        self._native = native
        self._largest = _LARGEST_WALKED if native else _LARGEST
        self._most_records = MAX_SEQUENCE if native else _MOST_RECORDS
        self._room = memoryview(bytearray(_LARGEST + SLACK))
        self._body = self._room[HEADER_SIZE:-SLACK]
        self._allowed = 0
        self._allowed_at = 0

    def check(self, batch: memoryview, header: BatchHeader, keyed: bool, now_ms: int) -> bool:
        """Raise `BatchError` if the records are not what they must be; False if the batch is too
        large to be looked through at once. `keyed`: each must have a key."""
        if header.base_offset:
            raise invalid(f"the base offset is {header.base_offset}, a producer's is 0")
        if header.record_count > self._most_records:
            return False
        if codec := header.attributes & CODEC_MASK:
            if len(batch) > _LARGEST_PACKED:
                return False
            try:
                size = unpack_frame(Codec(codec), batch[HEADER_SIZE:], self._body, certainly=True)
            except TooLarge:
                return False
            except BatchError as error:
                raise invalid(str(error)) from None
            batch = self._room[: HEADER_SIZE + size]
        elif len(batch) > self._largest:
            return False
        if self._native:
            walk_batch(batch, header.record_count, keyed)
        else:
            self._parse(batch, header, keyed, now_ms)
        return True

    def _parse(self, batch: memoryview, header: BatchHeader, keyed: bool, now_ms: int) -> None:
        """What `walk_batch` does, without it. What was unpacked is in the room already."""
        count, size = header.record_count, len(batch)
        plain = self._room[:size]
        if header.attributes & CODEC_MASK:
            HEADER.pack_into(plain, 0, *header._replace(attributes=0))
        else:
            plain[:] = batch
        parse(plain, _OFFSETS[:count], keyed)
        if now_ms != self._allowed_at:
            self.allow_more(now_ms)
        if self._allowed >= count:
            self._allowed -= count
            check_forms(plain, count)

    def allow_more(self, now_ms: int) -> None:
        """The time has gone on: look at the forms of some more."""
        gained = max(0, now_ms - self._allowed_at) * _ALLOWED_PER_MS
        self._allowed = min(_MOST_ALLOWED, self._allowed + gained)
        self._allowed_at = now_ms

    def allows(self, count: int) -> bool:
        """Whether the forms of so many records may be looked at, which is then done."""
        if self._allowed < count:
            return False
        self._allowed -= count
        return True


def walk_batch(plain: memoryview, count: int, keyed: bool) -> None:
    """Raise `BatchError` unless so many sound records are behind the header. Only if `NATIVE`."""
    try:
        walk(plain[HEADER_SIZE:], count, keyed)
    except ValueError as error:
        raise invalid(str(error), _record_named(error, count)) from None


def parse(plain: memoryview, offsets: list[int], keyed: bool) -> None:
    """Raise `BatchError` unless the batch that `plain` holds has records with these offsets."""
    from wire import unaided_records  # noqa: PLC0415  it imports all of aiokafka

    try:
        unaided_records.parse(plain, offsets, keyed)
    except ValueError as error:
        raise invalid(str(error), _record_named(error, offsets[-1] + 1)) from None


def _record_named(error: ValueError, count: int) -> int | None:
    """The number of the record that is at fault, if it is one of so many."""
    found = _RECORD_NAMED.search(str(error))
    return int(found[1]) if found and int(found[1]) < count else None


def check_forms(plain: memoryview, count: int) -> None:
    """Raise `BatchError` if some client cannot read records that could be parsed.

    The parser of aiokafka takes a record's attributes for a varint, where others see one byte. It
    reads numbers of up to ten bytes where Java reads five. And all lengths below zero are null to
    it, where librdkafka knows only -1, and stops at others.
    """
    at = HEADER_SIZE
    try:
        for _ in range(count):
            byte = plain[at]
            if byte < 0x80:
                at += 1
                end = at + (byte >> 1)
            elif plain[at + 1] < 0x80:
                end = at + 2 + ((plain[at + 1] << 7 | byte & 0x7F) >> 1)
                at += 2
            else:
                size, at = length_at(plain, at)
                end = at + size
            if plain[at] > 0x7F:
                raise invalid(f"a record's attributes are {plain[at]:#04x}, beyond 0x7f")
            at += 1
            while plain[at] > 0x7F:  # the time, which may be of ten bytes
                at += 1
            at += 1
            if plain[at] > 0x7F:  # the offset
                _, at = length_at(plain, at)
            else:
                at += 1
            if plain[at] == 1:  # null, as most keys are
                at += 1
            else:
                size, at = length_at(plain, at)
                at += max(size, 0)
            size, at = length_at(plain, at)
            at += max(size, 0)
            if plain[at]:
                _check_headers(plain, at)
            at = end
    except IndexError:
        raise invalid("malformed records: they end in the middle of one") from None


def _check_headers(plain: memoryview, at: int) -> None:
    count, at = length_at(plain, at)
    for _ in range(2 * count):
        size, at = length_at(plain, at)
        at += max(size, 0)


def length_at(data: memoryview, at: int) -> tuple[int, int]:
    """A number of 32 bits that is not below -1, and the position behind it."""
    byte = data[at]
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    if shift > 7 * _INT32_SIZE:
        raise invalid(f"a number of {shift // 7} bytes ends at byte {at}")
    if number & 1 and number != 1:
        raise invalid(f"a length of {-(number >> 1) - 1} at byte {at}")
    return (number >> 1) ^ -(number & 1), at + 1


def invalid(message: str, record: int | None = None) -> BatchError:
    """What Kafka, too, answers where a batch has the right CRC and the wrong bytes."""
    return BatchError(ErrorCode.invalid_record, message, record)
