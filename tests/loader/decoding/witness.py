"""fastavro as a witness: its values as columns should hold them, and the schemas with which it is
none.

It takes the first branch of a reader's union that will do, where Avro takes the one of the same
type first; it looks at names and aliases without asking whether both are records, or enums; and it
cannot always read what stands in a union, if one schema has its name there and the other all of it.
"""

import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Array, Fixed, Map, Named, Primitive, Record, Type, Union

_NUMBERS: Final = {"int", "long", "float", "double"}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class OutOfRange(Exception):
    """No column has this value."""


class Ambiguous(Exception):
    """fastavro does not say of which branch a value is, and here it would matter."""


def as_column(type_: Type, value: Any) -> Any:
    """A value that fastavro read with a schema, as it stands in the column of that schema.

    Of a union's members, nothing but the value: fastavro does not say which branch it is of.
    """
    match type_:
        case Union():
            return None if value is None else as_column(_branch(type_, value), value)
        case Record():
            if not type_.fields:
                return True
            return [as_column(field.type, value[field.name]) for field in type_.fields]
        case Array():
            return [as_column(type_.items, each) for each in value]
        case Map():
            return [(key, as_column(type_.values, each)) for key, each in value.items()]
        case Primitive() | Fixed():
            return _logical(type_, value)
    return value


def _branch(union: Union, value: Any) -> Type:
    kinds = {
        bool: ("boolean",),
        int: ("int", "long", "float", "double"),
        float: ("float", "double"),
        bytes: ("bytes", "fixed"),
        str: ("string", "enum"),
        list: ("array",),
        dict: ("record", "map"),
    }[type(value)]
    branches = [branch for branch in union.branches if branch.kind in kinds]
    if len(branches) > 1 and any(logical_type(branch) for branch in branches):
        raise Ambiguous
    if len([branch for branch in branches if branch.kind not in _NUMBERS]) > 1:
        raise Ambiguous
    return branches[0]


def _logical(type_: Primitive | Fixed, value: Any) -> Any:
    kind = logical_type(type_) or ""
    try:
        match kind.removeprefix("local-"):
            case "date":
                return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
            case "timestamp-millis" | "timestamp-micros":
                factor = 1000 if kind.endswith("millis") else 1
                time = _EPOCH + datetime.timedelta(microseconds=value * factor)
                return time.replace(tzinfo=None) if kind.startswith("local-") else time
            case "decimal" if type_.props["precision"] <= 38:
                return _decimal(type_, value)
    except OverflowError as error:
        raise OutOfRange from error
    return value


def _decimal(type_: Primitive | Fixed, value: bytes) -> Decimal:
    unscaled = int.from_bytes(value, "big", signed=True)
    if not value or abs(unscaled) >= 10 ** type_.props["precision"]:
        raise OutOfRange
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -type_.props.get("scale", 0)))


def in_column(type_: Type, column: pa.DataType, value: Any) -> Any:
    """What Arrow gave to Python, in the same form."""
    match type_:
        case Union():
            return _member(type_, column, value)
        case _ if value is None:
            return None
        case Record() if type_.fields:
            pairs = zip(type_.fields, column, strict=True)
            return [in_column(own.type, of.type, value[of.name]) for own, of in pairs]
        case Array():
            return [in_column(type_.items, column.value_type, each) for each in value]
        case Map():
            return [(key, in_column(type_.values, column.item_type, each)) for key, each in value]
    return value


def _member(union: Union, column: pa.DataType, value: Any) -> Any:
    present = [branch for branch in union.branches if branch.kind != "null"]
    if value is None or not present:
        return value
    if len(present) == 1:
        return in_column(present[0], column, value)
    if not pa.types.is_struct(column):
        return value  # int and long, float and double
    held = [
        in_column(branch, field.type, value[field.name])
        for branch, field in zip(present, column, strict=True)
        if value[field.name] is not None
    ]
    assert len(held) == 1
    return held[0]


def is_doubtful(reader: Type) -> bool:
    """Whether fastavro reads otherwise than Avro says."""
    named: dict[int, bool] = {}  # whether it was in a union, by a type's identity

    def at(type_: Type, *, in_union: bool = False) -> bool:
        if isinstance(type_, Named):
            if id(type_) in named:
                return in_union or named[id(type_)]
            named[id(type_)] = in_union
        match type_:
            case Union():
                found = [at(branch, in_union=True) for branch in type_.branches]
                return any(found) or not _are_distinct(type_)
            case Array():
                return at(type_.items)
            case Map():
                return at(type_.values)
            case Record():
                return any(at(field.type) for field in type_.fields)
        return False

    return at(reader)


def _are_distinct(union: Union) -> bool:
    kinds = {branch.kind for branch in union.branches}
    numbers = [branch for branch in union.branches if branch.kind in _NUMBERS]
    names = [
        name
        for branch in union.branches
        if isinstance(branch, Named)
        for name in {branch.name.simple, *(alias.simple for alias in branch.aliases)}
    ]
    return (
        not {"bytes", "string"} <= kinds
        and not (len(numbers) > 1 and any(map(logical_type, numbers)))
        and len(names) == len(set(names))
    )
