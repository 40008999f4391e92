"""Converts messages of any schema to bodies of one schema, for files with a single schema.

If two schemas have the same canonical form and the same units (and differ in docs, defaults or
aliases), a body is copied after validation. Otherwise fastavro decodes and encodes it by Avro's
resolution rules: fields that the target lacks are dropped, fields that the writer lacked get their
defaults. The branch of a union is preserved, since two records may look alike.

Invalid bytes raise `BadMessage`. Exceptions of the registry pass through.
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
from schemas.evolution.unit_changes import unit_changes
from schemas.parsing import AvroSchema

__all__ = ["Conversion", "MessageConverter"]


class Conversion:
    """Converts bodies of `writer` to bodies of `target`. Raises InvalidSchema if fastavro cannot
    use one of them."""

    def __init__(self, writer: AvroSchema, target: AvroSchema) -> None:
        units = bool(unit_changes(writer, target))
        self.is_copy = writer.canonical_form == target.canonical_form and not units
        if not self.is_copy:
            self._type = target.type
            self._writer = fastavro_schema(writer, with_units=units)
            self._reader = fastavro_schema(target, for_reading=True, with_units=units)
            self._target = fastavro_schema(target)

    def converted(self, body: bytes) -> bytes:
        """Converts a validated body."""
        return body if self.is_copy else self.resolved(body)

    def resolved(self, body: bytes) -> bytes:
        try:
            record: Any = fastavro.schemaless_reader(
                BytesIO(body), self._writer, self._reader, return_named_type=True
            )
            try:
                return self._written(record)
            except REFUSALS:
                # The writer's value has a branch name, but the target has no union there.
                return self._written({FIELD: _unnamed(self._type, record[FIELD])})
        except REFUSALS as error:
            reason = " ".join(str(error).split())[:200]
            raise BadMessage(
                f"the value cannot be converted to the requested schema: {reason}"
            ) from None

    def _written(self, value: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, self._target, value)
        return out.getvalue()


def _unnamed(type_: Type, value: Any) -> Any:
    """The value with branch names where the type has a union, and nowhere else."""
    if isinstance(value, tuple):
        name, inner_value = value
        branch = _branch(type_, lambda branch: isinstance(branch, Named) and name == _name(branch))
        if branch is None:
            return _unnamed(type_, inner_value)
        return name, _unnamed(branch, inner_value)
    if isinstance(type_, Union) and isinstance(value, list | dict):
        kind = "array" if isinstance(value, list) else "map"
        type_ = _branch(type_, lambda branch: branch.kind == kind) or type_
    match type_, value:
        case Array(), list():
            return [_unnamed(type_.items, item) for item in value]
        case Map(), dict():
            return {key: _unnamed(type_.values, item) for key, item in value.items()}
        case Record(), dict():
            return {field.name: _unnamed(field.type, value[field.name]) for field in type_.fields}
    return value


def _branch(type_: Type, matches: Callable[[Type], bool]) -> Type | None:
    """The first matching branch, if the type is a union."""
    branches = type_.branches if isinstance(type_, Union) else ()
    return next(filter(matches, branches), None)


def _name(type_: Named) -> str:
    return written_name(type_.name)


class MessageConverter:
    """Converts messages of the envelope to bodies of `target`. Must not be used by two threads at
    once.

    `lookup` returns the schema of an id, or None.
    """

    def __init__(self, lookup: Callable[[int], AvroSchema | None], target: AvroSchema) -> None:
        self._lookup = lookup
        self._target = target
        self._known: OrderedDict[int, tuple[BodyCheck, Conversion]] = OrderedDict()

    def body(self, message: bytes | None) -> bytes:
        if message is None:
            raise BadMessage("the message has no value")
        schema_id = schema_id_of(message)
        if len(message) > MOST_BYTES:
            raise BadMessage(
                f"the message has {len(message):,} bytes, at most {MOST_BYTES:,} are allowed"
            )
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
            converter = BodyCheck(schema.type, text=True), Conversion(schema, self._target)
        except InvalidSchema as error:
            raise BadMessage(f"schema {schema_id}: {error}") from None
        self._known[schema_id] = converter
        if len(self._known) > MOST_SCHEMAS:
            self._known.popitem(last=False)
        return converter
