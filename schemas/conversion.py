"""What was written with any schema, as bodies of one: for files, which have one for all they hold.

Where two schemas lay out the same bytes (they have the same canonical form, and differ in docs,
defaults, aliases or logical types), a body is taken as it is: it is walked, and nothing is made of
it. Otherwise fastavro reads and writes it, by Avro's rules of resolution: fields that the target
does not have are dropped, those that the writer did not have are its defaults. Which branch of a
union a value came from is kept, as two records may look alike.

Whatever bytes come, a `BadMessage` is what is raised. What a registry raises passes through.
"""

from collections import OrderedDict
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro

from schemas.bodies.checking import MOST_BYTES, BodyCheck
from schemas.bodies.fastavro_schema import FIELD, REFUSALS, fastavro_schema, written_name
from schemas.definitions.types import Array, Map, Named, Record, Type, Union
from schemas.envelope import MOST_SCHEMAS, PREFIX_SIZE, schema_id_of
from schemas.errors import BadMessage, InvalidSchema
from schemas.parsing import AvroSchema

__all__ = ["Conversion", "MessageConverter"]


class Conversion:
    """Bodies of `writer` as bodies of `target`. InvalidSchema if fastavro cannot use one."""

    def __init__(self, writer: AvroSchema, target: AvroSchema) -> None:
        self.is_copy = writer.canonical_form == target.canonical_form
        if not self.is_copy:
            self._type = target.type
            self._writer = fastavro_schema(writer)
            self._reader = fastavro_schema(target, for_reading=True)
            self._target = fastavro_schema(target)

    def converted(self, body: bytes) -> bytes:
        """Of a body that was checked."""
        return body if self.is_copy else self.resolved(body)

    def resolved(self, body: bytes) -> bytes:
        try:
            read: Any = fastavro.schemaless_reader(
                BytesIO(body), self._writer, self._reader, return_named_type=True
            )
            try:
                return self._written(read)
            except REFUSALS:
                # What a union of the writer's named, and is of none in the target.
                return self._written({FIELD: _unnamed(self._type, read[FIELD])})
        except REFUSALS as error:
            why = " ".join(str(error).split())[:200]
            raise BadMessage(f"it cannot be read as the schema that is wanted: {why}") from None

    def _written(self, value: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, self._target, value)
        return out.getvalue()


def _unnamed(type_: Type, value: Any) -> Any:
    """The value with names of branches where the type has a union, and nowhere else."""
    if isinstance(value, tuple):
        name, inner = value
        branch = _branch(type_, lambda each: isinstance(each, Named) and name == _name(each))
        if branch is None:
            return _unnamed(type_, inner)
        return name, _unnamed(branch, inner)
    if isinstance(type_, Union) and isinstance(value, list | dict):
        kind = "array" if isinstance(value, list) else "map"
        type_ = _branch(type_, lambda each: each.kind == kind) or type_
    match type_, value:
        case Array(), list():
            return [_unnamed(type_.items, each) for each in value]
        case Map(), dict():
            return {key: _unnamed(type_.values, each) for key, each in value.items()}
        case Record(), dict():
            return {each.name: _unnamed(each.type, value[each.name]) for each in type_.fields}
    return value


def _branch(type_: Type, is_meant: Callable[[Type], bool]) -> Type | None:
    """The branch that is meant, if the type is a union and has it."""
    branches = type_.branches if isinstance(type_, Union) else ()
    return next(filter(is_meant, branches), None)


def _name(type_: Named) -> str:
    return written_name(type_.name)


class MessageConverter:
    """Messages of the envelope, as bodies of `target`. Not to be used by two threads at once.

    `lookup` says which schema has an id, or None if none has.
    """

    def __init__(self, lookup: Callable[[int], AvroSchema | None], target: AvroSchema) -> None:
        self._lookup = lookup
        self._target = target
        self._known: OrderedDict[int, tuple[BodyCheck, Conversion]] = OrderedDict()

    def body(self, message: bytes | None) -> bytes:
        if message is None:
            raise BadMessage("it has no value")
        schema_id = schema_id_of(message)
        if len(message) > MOST_BYTES:
            raise BadMessage(f"it has {len(message):,} bytes, and {MOST_BYTES:,} are allowed")
        check, conversion = self._known.get(schema_id) or self._new(schema_id)
        try:
            check.check(message, PREFIX_SIZE)
            return conversion.converted(message[PREFIX_SIZE:])
        except BadMessage as error:
            raise BadMessage(f"with schema {schema_id}: {error}") from None

    def _new(self, schema_id: int) -> tuple[BodyCheck, Conversion]:
        schema = self._lookup(schema_id)
        if schema is None:
            raise BadMessage(f"there is no schema {schema_id}")
        try:
            made = BodyCheck(schema.type, text=True), Conversion(schema, self._target)
        except InvalidSchema as error:
            raise BadMessage(f"schema {schema_id}: {error}") from None
        self._known[schema_id] = made
        if len(self._known) > MOST_SCHEMAS:
            self._known.popitem(last=False)
        return made
