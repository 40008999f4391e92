"""Responses of a registry, as values. Ignores unknown fields.

Other versions of a registry may send more or fewer fields: only those of every version are
required.
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
    """A reference to another subject. `name` is the schema's name for the type that this version of
    the subject defines."""

    name: str
    subject: str
    version: int


class SubjectVersion(msgspec.Struct, frozen=True, order=True):
    """A subject and a version under which a schema is registered."""

    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject in the registry."""

    subject: str
    version: int
    id: int
    text: str = msgspec.field(name="schema")
    references: tuple[Reference, ...] = ()
    type: str = msgspec.field(name="schemaType", default=AVRO)


class SchemaOfId(msgspec.Struct, frozen=True, kw_only=True):
    """The schema with a given id."""

    text: str = msgspec.field(name="schema")
    references: tuple[Reference, ...] = ()
    type: str = msgspec.field(name="schemaType", default=AVRO)


class CompatibilityVerdict(msgspec.Struct, frozen=True):
    """Whether a schema may be registered, and if not, the registry's reasons."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class SchemaRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schema to register, look up or check."""

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
