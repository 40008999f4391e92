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


def to_null(_out: bytearray, value: Any) -> None:
    if value is not None:
        raise no(value, "not null")


def to_boolean(out: bytearray, value: Any) -> None:
    if value.__class__ is not bool:
        found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None
        if found is None:
            raise no(value, "no boolean")
        value = found
    out.append(value)


def to_int(out: bytearray, value: Any) -> None:
    number = value if value.__class__ is int else whole(value, "int")
    if not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise no(value, "no int, which has 32 bits")
    write_long(out, number)


def to_long(out: bytearray, value: Any) -> None:
    number = value if value.__class__ is int else whole(value, "long")
    try:
        write_long(out, number)
    except OverflowError:
        raise no(value, "no long, which has 64 bits") from None


def to_float(out: bytearray, value: Any) -> None:
    try:
        out += pack_float(value if value.__class__ is float else floating(value, "float"))
    except OverflowError:
        raise no(value, "no float, which has 32 bits") from None


def to_double(out: bytearray, value: Any) -> None:
    out += pack_double(value if value.__class__ is float else floating(value, "double"))


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


def to_string(out: bytearray, value: Any) -> None:
    body = utf8(value if value.__class__ is str else text_of(value))
    out += VARINTS[len(body)]
    out += body


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
