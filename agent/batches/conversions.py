"""What a line says, as the bytes of the primitive type that its schema wants. Pure.

Lines carry text where a schema has types, and JSON has one kind of number. So these take more than
a writer of Avro does, and nothing that would change the meaning:

1. Numbers may be text: "12", "-1.5e3". A whole number may be written 7.0, never 7.5.
2. `true` and `false` may be text, in any case of letters. Numbers are no booleans.
3. Where text is wanted, numbers and booleans become what JSON writes; lists and objects do not.
4. For bytes, text is its UTF-8.

What cannot be converted is a `Misfit`.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from agent.batches.refusals import Misfit, no
from ground.varints import VARINTS

Convert = Callable[[Any], bytes]

INT: Final = range(-(2**31), 2**31)
LONG: Final = range(-(2**63), 2**63)

_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?"
    r"|inf|infinity|nan)\s*",
    re.IGNORECASE,
)
_BOOLEANS: Final = {"true": b"\1", "false": b"\0"}

pack_float = struct.Struct("<f").pack
pack_double = struct.Struct("<d").pack


def whole(value: Any, kind: str) -> int:
    """The whole number that a value says, of any size."""
    if value.__class__ is int:
        return int(value)
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return int(value)
        number = floating(value, kind) if _NUMBER.fullmatch(value) else None
        if number is not None and number.is_integer():
            return int(number)
    elif isinstance(value, float):
        if value.is_integer():
            return int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise no(value, f"no {kind}")


def floating(value: Any, kind: str) -> float:
    if value.__class__ is float:
        return float(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        try:
            return float(value)
        except OverflowError:
            pass
    raise no(value, f"no {kind}")


def to_null(value: Any) -> bytes:
    if value is not None:
        raise no(value, "not null")
    return b""


def to_boolean(value: Any) -> bytes:
    if value is True:
        return b"\1"
    if value is False:
        return b"\0"
    found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise no(value, "no boolean")
    return found


def to_int(value: Any) -> bytes:
    number = whole(value, "int")
    if number not in INT:
        raise no(value, "no int, which has 32 bits")
    return VARINTS[number]


def to_long(value: Any) -> bytes:
    number = whole(value, "long")
    if number not in LONG:
        raise no(value, "no long, which has 64 bits")
    return VARINTS[number]


def to_float(value: Any) -> bytes:
    try:
        return pack_float(floating(value, "float"))
    except OverflowError:
        raise no(value, "no float, which has 32 bits") from None


def to_double(value: Any) -> bytes:
    return pack_double(floating(value, "double"))


def sized(body: bytes) -> bytes:
    """With its length in front."""
    return VARINTS[len(body)] + body


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        try:
            return repr(value)
        except ValueError:
            pass  # thousands of digits
    raise no(value, "no string")


def to_string(value: Any) -> bytes:
    return sized(utf8(text_of(value)))


def utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise no(text, "no string: half a surrogate pair has no UTF-8") from None


def raw(value: Any) -> bytes:
    """Bytes, or text as UTF-8."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return utf8(value)
    raise no(value, "neither bytes nor text")


def to_bytes(value: Any) -> bytes:
    return sized(raw(value))


def to_fixed(size: int) -> Convert:
    def convert(value: Any) -> bytes:
        body = raw(value)
        if len(body) != size:
            raise no(value, f"{len(body)} bytes long, not {size}")
        return body

    return convert


def to_enum(symbols: Sequence[str]) -> Convert:
    bodies = {symbol: VARINTS[index] for index, symbol in enumerate(symbols)}
    some = ", ".join(symbols[:10]) + (" …" if len(symbols) > 10 else "")

    def convert(value: Any) -> bytes:
        try:
            return bodies[value]
        except (KeyError, TypeError):
            raise no(value, f"none of {some}") from None

    return convert


PRIMITIVES: Final[dict[str, Convert]] = {
    "null": to_null,
    "boolean": to_boolean,
    "int": to_int,
    "long": to_long,
    "float": to_float,
    "double": to_double,
    "bytes": to_bytes,
    "string": to_string,
}

__all__ = [
    "PRIMITIVES",
    "Convert",
    "Misfit",
    "floating",
    "pack_double",
    "pack_float",
    "raw",
    "sized",
    "text_of",
    "to_bytes",
    "to_enum",
    "to_fixed",
    "to_int",
    "to_long",
    "to_string",
    "utf8",
    "whole",
]
