"""Encodes the fields of an event after its header; the encoder is compiled from the topic's schema.

Values are converted to the types of the schema (`conversions`, `logical_conversions`). The schema
is compiled by `schemas.bodies.writing`, with a `Manner` by these rules:

1. A missing field gets its default, or else null if that is allowed. So does a field that is null
   but must not be. Otherwise the line is refused.
2. A nullable field is also null for "" and "-", by which log files mean null, unless it may be a
   string.
3. A union takes the first branch of the value's own type, or else the first that the value can be
   converted to.
4. Unknown fields of inner records are ignored; those of the event itself are left to the caller.
5. Header fields that a later version has added are written with their defaults.
6. A missing field is looked up under its former names, its aliases; an alias that is now the name
   of another field belongs to that one.
7. Recursive types are written as deep as they can be read, `MOST_LEVELS`; branches are tried
   `MOST_TRIES` times in one line.

`schemas.envelope` reads what an encoder writes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agent.encoding.bodies.logical_conversions import converting_writer
from schemas.bodies.refusals import Misfit
from schemas.bodies.writing import (
    OWN_KINDS,
    Branch,
    Branches,
    Compiler,
    Manner,
    Rename,
    default_body,
)
from schemas.definitions.types import Field, Primitive, Record, Type, Union
from schemas.event_schemas import LINES_WITH_FIELDS, check_event_schema
from schemas.parsing import AvroSchema

__all__ = ["HEADER_FIELDS", "TailEncoder", "path_is_framed"]

HEADER_FIELDS: Final = 6  # time, host, app, source, seq, position


def path_is_framed(schema: AvroSchema) -> bool:
    """Whether the schema is one of `LINES_WITH_FIELDS` with the present header: header, path,
    fields of the line."""
    if schema.full_name not in LINES_WITH_FIELDS or not isinstance(schema.type, Record):
        return False
    match schema.type.fields:
        case [Field(type=Record() as header), Field(name="path", type=Primitive("string")), *_]:
            return len(header.fields) == HEADER_FIELDS
    return False


class TailEncoder:
    """The encoder for an event schema. Not thread-safe.

    In `LINES_WITH_FIELDS`, as in penstock.LogLine, the path comes before the fields of the line,
    and is part of the frame (`agent.encoding.batches.plan`).
    """

    def __init__(self, schema: AvroSchema) -> None:
        """Raises NotAnEvent, or InvalidSchema for a default that does not match its type."""
        check_event_schema(schema)
        assert isinstance(schema.type, Record)
        header, *fields = schema.type.fields
        if path_is_framed(schema):
            fields = fields[1:]
        assert isinstance(header.type, Record)
        self.schema = schema
        self.types: Mapping[str, Type] = {field.name: field.type for field in fields}
        self._event_fields = fields
        self.aliases = _former_names(fields)
        self.header_rest = b"".join(map(default_body, header.type.fields[HEADER_FIELDS:]))
        self._compiler = Compiler(CONVERTING)
        self.fields, self._write = self._compiler.record(schema.type.name.full, fields)
        self._compiler.finish()

    @property
    def names(self) -> tuple[str, ...]:
        """The fields after the header, in the order of the schema."""
        return tuple(self.types)

    def named(self, name: str) -> str:
        """The current name of the field that has or had this name."""
        return next(
            (
                current_name
                for current_name, former_names in self.aliases.items()
                if name in former_names
            ),
            name,
        )

    def renamed(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds values that are given under former field names under the current names."""
        return _renamed(self.aliases, value)

    def begin(self) -> None:
        """Resets the count of tried union branches. Call it before each line."""
        self._compiler.tries = 0

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """Encodes the fields, and ignores unknown ones. Raises ValueError with a one-line message
        that names the field and the fault."""
        self.begin()
        out = bytearray(self.header_rest)
        try:
            self._write(out, value)
        except RecursionError:
            raise Misfit("values are nested too deeply") from None
        return bytes(out)

    def encode_field(self, name: str, value: Any) -> bytes:
        """Encodes one field, as `encode` does."""
        compiler = Compiler(CONVERTING)
        _, write = compiler.record(
            name, [field for field in self._event_fields if field.name == name]
        )
        compiler.finish()
        out = bytearray()
        write(out, {name: value})
        return bytes(out)


def _former_names(fields: Sequence[Field]) -> Mapping[str, Sequence[str]]:
    """The former names of each field that has any."""
    names_in_use = {field.name for field in fields}
    former_names = {
        field_of_record.name: [
            alias for alias in field_of_record.aliases if alias not in names_in_use
        ]
        for field_of_record in fields
    }
    return {name: names for name, names in former_names.items() if names}


def _renaming(fields: Sequence[Field]) -> Rename | None:
    aliases = _former_names(fields)
    return (lambda value: _renamed(aliases, value)) if aliases else None


def _renamed(aliases: Mapping[str, Sequence[str]], value: Mapping[str, Any]) -> Mapping[str, Any]:
    current_names = {
        name: value[alias]
        for name, aliases_of_field in aliases.items()
        if name not in value
        for alias in reversed(aliases_of_field)  # the first one wins
        if alias in value
    }
    return {**value, **current_names} if current_names else value


def _own_kinds_first(
    branches: Branches,
) -> tuple[Mapping[type, Branches], Callable[[Any], Branches]]:
    """The branches in the order to try them, by the value's class. Branches of equal rank keep the
    schema's order, except that a record with all of an object's keys comes first."""
    by_class = {value_class: _ordered(branches, kinds) for value_class, kinds in OWN_KINDS.items()}
    objects = by_class.pop(dict)
    names = {id(branch): _names(branch.type) for branch in branches}

    def lacks(branch: Branch, value: Mapping[str, Any]) -> bool:
        """Whether the branch is a record that would drop some of the value's fields."""
        branch_names = names[id(branch)]
        return branch_names is not None and not branch_names.issuperset(value)

    def others(value: Any) -> Branches:
        if value.__class__ is dict:
            return sorted(objects, key=lambda each: lacks(each, value))
        return branches

    return by_class, others


def _names(type_: Type) -> frozenset[str] | None:
    if isinstance(type_, Record):
        return frozenset(name for field in type_.fields for name in (field.name, *field.aliases))
    return None


def _ordered(branches: Branches, own: Sequence[Sequence[str]]) -> Branches:
    """The branches of the value's own kinds first, by rank."""
    return sorted(
        branches,
        key=lambda each: next(
            (index for index, kinds in enumerate(own) if each.kind in kinds), len(own)
        ),
    )


def _named(union: Union) -> str:
    return (
        f"not one of {', '.join(branch.kind for branch in union.branches if branch.kind != 'null')}"
    )


CONVERTING: Final = Manner(
    exact=False,
    plain=converting_writer,
    nothing=frozenset({"", "-"}),
    renaming=_renaming,
    order=_own_kinds_first,
    named=_named,
)
