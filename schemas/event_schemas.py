"""The header of every event, Penstock's own schemas, and templates for new schemas.

The header is defined once, in avro/EventHeader.avsc. The other files refer to it by name; in a
registered schema it is written out, so that a subject is self-contained and clients can read it
without a second request.

A later version of the header may append fields, each with a default. So an event schema of any
version passes the check of every version.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from schemas.definitions.type_descriptions import type_in_words
from schemas.definitions.types import Field, Record
from schemas.errors import NotAnEvent
from schemas.parsing import AvroSchema, parse

HEADER: Final = "penstock.EventHeader"
LOG_LINE: Final = "penstock.LogLine"
SYSLOG_LINE: Final = "penstock.SyslogLine"
ACCESS_LINE: Final = "penstock.AccessLine"
HAPROXY_LINE: Final = "penstock.HaproxyLine"
POSTGRESQL_LINE: Final = "penstock.PostgresqlLine"
DEAD_LETTER: Final = "penstock.DeadLetter"
LEDGER: Final = "penstock.Ledger"
LINES_WITH_FIELDS: Final = (SYSLOG_LINE, ACCESS_LINE, HAPROXY_LINE, POSTGRESQL_LINE)
BUILT_IN: Final = (HEADER, LOG_LINE, *LINES_WITH_FIELDS, DEAD_LETTER, LEDGER)

TypeJson = Any  # an Avro type as JSON

_EXAMPLE: Final = {
    "name": "message",
    "type": "string",
    "doc": "An example: put your own fields in its place. One that is added later needs a default, "
    'as {"name": "user", "type": ["null", "string"], "default": null} has, '
    "so that old events can still be read.",
}


@cache
def built_in(full_name: str) -> AvroSchema:
    """Returns a schema of `BUILT_IN` in its registered form, without references."""
    if full_name not in BUILT_IN:
        raise LookupError(f"{full_name} is not one of {', '.join(BUILT_IN)}")
    if full_name == HEADER:
        return parse(_text(HEADER))
    return parse(parse(_text(full_name), [_text(HEADER)]).resolved_text)


def _text(full_name: str) -> str:
    file = f"{full_name.rpartition('.')[2]}.avsc"
    return files(__package__).joinpath("avro", file).read_text(encoding="utf-8")


def check_event_schema(schema: AvroSchema) -> None:
    """Checks that the schema is a record whose first field is the header. Raises NotAnEvent."""
    event = schema.type
    if not isinstance(event, Record) or event.is_error:
        raise NotAnEvent(f"an event is a record, but this is of type {type_in_words(event)}")
    first_name = event.fields[0].name if event.fields else "missing"
    if first_name != "header":
        raise NotAnEvent(f"the first field must be header, of type {HEADER}; it is {first_name}")
    header = event.fields[0].type
    if not isinstance(header, Record) or header.name.full != HEADER:
        raise NotAnEvent(
            f"the header must be of type {HEADER}; it is {type_in_words(header)}", "header"
        )
    _check_header(header.fields)


def _check_header(theirs: Sequence[Field]) -> None:
    names = [field.name for field in theirs]
    definition = built_in(HEADER).type
    assert isinstance(definition, Record)
    for index, field in enumerate(definition.fields):
        place = f"header.{field.name}"
        if field.name not in names:
            raise NotAnEvent("the field is missing", place)
        if names[index] != field.name:
            raise NotAnEvent(f"the field {names[index]} is in this place", place)
        expected_type, actual_type = type_in_words(field.type), type_in_words(theirs[index].type)
        if actual_type != expected_type:
            raise NotAnEvent(f"the field must be {expected_type}; it is {actual_type}", place)
    known_count = len(definition.fields)
    for field in theirs[known_count:]:
        if not field.has_default:
            raise NotAnEvent(
                f"only {', '.join(names[:known_count])} may lack a default",
                f"header.{field.name}",
            )


def scaffold(full_name: str, fields: Mapping[str, TypeJson] | None = None, doc: str = "") -> str:
    """Returns the text of a new event schema: the header, then `fields`, or an example if `fields`
    is empty.

    `fields` maps names to Avro types as JSON. A nullable field gets null as its default.
    """
    namespace, _, name = full_name.rpartition(".")
    schema = {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "doc": doc or f"What a {name} is, and when one is written.",
        "fields": [
            {
                "name": "header",
                "type": json.loads(_text(HEADER)),
                "doc": "When and where it happened, and which event it is.",
            },
            *([_field(*item) for item in fields.items()] if fields else [_EXAMPLE]),
        ],
    }
    text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    check_event_schema(parse(text))
    return text


def _field(name: str, type_: TypeJson) -> dict[str, Any]:
    field = {"name": name, "type": type_, "doc": f"What {name} is."}
    if isinstance(type_, list) and type_[:1] == ["null"]:
        field["default"] = None
    return field
