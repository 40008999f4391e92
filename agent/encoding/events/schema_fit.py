"""Checks that an input fits the schema of its topic, before any line is read."""

import re
from collections.abc import Collection
from typing import Final

from agent.configuration.inputs import Format, Input, UnknownFields
from agent.encoding.bodies.tail_encoder import HEADER_FIELDS, TailEncoder
from agent.encoding.events.presets import PRESETS
from agent.encoding.lines.containers import CONTAINER_FIELDS
from agent.errors import InputError
from schemas.definitions.types import Map, Primitive, Record, Type, Union
from schemas.errors import SchemaError
from schemas.parsing import AvroSchema

MESSAGE: Final = "message"
EXTRA: Final = "extra"

_NEED_FIELDS: Final = {Format.JSON, Format.LOGFMT, Format.REGEX}


def is_plain(schema: AvroSchema | None) -> bool:
    """Whether a schema is that of plain messages, like `penstock.LogLine`: the present header,
    path, message. None counts as plain, too."""
    if schema is None:
        return True
    if not isinstance(schema.type, Record):
        return False
    fields = schema.type.fields
    if [field.name for field in fields] != ["header", "path", MESSAGE]:
        return False
    header = fields[0].type
    today = isinstance(header, Record) and len(header.fields) == HEADER_FIELDS
    return today and all(_is_text(field.type) for field in fields[1:])


def encoder_for(input_: Input, schema: AvroSchema) -> TailEncoder:
    """Returns the encoder for a schema. Raises `InputError` with a one-line message."""
    try:
        encoder = TailEncoder(schema)
    except SchemaError as error:
        raise InputError(f"{input_.label}: the schema of {input_.topic}: {error}") from None
    except RecursionError:
        raise InputError(f"{input_.label}: the schema of {input_.topic} is too deep") from None
    return encoder


def check_fit(input_: Input, schema: AvroSchema | None, names: Collection[str] | None) -> None:
    """Checks that the input's options fit its schema and format. `names` are the fields that lines
    of this format have; None if they may have any. Raises `InputError`."""
    if schema is None and input_.format in _NEED_FIELDS:
        raise _no(input_, f"`format: {input_.format}` needs a schema, and the topic has none")
    if is_plain(schema):
        options = {"add_fields": input_.add_fields, "unknown_fields: keep": _keeps(input_)}
        for key in (key for key, is_given in options.items() if is_given):
            raise _no(input_, f"`{key}` needs a schema with fields, but the topic's is plain text")
        if names is not None and MESSAGE not in names:
            raise _lacks(input_, MESSAGE)
    if input_.time and input_.time.field in input_.add_fields:
        raise _no(
            input_,
            f"`time`: {input_.time.field} is one of `add_fields`, which are equal for all events",
        )
    for option, name in _fields_named(input_):
        if names is not None and name.partition(".")[0] not in {*names, *input_.add_fields}:
            raise _no(
                input_, f"`{option}`: lines of `format: {input_.format}` have no field {name}"
            )


def check_fields(input_: Input, encoder: TailEncoder, names: Collection[str] | None) -> None:
    """Checks that the input's fields fit the schema's. Raises `InputError`."""
    schema_fields = set(encoder.names)
    keeps_unknown = _keeps(input_)
    if keeps_unknown and not _is_map_of_text(encoder.types.get(EXTRA)):
        raise _no(
            input_,
            "`unknown_fields: keep` needs a field `extra` in the schema, a map of strings",
        )
    for name, value in input_.add_fields.items():
        current_name = encoder.named(name)
        if current_name not in schema_fields and not keeps_unknown:
            raise _no(input_, f"`add_fields`: the schema has no field {name}")
        if current_name in schema_fields:
            try:
                encoder.encode_field(current_name, value)
            except ValueError as error:
                raise _no(input_, f"`add_fields`: {error}") from None
    if names is None:
        return
    available_fields = {encoder.named(name) for name in (*names, *input_.add_fields)}
    for field in encoder.fields:
        name, default = field[0], field[-1]
        if default is None and name not in available_fields:
            raise _lacks(input_, name)


def names_of(input_: Input) -> Collection[str] | None:
    """The fields that lines of the input's format may have; None if they are not known."""
    names = _names_by_format(input_)
    if names is None or input_.journal is None:
        return names
    return {*names, *input_.journal.fields}


def _names_by_format(input_: Input) -> Collection[str] | None:
    match input_.format:
        case Format.PLAIN:
            return {MESSAGE}
        case Format.REGEX:
            return set(re.compile(input_.pattern).groupindex)
        case Format.CRI | Format.DOCKER:
            return CONTAINER_FIELDS
        case Format.JSON | Format.LOGFMT:
            return None
    return PRESETS[input_.format].names


def key_field(input_: Input) -> str:
    """The field of `partition_by: field:NAME`; empty if there is none."""
    kind, _, name = input_.partition_by.partition(":")
    return name if kind == "field" else ""


def _keeps(input_: Input) -> bool:
    return input_.unknown_fields is UnknownFields.KEEP


def _fields_named(input_: Input) -> list[tuple[str, str]]:
    option_fields = [("filters", filter_.field) for filter_ in input_.filters]
    option_fields.append(("time", input_.time.field if input_.time else ""))
    option_fields.append(("partition_by", key_field(input_)))
    return [(option, name) for option, name in option_fields if name]


def _is_text(type_: Type) -> bool:
    return isinstance(type_, Primitive) and type_.kind == "string"


def _is_map_of_text(type_: Type | None) -> bool:
    if isinstance(type_, Union):
        return any(_is_map_of_text(branch) for branch in type_.branches)
    return isinstance(type_, Map) and _is_text(type_.values)


def _lacks(input_: Input, name: str) -> InputError:
    return _no(
        input_,
        f"the schema of {input_.topic} requires a field {name}, which lines of "
        f"`format: {input_.format}` do not have",
    )


def _no(input_: Input, what: str) -> InputError:
    return InputError(f"{input_.label}: {what}")
