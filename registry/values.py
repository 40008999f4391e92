"""What a registry keeps, as values: versions of schemas, levels, modes; and records of its topic."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from schemas.compatibility import Level

__all__ = [
    "Config",
    "Decision",
    "Level",
    "LogRecord",
    "Mode",
    "Reference",
    "Version",
]

Answer = TypeVar("Answer")


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


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject.

    `metadata` and `rule_set` are Confluent's data contracts: kept and handed out as they came,
    since clients act on them and the registry does not.
    """

    subject: str
    version: int
    id: int
    text: str
    references: tuple[Reference, ...] = ()
    metadata: msgspec.Raw | None = None
    rule_set: msgspec.Raw | None = None
    deleted: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for one subject, or for all: None is not set."""

    level: Level | None = None
    normalize: bool | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of the registry's topic; without a value it removes what stood under the key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """What a write comes to: records to append, and what the client is told once they stand."""

    records: tuple[LogRecord, ...]
    answer: Answer
