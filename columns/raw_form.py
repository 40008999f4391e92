"""Values in the *raw form*, in which both readers return them, before resolution.

Logical types are numbers, strings and bytes. A record's fields are named `f0`, `f1` … by the
writer's order, an enum is its symbol, a map is a list of entries `f0` (the key) and `f1`, as in
Avro's bytes. A union of null and one other branch is that branch, nullable; any other is a struct
of `b0`, `b1` …, at most one of them not null. Unwanted parts may be left out.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from schemas.definitions.types import (
    ABSENT,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.parsing import AvroSchema

RAW_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
KEY: Final = "f0"
ENTRY: Final = "f1"


def field_name(place: int) -> str:
    return f"f{place}"


def branch_name(place: int) -> str:
    return f"b{place}"


def nullable_branch(union: Union) -> int | None:
    """The index of the branch that is not null, in a union of null and one other."""
    kinds = [branch.kind for branch in union.branches]
    if len(kinds) != 2 or (kinds[0] == "null") == (kinds[1] == "null"):
        return None
    return int(kinds[0] == "null")


def presence(type_: Type) -> pa.DataType:
    """Returns a raw type in which to keep values of `type_` if only their presence matters."""
    match type_:
        case Primitive():
            return RAW_PRIMITIVES[type_.kind]
        case Enum():
            return pa.string()
        case Fixed():
            return pa.binary()
        case Array():
            return pa.list_(presence(type_.items))
        case Map():
            return pa.list_(pa.struct([]))
        case Union() if (branch := nullable_branch(type_)) is not None:
            return presence(type_.branches[branch])
    return pa.struct([])


def parts(fields: Iterable[tuple[str, pa.DataType]]) -> pa.StructType:
    """Merges the required parts of a record or union, in the writer's order."""
    merged_parts: dict[str, pa.DataType] = {}
    for name, type_ in fields:
        previous = merged_parts.get(name)
        merged_parts[name] = type_ if previous is None else _both(previous, type_)
    return pa.struct(sorted(merged_parts.items(), key=lambda part: int(part[0][1:])))


def _both(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Merges two parts of the same type."""
    if pa.types.is_list(left):
        return pa.list_(_both(left.value_type, right.value_type))
    if pa.types.is_struct(left):
        return parts((field.name, field.type) for field in (*left, *right))
    return left


def tagged(schema: AvroSchema) -> AvroSchema:
    """Returns a schema with which fastavro reads the same bytes into the raw form: dicts that name
    the branch of a union."""
    return AvroSchema(_Tagging().of(schema.type), (), frozenset())


class _Tagging:
    def __init__(self) -> None:
        self._made: dict[int, Type] = {}
        self._names = 0

    def of(self, type_: Type) -> Type:
        match type_:
            case Primitive():
                return Primitive(type_.kind, {})
            case Array():
                return Array(self.of(type_.items), {})
            case Map():
                key = Primitive("string", {})
                return Array(self._record([(KEY, key), (ENTRY, self.of(type_.values))]), {})
            case Union():
                return self._union(type_)
        tagged_type = self._made.get(id(type_))
        if tagged_type is None:
            match type_:
                case Enum():
                    tagged_type = Enum(self._name(), None, (), {}, type_.symbols, None)
                case Fixed():
                    tagged_type = Fixed(self._name(), None, (), {}, type_.size)
                case Record():
                    tagged_type = self._record([])
            self._made[id(type_)] = tagged_type
            if isinstance(type_, Record) and isinstance(tagged_type, Record):
                # It may contain itself, so its fields are set afterwards.
                tagged_type.fields = _fields(
                    (field_name(index), self.of(field.type))
                    for index, field in enumerate(type_.fields)
                )
        return tagged_type

    def _union(self, union: Union) -> Union:
        is_plain = nullable_branch(union) is not None
        return Union(
            tuple(
                self.of(branch)
                if is_plain or branch.kind == "null"
                else self._record([(branch_name(index), self.of(branch))])
                for index, branch in enumerate(union.branches)
            )
        )

    def _record(self, fields: Iterable[tuple[str, Type]]) -> Record:
        return Record(self._name(), None, (), {}, _fields(fields))

    def _name(self) -> Name:
        self._names += 1
        return Name(f"N{self._names}", None)


def _fields(fields: Iterable[tuple[str, Type]]) -> tuple[Field, ...]:
    return tuple(
        Field(name, field_type, None, ABSENT, "ascending", (), {}) for name, field_type in fields
    )
