"""Numbers as Avro and Kafka write them: zigzag, seven bits a byte. Small ones stand in a table."""

from typing import Final

from schemas.bodies.primitives import long_bytes

__all__ = ["VARINTS", "Varints", "long_bytes"]

_TABLE: Final = 1 << 13

_BITS: Final = 14
_MASK: Final = (1 << _BITS) - 1
_MORE: Final = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << _BITS)]


class Varints(dict[int, bytes]):
    """`VARINTS[n]` for any number of 64 bits; a larger one is an OverflowError.

    The table does not grow: what is not in it is computed. Keys must be of class int, since for a
    dict True is 1 and so is 1.0.
    """

    def __missing__(self, number: int) -> bytes:
        if 0 <= number < 1 << 27:
            twice = number << 1
            return _MORE[twice & _MASK] + self[_signed(twice >> _BITS)]
        return long_bytes(number)


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)


VARINTS: Final = Varints((n, long_bytes(n)) for n in range(-_TABLE, _TABLE))
