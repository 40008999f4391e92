"""Numbers as Avro and Kafka write them: zigzag, seven bits a byte, the lowest first.

Small ones stand in a table. Of a larger one, the two lowest bytes do (`LOW`), and what follows them
(`high_bytes`) is the same for 8,192 numbers in a row: a column that ascends needs it rarely.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from schemas.bodies.primitives import long_bytes

__all__ = [
    "BLOCK",
    "BLOCK_BITS",
    "LOW",
    "SMALL",
    "VARINTS",
    "Varints",
    "high_bytes",
    "long_bytes",
    "looked_up",
    "next_size",
    "size_of",
]

BLOCK_BITS: Final = 13
BLOCK: Final = 1 << BLOCK_BITS

SMALL: Final = [long_bytes(n) for n in range(BLOCK)]
LOW: Final = [bytes((n << 1 & 0x7F | 0x80, n >> 6 | 0x80)) for n in range(BLOCK)]

# A number that is not negative and below one of these takes as many bytes as its place says.
_LIMITS: Final = [1 << (7 * size - 1) for size in range(1, 10)]


class Varints(dict[int, bytes]):
    """`VARINTS[n]` for any number of 64 bits; a larger one is an OverflowError.

    The table does not grow: what is not in it is computed. Keys must be of class int, since for a
    dict True is 1 and so is 1.0.
    """

    def __missing__(self, number: int) -> bytes:
        if BLOCK <= number < 1 << 63:
            return LOW[number & BLOCK - 1] + high_bytes(number >> BLOCK_BITS)
        return long_bytes(number)


def high_bytes(block: int) -> bytes:
    """What follows the two bytes of `LOW` in the numbers of this block, which is not the first."""
    return _HIGHS[block] if block < len(_HIGHS) else _septets(block)


def looked_up(numbers: Sequence[int], most: int) -> list[bytes]:
    """A column of numbers that are not negative, and none above `most`."""
    if most < BLOCK:
        return list(map(SMALL.__getitem__, numbers))
    if most < BLOCK * len(_HIGHS):
        return [
            SMALL[n] if n < BLOCK else LOW[n & BLOCK - 1] + _HIGHS[n >> BLOCK_BITS] for n in numbers
        ]
    return [VARINTS[n] for n in numbers]


def _septets(block: int) -> bytes:
    out = bytearray()
    while block > 0x7F:
        out.append(block & 0x7F | 0x80)
        block >>= 7
    out.append(block)
    return bytes(out)


def size_of(number: int) -> int:
    """Bytes of a number that is not negative."""
    return bisect_right(_LIMITS, number) + 1


def next_size(number: int) -> int:
    """The first number above it that takes more bytes."""
    place = bisect_right(_LIMITS, number)
    return _LIMITS[place] if place < len(_LIMITS) else 1 << 63


_HIGHS: Final = [_septets(block) for block in range(1 << 10)]
VARINTS: Final = Varints(enumerate(SMALL))
VARINTS.update((n, long_bytes(n)) for n in range(-64, 0))
