"""Whether an agent can write any event of a schema, for `penstock schemas check`.

A running agent finds it out when it compiles the schema, or line by line: each is a dead letter.
"""

from agent.encoding.bodies.tail_encoder import TailEncoder
from schemas.definitions.type_descriptions import type_in_words
from schemas.definitions.types import Enum, Record, Type, Union
from schemas.errors import SchemaError
from schemas.parsing import AvroSchema


def why_unwritable(schema: AvroSchema) -> str:
    """Returns why an agent cannot write any event of the schema, in one line; empty if it can write
    some."""
    try:
        encoder = TailEncoder(schema)
    except SchemaError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    assert isinstance(schema.type, Record)
    for field in schema.type.fields:
        is_needed = field.name in encoder.types and not field.has_default
        if is_needed and not _has_value(field.type, (schema.type,)):
            return f"{field.name}: no value fits {type_in_words(field.type)}"
    return ""


def _has_value(type_: Type, inside: tuple[Record, ...]) -> bool:
    """`inside` are the records that contain it: one that needs another of its own has no end."""
    match type_:
        case Enum():
            return bool(type_.symbols)
        case Union():
            return any(_has_value(branch, inside) for branch in type_.branches)
        case Record():
            return not any(type_ is record for record in inside) and all(
                field.has_default or _has_value(field.type, (*inside, type_))
                for field in type_.fields
            )
    return True
