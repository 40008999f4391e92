"""Variable-length integers of Avro and Kafka: seven bits a byte, lowest first.

A long has 64 bits and a sign, which zigzag moves to the lowest bit: -1 is 1, 1 is 2. There are
three ways to write one, each chosen by measurement where it is used:

- `VARINTS[n]`, for a number known to be an int: a table has the small ones.
- `write_long`, for a value of any type, which it checks.
- For ascending columns, `LOW` and `high_bytes`: a table has the two lowest bytes of a larger
  number, and the bytes after them are the same for 8,192 numbers in a row.

Unsigned numbers (Kafka's lengths) are not zigzagged: `unsigned_varint`.
"""

import operator
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

# `write_long` writes 14 bits at a time: two bytes that are continued, or the last ones.
_BITS: Final = 14
_MASK: Final = (1 << _BITS) - 1
_MORE: Final = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << _BITS)]
_LAST: Final = [bytes((n,) if n < 0x80 else (n & 0x7F | 0x80, n >> 7)) for n in range(1 << _BITS)]

_ONE_BYTE: Final = [bytes([value]) for value in range(0x80)]
_MOST_BITS: Final = 70  # in the ten bytes of a long

BLOCK_BITS: Final = 13
BLOCK: Final = 1 << BLOCK_BITS

SMALL: Final = _LAST[::2]  # BLOCK longs
LOW: Final = [bytes((n << 1 & 0x7F | 0x80, n >> 6 | 0x80)) for n in range(BLOCK)]

# A non-negative number below the n-th of these takes at most n bytes.
_LIMITS: Final = [1 << (7 * size - 1) for size in range(1, 10)]


def write_long(out: bytearray, value: Any) -> None:
    """Appends the encoded value to `out`. Raises TypeError if it is not an integer, OverflowError
    if it is too large."""
    if value.__class__ is not int:
        value = whole(value)
    if not -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        raise OverflowError
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    while zigzag > _MASK:
        out += _MORE[zigzag & _MASK]
        zigzag >>= _BITS
    out += _LAST[zigzag]


def whole(value: Any) -> int:
    """Converts an integral value to int. Raises TypeError."""
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return operator.index(value)


def long_bytes(value: int) -> bytes:
    out = bytearray()
    write_long(out, value)
    return bytes(out)


def long_at(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Reads a long; returns it and the position after it. Raises IndexError at the end of the data,
    ValueError for more than ten bytes."""
    number = 0
    for shift in range(0, _MOST_BITS, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError(f"a varint of more than ten bytes ends at byte {at}")


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Varints(dict[int, bytes]):
    """Encodes numbers by lookup: `VARINTS[n]` is any 64-bit number, encoded; a larger one raises
    OverflowError.

    The table does not grow: other numbers are computed. Keys must be of class int, since for a dict
    True and 1.0 equal 1.
    """

    def __missing__(self, number: int) -> bytes:
        if BLOCK <= number < 1 << 63:
            return LOW[number & BLOCK - 1] + high_bytes(number >> BLOCK_BITS)
        return long_bytes(number)


def high_bytes(block: int) -> bytes:
    """Encodes a block's number, at least 1: the bytes that follow those of `LOW`."""
    return _HIGHS[block] if block < len(_HIGHS) else unsigned_varint(block)


def looked_up(numbers: Sequence[int], most: int) -> list[bytes]:
    """Encodes non-negative numbers up to `most` by looking them up in tables."""
    if most < BLOCK:
        return list(map(SMALL.__getitem__, numbers))
    if most < BLOCK * len(_HIGHS):
        return [
            SMALL[n] if n < BLOCK else LOW[n & BLOCK - 1] + _HIGHS[n >> BLOCK_BITS] for n in numbers
        ]
    return [VARINTS[number] for number in numbers]


def size_of(number: int) -> int:
    """Returns the encoded size of a non-negative number."""
    return bisect_right(_LIMITS, number) + 1


def next_size(number: int) -> int:
    """Returns the smallest greater number that takes more bytes."""
    index = bisect_right(_LIMITS, number)
    return _LIMITS[index] if index < len(_LIMITS) else 1 << 63


_HIGHS: Final = [unsigned_varint(block) for block in range(1 << 10)]
VARINTS: Final = Varints(enumerate(SMALL))
VARINTS.update((n, long_bytes(n)) for n in range(-64, 0))
