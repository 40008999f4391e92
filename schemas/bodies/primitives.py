"""Avro's primitive types, enums and fixed, appended to a buffer.

A value that is not of the type is refused: with a ValueError, TypeError, KeyError, AttributeError,
OverflowError or struct.error, whichever costs the others least.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ground.varints import BLOCK, SMALL, long_bytes, whole, write_long

Write = Callable[[bytearray, Any], None]

_pack_float = struct.Struct("<f").pack
_pack_double = struct.Struct("<d").pack


def _write_int(out: bytearray, value: Any) -> None:
    if value.__class__ is not int:
        value = whole(value)
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise OverflowError
    write_long(out, value)


def _write_null(out: bytearray, value: Any) -> None:
    if value is not None:
        raise TypeError("not None")


def _write_boolean(out: bytearray, value: Any) -> None:
    if value.__class__ is not bool:
        raise TypeError("no boolean")
    out.append(value)


def _write_float(out: bytearray, value: Any) -> None:
    if value.__class__ is not float:
        value = _floating(value)
    out += _pack_float(value)


def _write_double(out: bytearray, value: Any) -> None:
    if value.__class__ is not float:
        value = _floating(value)
    out += _pack_double(value)


def _floating(value: Any) -> Any:
    return value if isinstance(value, float) else whole(value)


def write_string(out: bytearray, value: Any) -> None:
    body = value.encode()
    size = len(body)
    if size < BLOCK:
        out += SMALL[size]
    else:
        write_long(out, size)
    out += body


def _write_bytes(out: bytearray, value: Any) -> None:
    with memoryview(value) as view:
        write_long(out, view.nbytes)
        out += view


def fixed_writer(size: int) -> Write:
    def write(out: bytearray, value: Any) -> None:
        with memoryview(value) as view:
            if view.nbytes != size:
                raise ValueError("a different size")
            out += view

    return write


def _nullable(null_prefix: bytes, prefix: bytes, write_other: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += null_prefix
        else:
            out += prefix
            write_other(out, value)

    return write


def enum_writer(symbols: Sequence[str]) -> Write:
    bodies = {symbol: long_bytes(index) for index, symbol in enumerate(symbols)}

    def write(out: bytearray, value: Any) -> None:
        out += bodies[value]

    return write


PRIMITIVE_WRITERS: Final[dict[str, Write]] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_int,
    "long": write_long,
    "float": _write_float,
    "double": _write_double,
    "bytes": _write_bytes,
    "string": write_string,
}
