"""The column type of each Avro type, in the form that Spark gives its own columns in Arrow.

The types are those of Spark's own Avro reader, and every column is nullable:

  boolean, int, long, float, double, string      unchanged; `bytes`, `fixed`: binary
  enum, uuid                                      string
  date                                            date
  timestamp-millis, timestamp-micros              timestamp, in microseconds, UTC
  local-timestamp-millis, local-timestamp-micros  timestamp without time zone
  timestamp-nanos, time-millis, time-micros, …    the number that Avro carries
  decimal                                         decimal, up to 38 digits; binary beyond that
  record, array, map                              struct, list, map of strings
  null                                            a string that is always null
  a record without fields                         a boolean: whether it is present
  a union with null                               the type of the rest
  a union of int and long, of float and double    long, double
  any other union                                 a struct: member_long, member_Order …, one set

Spark column names are case-insensitive: a name that is taken gets underscores until it is free.
Beside the column is the name of its field, and the aliases that the schema gives (field_names.py).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from columns.field_names import column
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Array, Enum, Fixed, Map, Named, Primitive, Record, Type, Union

MOST_COLUMNS: Final = 5_000  # including nested ones
MOST_DIGITS: Final = 38

_NO_LETTER: Final = re.compile(r"\W")
_PRIMITIVES: Final = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_WIDER: Final = {
    frozenset({"int", "long"}): pa.int64(),
    frozenset({"float", "double"}): pa.float64(),
}


class NotColumns(Exception):
    """The error for a type whose values cannot be a column; the message is the reason."""


class UnionForm(msgspec.Struct, frozen=True):
    """The column form of a union. `slots` maps each branch to one of the `types`; None for null.

    With `members` the types are fields of a struct; otherwise there is at most one type.
    """

    column: pa.DataType
    types: tuple[pa.DataType, ...]
    slots: tuple[int | None, ...]
    members: bool = False
    wider: bool = False  # int and long, or float and double


def column_type(type_: Type) -> pa.DataType:
    """The type of a column. Raises `NotColumns` if values of this type cannot be a column."""
    return _ColumnTypes().of(type_)


def union_form(branches: Sequence[Type]) -> UnionForm:
    return _ColumnTypes().union(branches)


def struct_of(record: Record, types: Sequence[pa.DataType]) -> pa.DataType:
    if not record.fields:
        return pa.bool_()
    names = free_names((field.name for field in record.fields), set())
    return pa.struct(
        [
            column(name, type_, (field.name,), field.aliases)
            for name, type_, field in zip(names, types, record.fields, strict=True)
        ]
    )


def list_of(items: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", items))


def map_of(values: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), pa.field("value", values))


def free_names(names: Iterable[str], used_names: set[str]) -> list[str]:
    """Returns the names, and renames those that conflict with `used_names` or with each other. Adds
    the results to `used_names`, in lower case.

    A name that is free keeps its spelling, even if an earlier one had to be changed.
    """
    name_list = list(names)
    names_by_index: dict[int, str] = {}
    for index, name in enumerate(name_list):
        if name.lower() not in used_names:
            used_names.add(name.lower())
            names_by_index[index] = name
    for index, name in enumerate(name_list):
        if index not in names_by_index:
            while name.lower() in used_names:
                name += "_"  # noqa: PLW2901
            used_names.add(name.lower())
            names_by_index[index] = name
    return [names_by_index[index] for index in range(len(name_list))]


def _members(branches: Sequence[Type], types: Sequence[pa.DataType]) -> pa.DataType:
    """A struct of all branches. Members are named by type, not by position: a branch may be
    inserted before others."""
    kinds = [type_.name.simple if isinstance(type_, Named) else type_.kind for type_ in branches]
    names = list(map(_member_name, kinds))
    return pa.struct(
        [
            column(free_name, type_, (name,), _member_aliases(branch))
            for free_name, name, type_, branch in zip(
                free_names(names, set()), names, types, branches, strict=True
            )
        ]
    )


def _member_aliases(branch: Type) -> list[str]:
    aliases = branch.aliases if isinstance(branch, Named) else ()
    return [_member_name(alias.simple) for alias in aliases]


def _member_name(kind: str) -> str:
    return f"member_{_NO_LETTER.sub('_', kind)}"


class _ColumnTypes:
    def __init__(self) -> None:
        self._columns = 0
        self._open: set[int] = set()

    def of(self, type_: Type) -> pa.DataType:
        self._columns += 1
        if self._columns > MOST_COLUMNS:
            raise NotColumns(f"it has more than {MOST_COLUMNS:,} columns, including nested ones")
        match type_:
            case Primitive():
                return self._number(type_)
            case Enum():
                return pa.string()
            case Fixed():
                return self._decimal(type_)
            case Array():
                return list_of(self.of(type_.items))
            case Map():
                return map_of(self.of(type_.values))
            case Union():
                return self.union(type_.branches).column
            case Record():
                return self._record(type_)

    def union(self, branches: Sequence[Type]) -> UnionForm:
        non_null_branches = [branch for branch in branches if branch.kind != "null"]
        kinds = frozenset(branch.kind for branch in non_null_branches)
        if len(non_null_branches) < 2:
            types = [self.of(branch) for branch in non_null_branches]
            slots = tuple(0 if branch.kind != "null" else None for branch in branches)
            return UnionForm(types[0] if types else pa.string(), tuple(types), slots)
        if len(non_null_branches) == 2 and kinds in _WIDER:
            slots = tuple(0 if branch.kind != "null" else None for branch in branches)
            return UnionForm(_WIDER[kinds], (_WIDER[kinds],), slots, wider=True)
        types = [self.of(branch) for branch in non_null_branches]
        members = _members(non_null_branches, types)
        indexes = iter(range(len(non_null_branches)))
        slots = tuple(next(indexes) if branch.kind != "null" else None for branch in branches)
        return UnionForm(members, tuple(types), slots, members=True)

    def _number(self, type_: Primitive) -> pa.DataType:
        logical = logical_type(type_)
        if logical == "decimal":
            return self._decimal(type_)
        return _LOGICAL.get(logical or "", _PRIMITIVES[type_.kind])

    def _decimal(self, type_: Primitive | Fixed) -> pa.DataType:
        if logical_type(type_) != "decimal" or type_.props["precision"] > MOST_DIGITS:
            return pa.binary()
        return pa.decimal128(type_.props["precision"], type_.props.get("scale", 0))

    def _record(self, record: Record) -> pa.DataType:
        if id(record) in self._open:
            raise NotColumns(
                f"{record.name.full} contains itself, which is not possible in columns"
            )
        self._open.add(id(record))
        types = [self.of(field.type) for field in record.fields]
        self._open.discard(id(record))
        return struct_of(record, types)
