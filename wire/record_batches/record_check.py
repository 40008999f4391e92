"""Checks that a producer's records match the batch header, before the batch is stored.

A batch with the right CRC and garbage inside blocks every reader of its partition forever: clients
stop where it begins, and retry. So every batch is decompressed, and its records are walked. They
must be `record_count` records that end where the batch ends, with offsets that ascend by one from
the base, and headers with UTF-8 names, in one compressed frame without trailing bytes.

If `_records.c` is compiled (`NATIVE`), it walks over all records in place and does all checks, for
7 to 10 ns a record. The rest of this file is for Python without it: there, aiokafka's C parser
(`wire.record_batches.unaided_records`) makes an object of each.

The parser reads up to twenty bytes beyond the end before it notices, but does not accept them: a
record that went on there would not end where it must. So it gets a buffer with as many bytes to
spare. A batch too large for that buffer is left to `wire.record_batches.large_batches`.

It accepts three things that some client does not (`check_forms`). No client writes them by
accident, and checking costs five times as much. So that check has an allowance: it covers every
batch while traffic is below it, and a sample above.
"""

import re
from typing import Final

from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import CODEC_MASK, HEADER, HEADER_SIZE, MAX_SEQUENCE, BatchHeader
from wire.record_batches.compression import Codec, TooLarge, unpack_frame

try:
    from wire._records import walk
except ImportError:
    NATIVE = False
else:
    NATIVE = True

SLACK: Final = 32
# Larger batches are not checked at once, since everything else would wait.
_LARGEST: Final = (
    1024 * 1024 + 4096
)  # uncompressed; a little above the default of `max.message.bytes`
_LARGEST_PACKED: Final = 64 * 1024
_LARGEST_WALKED: Final = 4 * 1024 * 1024  # if uncompressed
_MOST_RECORDS: Final = 16_384

# The allowance in records: per millisecond, about 1 % of a core, and at once.
_ALLOWED_PER_MS: Final = 20
_MOST_ALLOWED: Final = 20_000

_OFFSETS: Final = list(range(_MOST_RECORDS))
_RECORD_NAMED: Final = re.compile(r"\(record ([0-9]{1,10})[,)]")
_INT32_SIZE: Final = 5  # the longest varint of 32 bits


class RecordCheck:
    """Checks the records of batches, one batch at a time, in a buffer of its own."""

    def __init__(self, *, native: bool = NATIVE) -> None:
        self._native = native
        self._largest = _LARGEST_WALKED if native else _LARGEST
        self._most_records = MAX_SEQUENCE if native else _MOST_RECORDS
        self._room = memoryview(bytearray(_LARGEST + SLACK))
        self._body = self._room[HEADER_SIZE:-SLACK]
        self._allowed = 0
        self._allowed_at = 0

    def check(self, batch: memoryview, header: BatchHeader, keyed: bool, now_ms: int) -> bool:
        """Checks the records; returns False if the batch is too large to be checked at once. With
        `keyed`, each record must have a key. Raises `BatchError`."""
        if header.base_offset:
            raise invalid(f"the base offset is {header.base_offset}, a producer's must be 0")
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
        """`walk_batch` without the C module; decompressed records are in the buffer already."""
        count, size = header.record_count, len(batch)
        unpacked_batch = self._room[:size]
        if header.attributes & CODEC_MASK:
            HEADER.pack_into(unpacked_batch, 0, *header._replace(attributes=0))
        else:
            unpacked_batch[:] = batch
        parse(unpacked_batch, _OFFSETS[:count], keyed)
        if now_ms != self._allowed_at:
            self.allow_more(now_ms)
        if self._allowed >= count:
            self._allowed -= count
            check_forms(unpacked_batch, count)

    def allow_more(self, now_ms: int) -> None:
        """Adds the allowance for the time since the last call."""
        allowance = max(0, now_ms - self._allowed_at) * _ALLOWED_PER_MS
        self._allowed = min(_MOST_ALLOWED, self._allowed + allowance)
        self._allowed_at = now_ms

    def allows(self, count: int) -> bool:
        """Returns whether the forms of this many records may be checked; deducts them from the
        allowance."""
        if self._allowed < count:
            return False
        self._allowed -= count
        return True


def walk_batch(plain: memoryview, count: int, keyed: bool) -> None:
    """Checks that this many valid records follow the header. Raises `BatchError`. Requires
    `NATIVE`."""
    try:
        walk(plain[HEADER_SIZE:], count, keyed)
    except ValueError as error:
        raise invalid(str(error), _record_named(error, count)) from None


def parse(plain: memoryview, offsets: list[int], keyed: bool) -> None:
    """Checks that the batch in `plain` has records with these offsets. Raises `BatchError`."""
    from wire.record_batches import unaided_records  # noqa: PLC0415  imports all of aiokafka

    try:
        unaided_records.parse(plain, offsets, keyed)
    except ValueError as error:
        raise invalid(str(error), _record_named(error, offsets[-1] + 1)) from None


def _record_named(error: ValueError, count: int) -> int | None:
    """Returns the number of the faulty record, if the message names one of the batch."""
    match = _RECORD_NAMED.search(str(error))
    return int(match[1]) if match and int(match[1]) < count else None


def check_forms(plain: memoryview, count: int) -> None:
    """Checks that all clients can read the records. Raises `BatchError`.

    aiokafka's parser reads a record's attributes as a varint, other clients as one byte. It accepts
    numbers of up to ten bytes where Java accepts five. And it takes all negative lengths for null,
    where librdkafka accepts only -1 and stops at others.
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
            while plain[at] > 0x7F:  # the time, of up to ten bytes
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
        raise invalid("malformed records: the last record is incomplete") from None


def _check_headers(plain: memoryview, at: int) -> None:
    count, at = length_at(plain, at)
    for _ in range(2 * count):
        size, at = length_at(plain, at)
        at += max(size, 0)


def length_at(data: memoryview, at: int) -> tuple[int, int]:
    """Reads a 32-bit number that is at least -1; returns it and the position after it."""
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
        raise invalid(f"invalid length {-(number >> 1) - 1} at byte {at}")
    return (number >> 1) ^ -(number & 1), at + 1


def invalid(message: str, record: int | None = None) -> BatchError:
    """Returns the error for a batch with a correct CRC and invalid content, with the code that
    Kafka uses."""
    return BatchError(ErrorCode.invalid_record, message, record)
