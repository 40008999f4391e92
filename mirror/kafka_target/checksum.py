"""The CRC of a batch whose header was written anew, without a look at its records.

CRC-32C is linear: two messages of the same length whose first 40 bytes differ have CRCs that differ
by the CRC of that difference, moved on by as many zero bytes as follow. So the new CRC comes from
the old one and the two headers. What happened to the records on their way here is not blessed by
it: a batch that was damaged has a CRC that is as wrong as before, and the target refuses it.

Polynomials over GF(2) modulo Castagnoli's, bits reversed as CRCs have them: bit 31 is x⁰. Moving on
goes by the hexadecimal digits of the number of zero bytes, with a table for each, made when it is
first needed. Pure.
"""

from array import array
from functools import cache
from typing import Final

from crc32c import crc32c

from wire.batch import CRC_START, HEADER, HEADER_SIZE, BatchHeader

_CASTAGNOLI: Final = 0x82F63B78
_ONE: Final = 1 << 31
_BYTE: Final = 1 << 23  # x⁸: one zero byte more
_DIGIT: Final = 4  # bits

Table = tuple["array[int]", ...]


def crc_with(header: BatchHeader, before: BatchHeader) -> int:
    """The CRC of a batch with this header and the records of one that had the other before."""
    moved = _covered(header) ^ _covered(before)
    zeros, shift = before.size - HEADER_SIZE, 0
    while zeros:
        if digit := zeros & 0xF:
            a, b, c, d = _table(digit << shift)
            moved = a[moved >> 24] ^ b[moved >> 16 & 0xFF] ^ c[moved >> 8 & 0xFF] ^ d[moved & 0xFF]
        zeros >>= _DIGIT
        shift += _DIGIT
    return before.crc ^ moved


def _covered(header: BatchHeader) -> int:
    return crc32c(HEADER.pack(*header)[CRC_START:])


@cache
def _table(zeros: int) -> Table:
    """What each byte of a CRC becomes, the highest first."""
    factor = _power(zeros)
    bits = [_times(factor, 1 << bit) for bit in range(32)]
    found = []
    for place in (24, 16, 8, 0):
        values = array("L", [0])
        for bit in bits[place : place + 8]:
            values.extend(array("L", [value ^ bit for value in values]))
        found.append(values)
    return tuple(found)


def _power(zeros: int) -> int:
    found, base = _ONE, _BYTE
    while zeros:
        if zeros & 1:
            found = _times(found, base)
        base = _times(base, base)
        zeros >>= 1
    return found


def _times(one: int, other: int) -> int:
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ (_CASTAGNOLI if other & 1 else 0)
    return product
