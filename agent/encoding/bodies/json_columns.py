"""Encodes columns of JSON values as columns of Avro bytes, one pass for each field of many events.

Values come from msgspec, which has checked that they have the struct's types. A column of any other
type is converted value by value.
"""

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec

from ground.varints import VARINTS
from schemas.bodies.primitives import pack_double, pack_float, symbol_bodies
from schemas.bodies.writing import WrittenField
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Enum, Primitive, Type, Union

Column = Sequence[Any]
Parts = tuple[Iterable[bytes], ...]
"""Columns of bytes; the bytes of one row, joined, are the encoded value."""

Encode = Callable[[Column], Parts]

_INT: Final = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_LONG: Final = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_BOOLEANS: Final = {False: b"\0", True: b"\1"}
_NOT_SIMPLE: Final = (TypeError, KeyError, UnicodeEncodeError, OverflowError, struct.error)


def _strings(column: Column) -> Parts:
    bodies = list(map(str.encode, column))
    return [VARINTS[size] for size in map(len, bodies)], bodies


def _whole_numbers(column: Column) -> Parts:
    return ([VARINTS[number] for number in column],)


def _floats(column: Column) -> Parts:
    return (list(map(pack_float, column)),)


def _doubles(column: Column) -> Parts:
    return (list(map(pack_double, column)),)


def _booleans(column: Column) -> Parts:
    return ([_BOOLEANS[value] for value in column],)


# The JSON types that are read, and the encoder of a whole column that needs no conversion; any
# other column is converted value by value. True must not be read for 1, nor 1 for True: they are
# the same key of a dict.
_SIMPLE: Final[dict[str, tuple[Any, Encode]]] = {
    "string": (str | int | float | bool, _strings),
    "int": (_INT | float | str, _whole_numbers),
    "long": (_LONG | float | str, _whole_numbers),
    "float": (float | str, _floats),
    "double": (float | str, _doubles),
    "boolean": (bool | str, _booleans),
}


class FieldColumn(msgspec.Struct, frozen=True):
    """How msgspec reads a field, and how its column is encoded.

    `json` is the type of the struct's field, `default` its value if a line lacks the field: UNSET
    if a missing field has bytes of its own, NODEFAULT if the field is required.
    """

    json: Any
    default: Any
    encode: Encode


def field_column(type_: Type, field: WrittenField, *, as_it_is: bool) -> FieldColumn:
    """The column of a field. `as_it_is`: the JSON value is also used elsewhere, so its type must
    not be narrowed."""
    _, write, null, missing_value = field

    def one_by_one(column: Column) -> Parts:
        out, ends = bytearray(), [0]
        for value in column:
            write(out, value)
            ends.append(len(out))
        bodies = bytes(out)
        return ([bodies[start:end] for start, end in itertools.pairwise(ends)],)

    simple_type = None if as_it_is else _simple(type_)
    json: Any = Any
    encode: Encode = one_by_one
    if simple_type is not None:
        json, prefix, quick_encode = simple_type
        encode = _quickly(prefix, quick_encode, one_by_one)
    default: Any = msgspec.NODEFAULT
    if missing_value is not None:
        default = None if missing_value == null else msgspec.UNSET
        json = json if json is Any else json | None | msgspec.UnsetType
    return FieldColumn(json, default, _with_gaps(encode, null, missing_value))


def constant_column(body: bytes) -> FieldColumn:
    """The column of a field with the same value in every event."""
    return FieldColumn(Any, None, lambda column: (itertools.repeat(body, len(column)),))


def _simple(type_: Type) -> tuple[Any, bytes | None, Encode] | None:
    """The JSON type, the union's branch, and the column encoder; None if the type is not simple."""
    match type_:
        case Primitive() if type_.kind in _SIMPLE and logical_type(type_) is None:
            return _SIMPLE[type_.kind][0], None, _SIMPLE[type_.kind][1]
        case Enum():
            bodies = symbol_bodies(type_.symbols)
            return str, None, lambda column: ([bodies[value] for value in column],)
        case Union() if len(type_.branches) == 2:
            kinds = [branch.kind for branch in type_.branches]
            if "null" not in kinds:
                return None
            index = 1 - kinds.index("null")
            inner_type = _simple(type_.branches[index])
            if inner_type is None or inner_type[1] is not None:
                return None
            return inner_type[0] | None, VARINTS[index], inner_type[2]
    return None


def _quickly(prefix: bytes | None, quickly: Encode, one_by_one: Encode) -> Encode:
    def encode(column: Column) -> Parts:
        try:
            parts = quickly(column)
        except _NOT_SIMPLE:
            return one_by_one(column)
        return (itertools.repeat(prefix, len(column)), *parts) if prefix else parts

    return encode


def _with_gaps(encode: Encode, null: bytes | None, missing: bytes | None) -> Encode:
    """Extends `encode` to columns with null and missing values."""
    if null is None and missing is None:
        return encode

    def with_gaps(column: Column) -> Parts:
        present_values = [
            value for value in column if value is not None and value is not msgspec.UNSET
        ]
        if len(present_values) == len(column):
            return encode(column)
        next_row = iter(joined(encode(present_values))).__next__
        replacements = {None: null or b"", msgspec.UNSET: missing or b""}
        return (
            [
                replacements[value] if value is None or value is msgspec.UNSET else next_row()
                for value in column
            ],
        )

    return with_gaps


def joined(parts: Parts) -> list[bytes]:
    """The joined bytes of each row."""
    return list(map(b"".join, zip(*parts, strict=True)))
