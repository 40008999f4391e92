"""Values as they come from either reader, before anything is resolved: the *raw form*.

Logical types are numbers, strings and bytes. A record's fields are called `f0`, `f1` … by their
place with the writer, an enum is its symbol, a map is a list of entries `f0` (the key) and `f1`,
which in Avro's bytes it is. A union with null and one other branch is that branch, with nulls; any
other is a struct of `b0`, `b1` … of which one at most is not null. What nobody wants of it may be
left out.
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
    """The place of the other branch, in a union of null and one other."""
    kinds = [branch.kind for branch in union.branches]
    if len(kinds) != 2 or (kinds[0] == "null") == (kinds[1] == "null"):
        return None
    return int(kinds[0] == "null")


def presence(type_: Type) -> pa.DataType:
    """A raw type that values of `type_` can be kept as where only their being there matters."""
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
    """A record, or a union, of what is wanted of it: in the writer's order, and of what is wanted
    twice whatever either wants."""
    wanted: dict[str, pa.DataType] = {}
    for name, type_ in fields:
        own = wanted.get(name)
        wanted[name] = type_ if own is None else _both(own, type_)
    return pa.struct(sorted(wanted.items(), key=lambda each: int(each[0][1:])))


def _both(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Of the same type."""
    if pa.types.is_list(one):
        return pa.list_(_both(one.value_type, other.value_type))
    if pa.types.is_struct(one):
        return parts((field.name, field.type) for field in (*one, *other))
    return one


def tagged(schema: AvroSchema) -> AvroSchema:
    """A schema with which fastavro reads the same bytes into the raw form: dicts that say which
    branch of a union they hold."""
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
        made = self._made.get(id(type_))
        if made is None:
            match type_:
                case Enum():
                    made = Enum(self._name(), None, (), {}, type_.symbols, None)
                case Fixed():
                    made = Fixed(self._name(), None, (), {}, type_.size)
                case Record():
                    made = self._record([])
            self._made[id(type_)] = made
            if isinstance(type_, Record) and isinstance(made, Record):
                # It may contain itself: what it is made of comes after it.
                made.fields = _fields(
                    (field_name(place), self.of(field.type))
                    for place, field in enumerate(type_.fields)
                )
        return made

    def _union(self, union: Union) -> Union:
        plain = nullable_branch(union) is not None
        return Union(
            tuple(
                self.of(branch)
                if plain or branch.kind == "null"
                else self._record([(branch_name(place), self.of(branch))])
                for place, branch in enumerate(union.branches)
            )
        )

    def _record(self, fields: Iterable[tuple[str, Type]]) -> Record:
        return Record(self._name(), None, (), {}, _fields(fields))

    def _name(self) -> Name:
        self._names += 1
        return Name(f"N{self._names}", None)


def _fields(fields: Iterable[tuple[str, Type]]) -> tuple[Field, ...]:
    return tuple(Field(name, of, None, ABSENT, "ascending", (), {}) for name, of in fields)
