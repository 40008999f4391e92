"""The fields of an event behind its header, as bytes: compiled from the schema of a topic.

What a line says is converted to the types of the schema (`conversions`, `logical_conversions`), by
these rules:

1. A field that is missing has its default; without one, null where that is allowed. So has a field
   that is null where null is not allowed. Otherwise the line is refused.
2. A field that may be null is null, too, for text that says so in log files, "" and "-", unless
   text is allowed there.
3. Of a union, the first branch is taken that is of the value's own kind, and else the first that it
   can be converted to.
4. Fields of inner records that the schema does not have are passed over; those of the event itself
   are the caller's business.
5. What a later version of the header has behind today's fields is written with its defaults.
6. A field that is missing is looked for under the names it had before, its aliases; those that
   another field has now are that one's.
7. Recursive types are followed as deep as they are read, `MOST_LEVELS`; branches are tried
   `MOST_TRIES` times in one line.

What an encoder writes, `schemas.envelope` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.batches.conversions import PRIMITIVES, Convert, sized, to_enum, to_fixed, utf8
from agent.batches.logical_conversions import logical_conversion
from agent.batches.refusals import Misfit, no
from ground.varints import VARINTS
from schemas.bodies.checking import MOST_LEVELS
from schemas.bodies.writing import MOST_TRIES, BodyWriter
from schemas.definitions.default_values import default_value
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.event_schemas import check_event_schema
from schemas.parsing import AvroSchema

__all__ = ["EncodedField", "TailEncoder"]

# What a union takes first for a value of this class, as `schemas.bodies.writing` does.
_OWN_KINDS: Final[dict[type, tuple[tuple[str, ...], ...]]] = {
    bool: (("boolean",),),
    int: (("int", "long"), ("double",), ("float",)),
    float: (("double",), ("float",)),
    str: (("string", "enum"),),
    bytes: (("bytes", "fixed"),),
    list: (("array",),),
    dict: (("record", "map"),),
}
HEADER_FIELDS: Final = 6  # time, host, app, source, seq, position
_NOTHING_IN_TEXT: Final = frozenset({"", "-"})

EncodedField = tuple[str, Convert, bytes | None, bytes | None]
"""Name, conversion, and what is written for null, and if the field is missing; None: refused."""


class TailEncoder:
    """Made once for an event schema. Not to be used by two threads at once."""

    def __init__(self, schema: AvroSchema) -> None:
        """Raises NotAnEvent, or InvalidSchema for a default that is no value of its type."""
        check_event_schema(schema)
        assert isinstance(schema.type, Record)
        header, *fields = schema.type.fields
        assert isinstance(header.type, Record)
        self.schema = schema
        self.types: Mapping[str, Type] = {field.name: field.type for field in fields}
        self._levels = self.tries = 0
        self._compiled_definitions: dict[int, Convert] = {}
        self._open: set[int] = set()
        self.fields: tuple[EncodedField, ...] = tuple(map(self._field, fields))
        self.aliases = _former_names(fields)
        self.header_rest = b"".join(map(self._default, header.type.fields[HEADER_FIELDS:]))

    @property
    def names(self) -> tuple[str, ...]:
        """The fields behind the header, in their order."""
        return tuple(self.types)

    def named(self, name: str) -> str:
        """What the field of that name is called now."""
        return next((new for new, former in self.aliases.items() if name in former), name)

    def renamed(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """With today's names for what stands there under former ones, which stay."""
        return _renamed(self.aliases, value) if self.aliases else value

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """Raises ValueError, with the field's name and what is wrong with it, in one line.

        What the schema does not have is passed over.
        """
        self.tries = 0
        try:
            return self.header_rest + _encoded(self.fields, self.renamed(value))
        except RecursionError:
            raise Misfit("its values are nested too deeply") from None

    def encode_field(self, name: str, value: Any) -> bytes:
        """One field alone, as it stands in what `encode` returns."""
        self.tries = 0
        return _encoded([each for each in self.fields if each[0] == name], {name: value})

    def _field(self, field: Field) -> EncodedField:
        convert = self._compiled(field.type)
        null = convert(None) if _takes_null(field.type) else None
        default = self._default(field) if field.has_default else None
        return (
            field.name,
            convert,
            default if null is None else null,
            null if default is None else default,
        )

    def _default(self, field: Field) -> bytes:
        out = bytearray()
        BodyWriter(field.type).write(out, default_value(field))
        return bytes(out)

    def _compiled(self, type_: Type) -> Convert:
        match type_:
            case Primitive():
                return logical_conversion(type_) or PRIMITIVES[type_.kind]
            case Union():
                return self._union(type_.branches)
            case Array():
                return _array(self._compiled(type_.items))
            case Map():
                return _map(self._compiled(type_.values))
        if id(type_) not in self._compiled_definitions:
            self._compiled_definitions[id(type_)] = self._later(type_)  # as met within itself
            self._compiled_definitions[id(type_)] = self._definition(type_)
        return self._compiled_definitions[id(type_)]

    def _definition(self, type_: Definition) -> Convert:
        match type_:
            case Enum():
                return to_enum(type_.symbols)
            case Fixed():
                return logical_conversion(type_) or to_fixed(type_.size)
            case Record():
                return self._record(type_)

    def _later(self, type_: Definition) -> Convert:
        def convert(value: Any) -> bytes:
            if self._levels == MOST_LEVELS:
                raise Misfit(f"nested more than {MOST_LEVELS} levels deep")
            self._levels += 1
            try:
                return self._compiled_definitions[id(type_)](value)
            finally:
                self._levels -= 1

        return convert

    def _record(self, record: Record) -> Convert:
        fields: list[EncodedField] = []
        aliases = _former_names(record.fields)

        def convert(value: Any) -> bytes:
            if not isinstance(value, Mapping):
                raise no(value, f"no {record.name.full}")
            return _encoded(fields, _renamed(aliases, value) if aliases else value)

        fields.extend(map(self._field, record.fields))
        return convert

    def _union(self, types: Sequence[Type]) -> Convert:
        branches = [
            _Branch(each.kind, VARINTS[index], self._compiled(each), _names(each))
            for index, each in enumerate(types)
        ]
        nulls = [each.prefix for each in branches if each.kind == "null"]
        null = nulls[0] if nulls else None
        texts = any(each.kind == "string" for each in branches)
        nothing = _NOTHING_IN_TEXT if nulls and not texts else frozenset[str]()
        others = [each for each in branches if each.kind != "null"]
        choose = others[0].convert if len(others) == 1 else self._choosing(others)
        prefix = others[0].prefix if len(others) == 1 else b""

        def convert(value: Any) -> bytes:
            if null is not None and (
                value is None or (value.__class__ is str and value in nothing)
            ):
                return null
            return prefix + choose(value)

        return convert

    def _choosing(self, branches: Sequence["_Branch"]) -> Convert:
        orders = {class_: _ordered(branches, own) for class_, own in _OWN_KINDS.items()}

        def convert(value: Any) -> bytes:
            order: Sequence[_Branch] = orders.get(value.__class__, branches)
            if value.__class__ is dict:  # a record that has all of its keys comes first
                order = sorted(order, key=lambda each: each.lacks(value))
            for branch in order:
                try:
                    return branch.prefix + branch.convert(value)
                except Misfit:
                    self.tries += 1
                    if self.tries > MOST_TRIES:
                        raise Misfit("it fits too many branches of unions nearly") from None
            raise no(value, f"none of {', '.join(each.kind for each in branches)}")

        return convert


