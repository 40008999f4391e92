"""Converts values from log lines to the Avro bytes of a schema's primitive type. Pure.

Lines carry text where a schema has types, and JSON has one number type. So these conversions accept
more than an Avro writer does, but nothing that would change the meaning:

1. Numbers may be text: "12", "-1.5e3". An integer may be written 7.0, but not 7.5.
2. `true` and `false` may be text, in upper or lower case. Numbers are not booleans.
3. For a string, numbers and booleans become their JSON text; lists and objects are rejected.
4. For bytes, text becomes its UTF-8.

A value that cannot be converted raises `Misfit`.
"""

import re
from typing import Any, Final

from ground.varints import VARINTS, write_long
from schemas.bodies.primitives import Write, pack_double, pack_float
from schemas.bodies.refusals import no

_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?"
    r"|inf|infinity|nan)\s*",
    re.IGNORECASE,
)
_BOOLEANS: Final = {"true": True, "false": False}


def whole(value: Any, kind: str) -> int:
    """The value as an integer of any size. `kind` completes the message "… is not"."""
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
    raise no(value, f"not {kind}")


def floating(value: Any, kind: str) -> float:
    if value.__class__ is float:
        return float(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        try:
            return float(value)
        except OverflowError:
            pass
    raise no(value, f"not {kind}")


def to_null(_out: bytearray, value: Any) -> None:
    if value is not None:
        raise no(value, "not null")


def to_boolean(out: bytearray, value: Any) -> None:
    if value.__class__ is not bool:
        boolean = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None
        if boolean is None:
            raise no(value, "not a boolean")
        value = boolean
    out.append(value)


def to_int(out: bytearray, value: Any) -> None:
    number = value if value.__class__ is int else whole(value, "an int")
    if not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise no(value, "not a 32-bit int")
    write_long(out, number)


def to_long(out: bytearray, value: Any) -> None:
    number = value if value.__class__ is int else whole(value, "a long")
    try:
        write_long(out, number)
    except OverflowError:
        raise no(value, "not a 64-bit long") from None


def to_float(out: bytearray, value: Any) -> None:
    try:
        out += pack_float(value if value.__class__ is float else floating(value, "a float"))
    except OverflowError:
        raise no(value, "not a 32-bit float") from None


def to_double(out: bytearray, value: Any) -> None:
    out += pack_double(value if value.__class__ is float else floating(value, "a double"))


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
    raise no(value, "not a string")


def to_string(out: bytearray, value: Any) -> None:
    body = utf8(value if value.__class__ is str else text_of(value))
    out += VARINTS[len(body)]
    out += body


def utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise no(text, "not a string: it contains half a surrogate pair") from None


def raw(value: Any) -> bytes:
    """The value as bytes; text as UTF-8."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return utf8(value)
    raise no(value, "neither bytes nor text")


def to_bytes(out: bytearray, value: Any) -> None:
    body = raw(value)
    write_long(out, len(body))
    out += body


def to_fixed(size: int) -> Write:
    def write(out: bytearray, value: Any) -> None:
        body = raw(value)
        if len(body) != size:
            raise no(value, f"{len(body)} bytes long, not {size}")
        out += body

    return write


PRIMITIVES: Final[dict[str, Write]] = {
    "null": to_null,
    "boolean": to_boolean,
    "int": to_int,
    "long": to_long,
    "float": to_float,
    "double": to_double,
    "bytes": to_bytes,
    "string": to_string,
}
