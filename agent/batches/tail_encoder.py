"""The fields of an event behind its header, as bytes: compiled from the schema of a topic.

What a line says is converted to the types of the schema (`conversions`, `logical_conversions`). The
walk over the schema is that of `schemas.bodies.writing`, in a `Manner` by these rules:

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

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agent.batches.logical_conversions import converting_writer
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
from schemas.event_schemas import SYSLOG_LINE, check_event_schema
from schemas.parsing import AvroSchema

__all__ = ["HEADER_FIELDS", "TailEncoder", "path_is_framed"]

HEADER_FIELDS: Final = 6  # time, host, app, source, seq, position


def path_is_framed(schema: AvroSchema) -> bool:
    """Whether it is penstock.SyslogLine: today's header, the path, and the line's fields."""
    if schema.full_name != SYSLOG_LINE or not isinstance(schema.type, Record):
        return False
    match schema.type.fields:
        case [Field(type=Record() as header), Field(name="path", type=Primitive("string")), *_]:
            return len(header.fields) == HEADER_FIELDS
    return False


class TailEncoder:
    """Made once for an event schema. Not to be used by two threads at once.

    In penstock.SyslogLine, as in penstock.LogLine, the path stands before the fields of the line,
    and is the frame's (`agent.batches.plan`).
    """

    def __init__(self, schema: AvroSchema) -> None:
        """Raises NotAnEvent, or InvalidSchema for a default that is no value of its type."""
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
        """The fields behind the header, in their order."""
        return tuple(self.types)

    def named(self, name: str) -> str:
        """What the field of that name is called now."""
        return next((new for new, former in self.aliases.items() if name in former), name)

    def renamed(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """With today's names for what stands there under former ones, which stay."""
        return _renamed(self.aliases, value)

    def begin(self) -> None:
        """Before what counts as one line: branches of unions are tried so often and no more."""
        self._compiler.tries = 0

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """Raises ValueError, with the field's name and what is wrong with it, in one line.

        What the schema does not have is passed over.
        """
        self.begin()
        out = bytearray(self.header_rest)
        try:
            self._write(out, value)
        except RecursionError:
            raise Misfit("its values are nested too deeply") from None
        return bytes(out)

    def encode_field(self, name: str, value: Any) -> bytes:
        """One field alone, as it stands in what `encode` returns."""
        compiler = Compiler(CONVERTING)
        _, write = compiler.record(name, [each for each in self._event_fields if each.name == name])
        compiler.finish()
        out = bytearray()
        write(out, {name: value})
        return bytes(out)


def _former_names(fields: Sequence[Field]) -> Mapping[str, Sequence[str]]:
    """Of the fields that had others."""
    taken = {field.name for field in fields}
    former = {each.name: [old for old in each.aliases if old not in taken] for each in fields}
    return {name: names for name, names in former.items() if names}


def _renaming(fields: Sequence[Field]) -> Rename | None:
    aliases = _former_names(fields)
    return (lambda value: _renamed(aliases, value)) if aliases else None


def _renamed(aliases: Mapping[str, Sequence[str]], value: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {
        name: value[old]
        for name, former in aliases.items()
        if name not in value
        for old in reversed(former)  # so that the first counts
        if old in value
    }
    return {**value, **found} if found else value


def _own_kinds_first(
    branches: Branches,
) -> tuple[Mapping[type, Branches], Callable[[Any], Branches]]:
    """Among equals as in the schema; but first a record that has all of an object's keys."""
    by_class = {class_: _ordered(branches, own) for class_, own in OWN_KINDS.items()}
    objects = by_class.pop(dict)
    names = {id(each): _names(each.type) for each in branches}

    def lacks(branch: Branch, value: Mapping[str, Any]) -> bool:
        """Whether it is a record that would pass over some of the fields."""
        known = names[id(branch)]
        return known is not None and not known.issuperset(value)

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
    """Those of its own kinds first, rank by rank."""
    return sorted(
        branches,
        key=lambda each: next((at for at, kinds in enumerate(own) if each.kind in kinds), len(own)),
    )


def _named(union: Union) -> str:
    return f"none of {', '.join(each.kind for each in union.branches if each.kind != 'null')}"


CONVERTING: Final = Manner(
    exact=False,
    plain=converting_writer,
    nothing=frozenset({"", "-"}),
    renaming=_renaming,
    order=_own_kinds_first,
    named=_named,
)
