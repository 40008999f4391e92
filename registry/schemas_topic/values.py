"""Values of a registry: versions, levels and modes; and records of its topic."""

from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from schemas.compatibility import Level

__all__ = [
    "AVRO",
    "NOTHING",
    "Config",
    "Decision",
    "Level",
    "LogRecord",
    "Mode",
    "Reference",
    "SchemaContent",
    "Version",
]

Answer = TypeVar("Answer")

AVRO: Final = "AVRO"
NOTHING: Final = msgspec.Raw()  # absent JSON


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


class Reference(msgspec.Struct, frozen=True):
    """A reference to another subject. `name` is the name under which the schema uses the type that
    the referenced version defines."""

    name: str
    subject: str
    version: int


class SchemaContent(NamedTuple):
    """The fields that must be equal for two schemas to be the same."""

    text: str
    type: str
    references: tuple[Reference, ...]
    metadata: str
    rule_set: str


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject.

    `metadata` and `rule_set` are Confluent's data contracts as JSON. Clients act on them; the
    registry stores and returns them unchanged. A `type` other than AVRO comes from a topic that
    Confluent's registry wrote: it is only returned.
    """

    subject: str
    version: int
    id: int
    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
    deleted: bool = False

    @property
    def content(self) -> SchemaContent:
        """The content without its names; versions with equal content share one id."""
        return SchemaContent(self.text, self.type, self.references, self.metadata, self.rule_set)

    def as_deleted(self) -> "Version":
        return msgspec.structs.replace(self, deleted=True)


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The settings of a subject, or global ones, in the order and with the names of the interface.

    The registry acts on the level, `normalize`, `validate_new_schemas` and `compatibility_group`.
    The others describe its behavior anyway, or come from a topic that Confluent's registry wrote:
    they are stored and returned.
    """

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: Level | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: msgspec.Raw = NOTHING
    override_metadata: msgspec.Raw = NOTHING
    default_rule_set: msgspec.Raw = NOTHING
    override_rule_set: msgspec.Raw = NOTHING


class LogRecord(msgspec.Struct, frozen=True):
    """A record of the registry's topic. Without a value it removes its key."""

    key: bytes
    value: bytes | None


class Decision(msgspec.Struct, Generic[Answer], frozen=True):
    """The outcome of a write: records to append, and the answer once they are published."""

    records: tuple[LogRecord, ...]
    answer: Answer
