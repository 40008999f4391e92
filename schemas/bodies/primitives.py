"""Writes values of Avro's primitive types, enums and fixed into a buffer.

A value that is not exactly of the type raises `Misfit`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ground.varints import BLOCK, SMALL, VARINTS, whole, write_long
from schemas.bodies.refusals import no
from schemas.definitions.types import Fixed, Primitive

Write = Callable[[bytearray, Any], None]

MOST_SYMBOLS: Final = 10  # that an error message lists

pack_float = struct.Struct("<f").pack
pack_double = struct.Struct("<d").pack
_NOT_PACKED: Final = (TypeError, OverflowError, struct.error)


def sized(body: bytes) -> bytes:
    """Returns the body with its length in front."""
    return VARINTS[len(body)] + body


def _write_null(_out: bytearray, value: Any) -> None:
    if value is not None:
        raise no(value, "not null")


def _write_boolean(out: bytearray, value: Any) -> None:
    if value.__class__ is not bool:
        raise no(value, "not a boolean")
    out.append(value)


def _write_int(out: bytearray, value: Any) -> None:
    try:
        number = value if value.__class__ is int else whole(value)
    except TypeError:
        raise no(value, "not an int") from None
    if not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise no(value, "not an int")
    if 0 <= number < BLOCK:
        out += SMALL[number]
    else:
        write_long(out, number)


def _write_long(out: bytearray, value: Any) -> None:
    if value.__class__ is int and 0 <= value < BLOCK:
        out += SMALL[value]
        return
    try:
        write_long(out, value)
    except (TypeError, OverflowError):
        raise no(value, "not a long") from None


def _write_float(out: bytearray, value: Any) -> None:
    try:
        out += pack_float(value if value.__class__ is float else _floating(value))
    except _NOT_PACKED:
        raise no(value, "not a float") from None


def _write_double(out: bytearray, value: Any) -> None:
    try:
        out += pack_double(value if value.__class__ is float else _floating(value))
    except _NOT_PACKED:
        raise no(value, "not a double") from None


def _floating(value: Any) -> float:
    return value if isinstance(value, float) else whole(value)


def write_string(out: bytearray, value: Any) -> None:
    try:
        body = value.encode()
    except (AttributeError, TypeError, UnicodeEncodeError):
        raise no(value, "not a string") from None
    size = len(body)
    out += SMALL[size] if size < BLOCK else VARINTS[size]
    out += body


def _write_bytes(out: bytearray, value: Any) -> None:
    try:
        view = memoryview(value)
    except TypeError:
        raise no(value, "not bytes") from None
    with view:
        write_long(out, view.nbytes)
        out += view


def _fixed_writer(size: int) -> Write:
    def write(out: bytearray, value: Any) -> None:
        try:
            view = memoryview(value)
        except TypeError:
            raise no(value, f"not {size} bytes") from None
        with view:
            if view.nbytes != size:
                raise no(value, f"not {size} bytes")
            out += view

    return write


def symbol_bodies(symbols: Sequence[str]) -> dict[str, bytes]:
    return {symbol: VARINTS[index] for index, symbol in enumerate(symbols)}


def enum_writer(symbols: Sequence[str]) -> Write:
    bodies = symbol_bodies(symbols)
    shown_symbols = ", ".join(symbols[:MOST_SYMBOLS]) + (
        " …" if len(symbols) > MOST_SYMBOLS else ""
    )

    def write(out: bytearray, value: Any) -> None:
        try:
            out += bodies[value]
        except (KeyError, TypeError):
            raise no(value, f"none of {shown_symbols}") from None

    return write


def exact_writer(type_: Primitive | Fixed) -> Write:
    return _fixed_writer(type_.size) if isinstance(type_, Fixed) else _PRIMITIVES[type_.kind]


_PRIMITIVES: Final[dict[str, Write]] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_int,
    "long": _write_long,
    "float": _write_float,
    "double": _write_double,
    "bytes": _write_bytes,
    "string": write_string,
}