@dataclass(frozen=True, slots=True)
class _Branch:
    """Of a union."""

    kind: str
    prefix: bytes
    convert: Convert
    names: frozenset[str] | None  # of a record's fields

    def lacks(self, value: Mapping[str, Any]) -> bool:
        """Whether it is a record that would pass over some of the fields."""
        return self.names is not None and not self.names.issuperset(value)


def _names(type_: Type) -> frozenset[str] | None:
    if isinstance(type_, Record):
        return frozenset(name for field in type_.fields for name in (field.name, *field.aliases))
    return None


def _former_names(fields: Sequence[Field]) -> Mapping[str, Sequence[str]]:
    """Of the fields that had others."""
    taken = {field.name for field in fields}
    former = {each.name: [old for old in each.aliases if old not in taken] for each in fields}
    return {name: names for name, names in former.items() if names}


def _renamed(aliases: Mapping[str, Sequence[str]], value: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {
        name: value[old]
        for name, former in aliases.items()
        if name not in value
        for old in reversed(former)  # so that the first counts
        if old in value
    }
    return {**value, **found} if found else value


def _ordered(branches: Sequence[_Branch], own: Sequence[Sequence[str]]) -> list[_Branch]:
    """Those of its own kinds first, rank by rank; among equals as in the schema."""
    return sorted(
        branches,
        key=lambda each: next((at for at, kinds in enumerate(own) if each.kind in kinds), len(own)),
    )


def _encoded(fields: Sequence[EncodedField], value: Mapping[str, Any]) -> bytes:
    parts = []
    for name, convert, null, missing in fields:
        item = value.get(name)
        if item is None:
            part = null if name in value else missing
            if part is None:
                raise Misfit("it is null" if name in value else "it is missing").inside(name)
            parts.append(part)
        else:
            try:
                parts.append(convert(item))
            except Misfit as misfit:
                raise misfit.inside(name) from None
    return b"".join(parts)


def _takes_null(type_: Type) -> bool:
    return type_.kind == "null" or (
        isinstance(type_, Union) and any(each.kind == "null" for each in type_.branches)
    )


def _array(convert_item: Convert) -> Convert:
    def convert(value: Any) -> bytes:
        if not isinstance(value, list | tuple):
            raise no(value, "no array")
        if not value:
            return b"\0"
        parts = [VARINTS[len(value)]]
        for at, item in enumerate(value):
            try:
                parts.append(convert_item(item))
            except Misfit as misfit:
                raise misfit.inside(f"[{at}]") from None
        parts.append(b"\0")
        return b"".join(parts)

    return convert


def _map(convert_value: Convert) -> Convert:
    def convert(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            raise no(value, "no map")
        if not value:
            return b"\0"
        parts = [VARINTS[len(value)]]
        for key, item in value.items():
            if not isinstance(key, str):
                raise no(key, "no string, as keys are")
            try:
                parts += sized(utf8(key)), convert_value(item)
            except Misfit as misfit:
                raise misfit.inside(f"[{key!r:.60}]") from None
        parts.append(b"\0")
        return b"".join(parts)

    return convert
