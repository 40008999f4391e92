"""What a registry answers, as values. Fields that are not here are passed over.

A registry of an older or newer version than the one these were read from says more or less: only
what every version says is required.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = [
    "AVRO",
    "CompatibilityVerdict",
    "Reference",
    "RegisteredSchema",
    "SchemaOfId",
    "SubjectVersion",
]

AVRO: Final = "AVRO"


class Reference(msgspec.Struct, frozen=True):
    """`name` is how a schema calls the type that another subject's version defines."""

    name: str
    subject: str
    version: int


class SubjectVersion(msgspec.Struct, frozen=True, order=True):
    """One place where a schema stands."""

    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject, as it stands in the registry."""

    subject: str
    version: int
    id: int
    text: str = msgspec.field(name="schema")
    references: tuple[Reference, ...] = ()
    type: str = msgspec.field(name="schemaType", default=AVRO)


class SchemaOfId(msgspec.Struct, frozen=True, kw_only=True):
    """The schema that an id means, for ever."""

    text: str = msgspec.field(name="schema")
    references: tuple[Reference, ...] = ()
    type: str = msgspec.field(name="schemaType", default=AVRO)


class CompatibilityVerdict(msgspec.Struct, frozen=True):
    """Whether a schema may be registered, and in the registry's words why not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class SchemaRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent to have a schema registered, looked up or checked."""

    schema: str
    references: Sequence[Reference] = ()


class RegisteredId(msgspec.Struct, frozen=True):
    id: int


class SetLevel(msgspec.Struct, frozen=True):
    compatibility: str


class EffectiveLevel(msgspec.Struct, frozen=True):
    level: str = msgspec.field(name="compatibilityLevel")


class EffectiveMode(msgspec.Struct, frozen=True):
    mode: str
