"""Computes the CRC of a batch with a rewritten header, without reading its records.

CRC-32C is linear: the CRCs of two messages of equal length that differ in their first 40 bytes
differ by the CRC of that difference, shifted by the number of zero bytes that follow. So the new
CRC follows from the old one and the two headers. Damage to the records remains detectable: the new
CRC is as wrong as the old one was, and the target rejects the batch.

Polynomials over GF(2) modulo Castagnoli's, with bits reversed as in CRCs: bit 31 is x⁰. Shifts use
the hexadecimal digits of the number of zero bytes, with a table for each, computed on first use.
Pure.
"""

from array import array
from functools import cache
from typing import Final

from crc32c import crc32c

from wire.record_batches.batch import CRC_START, HEADER, HEADER_SIZE, BatchHeader

_CASTAGNOLI: Final = 0x82F63B78
_ONE: Final = 1 << 31
_BYTE: Final = 1 << 23  # x⁸: one more zero byte
_DIGIT: Final = 4  # bits

Table = tuple["array[int]", ...]


def crc_with(header: BatchHeader, before: BatchHeader) -> int:
    """The CRC of a batch with the header replaced; `before` is its old header."""
    difference = _covered(header) ^ _covered(before)
    zeros, shift = before.size - HEADER_SIZE, 0
    while zeros:
        if digit := zeros & 0xF:
            a, b, c, d = _table(digit << shift)
            difference = (
                a[difference >> 24]
                ^ b[difference >> 16 & 0xFF]
                ^ c[difference >> 8 & 0xFF]
                ^ d[difference & 0xFF]
            )
        zeros >>= _DIGIT
        shift += _DIGIT
    return before.crc ^ difference


def _covered(header: BatchHeader) -> int:
    return crc32c(HEADER.pack(*header)[CRC_START:])


@cache
def _table(zeros: int) -> Table:
    """The shifted value of each byte of a CRC, highest byte first."""
    factor = _power(zeros)
    bits = [_times(factor, 1 << bit) for bit in range(32)]
    tables = []
    for shift_bits in (24, 16, 8, 0):
        values = array("L", [0])
        for bit in bits[shift_bits : shift_bits + 8]:
            values.extend(array("L", [value ^ bit for value in values]))
        tables.append(values)
    return tuple(tables)


def _power(zeros: int) -> int:
    power, base = _ONE, _BYTE
    while zeros:
        if zeros & 1:
            power = _times(power, base)
        base = _times(base, base)
        zeros >>= 1
    return power


def _times(left: int, right: int) -> int:
    product = 0
    while left:
        if left & _ONE:
            product ^= right
        left = (left << 1) & 0xFFFFFFFF
        right = (right >> 1) ^ (_CASTAGNOLI if right & 1 else 0)
    return product
