"""What a registry keeps, as values: versions, levels, modes; and the records of its topic."""

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
NOTHING: Final = msgspec.Raw()  # JSON that was not there


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


class Reference(msgspec.Struct, frozen=True):
    """`name` is how the schema calls the type that another subject's version defines."""

    name: str
    subject: str
    version: int


class SchemaContent(NamedTuple):
    """What makes two schemas the same one."""

    text: str
    type: str
    references: tuple[Reference, ...]
    metadata: str
    rule_set: str


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject.

    `metadata` and `rule_set` are Confluent's data contracts as JSON: kept and handed out as they
    came, since clients act on them and the registry does not. A `type` other than AVRO comes from
    a topic that Confluent's registry has written: it is handed out, and nothing more.
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
        """What it is, whatever it is called: equal contents have one id."""
        return SchemaContent(self.text, self.type, self.references, self.metadata, self.rule_set)

    def as_deleted(self) -> "Version":
        return msgspec.structs.replace(self, deleted=True)


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is set for one subject, or for all, in the order and by the names of the interface.

    The level, `normalize`, `validate_new_schemas` and `compatibility_group` are acted upon. The
    others say what is so here anyway, or come from a topic that Confluent's registry has written:
    they are kept and shown.
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
    """A record of the registry's topic; without a value it removes what stood under the key."""

    key: bytes
    value: bytes | None


class Decision(msgspec.Struct, Generic[Answer], frozen=True):
    """What a write comes to: records to append, and what the client is told once they stand."""

    records: tuple[LogRecord, ...]
    answer: Answer
