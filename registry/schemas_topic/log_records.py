"""The records of the registry's topic: Confluent's keys and values, read and written.

Compatible with Confluent's registry in both directions. Keys are written byte for byte as it
does, since compaction compares their bytes.
"""

import re
import struct
from typing import Any, Final, TypeVar

import msgspec

from ground.known_types import known_type
from registry.schemas_topic.values import AVRO, NOTHING, Config, LogRecord, Mode, Reference, Version

T = TypeVar("T")


class BadRecord(Exception):
    """Not a record of a registry, or one of an unknown kind."""


class SchemaRecord(msgspec.Struct, frozen=True):
    """The current state of a version; None removes it permanently."""

    subject: str
    version: int
    value: Version | None


class ConfigRecord(msgspec.Struct, frozen=True):
    """The config of a subject; the global one if the subject is None."""

    subject: str | None
    value: Config | None


class ModeRecord(msgspec.Struct, frozen=True):
    subject: str | None
    value: Mode | None


class DeleteSubjectRecord(msgspec.Struct, frozen=True):
    """Soft deletion of all versions up to this one."""

    subject: str
    version: int


class ClearSubjectRecord(msgspec.Struct, frozen=True):
    """Forgets deleted versions: the subject is about to be imported."""

    subject: str | None


class NoRecord(msgspec.Struct, frozen=True):
    """A writer's heartbeat, or a record without meaning here, such as one of a context's subject.

    Confluent's registry ignores the value. Ours stores the highest assigned id in it.
    """

    highest_id: int = 0


Record = (
    SchemaRecord | ConfigRecord | ModeRecord | DeleteSubjectRecord | ClearSubjectRecord | NoRecord
)


class _Key(msgspec.Struct, omit_defaults=True):
    keytype: str
    subject: str | None = None
    version: int | None = None
    magic: int | None = None  # always written


class _SchemaValue(msgspec.Struct, kw_only=True, omit_defaults=True):
    subject: str
    version: int
    id: int
    schema_type: str | None = msgspec.field(name="schemaType", default=None)
    references: tuple[Reference, ...] = ()
    metadata: msgspec.Raw = NOTHING
    rule_set: msgspec.Raw = msgspec.field(name="ruleSet", default=NOTHING)
    schema: str = ""  # may be empty if imported
    deleted: bool | None = None  # always written


class _SubjectVersion(msgspec.Struct, omit_defaults=True):
    subject: str | None = None
    version: int | None = None


class _ModeValue(msgspec.Struct, omit_defaults=True):
    subject: str | None = None
    mode: Mode | None = None


class _Noop(msgspec.Struct, rename="camel"):
    highest_id: int = 0


_CONTEXT: Final = ":."  # `:.context:subject`, which has ids of its own
_BEYOND_FIRST_PLANE: Final = re.compile("[\U00010000-\U0010ffff]")
_NOOP_KEY: Final = b'{"keytype":"NOOP","magic":0}'

_encoder = msgspec.json.Encoder()
_key_decoder = msgspec.json.Decoder(_Key)
_schema_decoder = msgspec.json.Decoder(_SchemaValue)


def read(record: LogRecord) -> Record:
    """Parses a record. Raises BadRecord."""
    try:
        key = _key_decoder.decode(record.key)
        if key.subject is not None and key.subject.startswith(_CONTEXT):
            return NoRecord()
        match key.keytype:
            case "SCHEMA":
                return _schema_record(key, record.value)
            case "CONFIG":
                return ConfigRecord(key.subject, _value(record.value, Config))
            case "MODE":
                value = _value(record.value, _ModeValue)
                return ModeRecord(key.subject, value.mode if value is not None else None)
            case "DELETE_SUBJECT":
                return _delete_subject_record(record.value)
            case "CLEAR_SUBJECT":
                cleared = _value(record.value, _SubjectVersion)
                return ClearSubjectRecord(cleared.subject) if cleared is not None else NoRecord()
            case "NOOP":
                sign = _value(record.value, _Noop)
                return NoRecord(sign.highest_id if sign is not None else 0)
            case "CONTEXT" | "ASSOC":
                return NoRecord()
    # ValueError: not UTF-8; RecursionError: nested too deeply.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord(str(error)) from None
    raise BadRecord(f"unknown key type {key.keytype!r:.40}")


def write(record: Record) -> LogRecord:
    """Encodes the record as Confluent's registry would write it."""
    match record:
        case SchemaRecord(subject, version, value):
            return LogRecord(
                _key_bytes(_Key("SCHEMA", subject, version, 1)),
                None if value is None else _encode(_schema_value(value)),
            )
        case ConfigRecord(subject, config):
            return LogRecord(_key("CONFIG", subject), _config_value(subject, config))
        case ModeRecord(subject, mode):
            data = None if mode is None else _encode(_ModeValue(subject, mode))
            return LogRecord(_key("MODE", subject), data)
        case DeleteSubjectRecord(subject, version):
            data = _encode(_SubjectVersion(subject, version))
            return LogRecord(_key("DELETE_SUBJECT", subject), data)
        case ClearSubjectRecord(subject):
            return LogRecord(_key("CLEAR_SUBJECT", subject), _encode(_SubjectVersion(subject)))
        case NoRecord(highest_id):
            return LogRecord(_NOOP_KEY, _encode(_Noop(highest_id)) if highest_id else None)


def _key(kind: str, subject: str | None) -> bytes:
    return _key_bytes(_Key(kind, subject, magic=0))


def _key_bytes(key: _Key) -> bytes:
    """The key as Jackson writes it: a character beyond the first plane as two escapes."""
    text = _encode(key).decode()
    return _BEYOND_FIRST_PLANE.sub(_surrogates, text).encode()


def _surrogates(letter: re.Match[str]) -> str:
    high, low = struct.unpack(">HH", letter[0].encode("utf-16-be"))
    return f"\\u{high:04X}\\u{low:04X}"


def _encode(value: Any) -> bytes:
    return _encoder.encode(value)


def _value(written: bytes | None, kind: type[T]) -> T | None:
    return None if written is None else msgspec.json.decode(written, type=known_type(kind))


def _schema_record(key: _Key, written: bytes | None) -> SchemaRecord:
    if key.subject is None or key.version is None:
        raise BadRecord("schema key without subject or version")
    if written is None:
        return SchemaRecord(key.subject, key.version, None)
    value = _schema_decoder.decode(written)
    return SchemaRecord(
        key.subject,
        key.version,
        Version(
            subject=key.subject,
            version=key.version,
            id=value.id,
            text=value.schema,
            type=value.schema_type or AVRO,
            references=value.references,
            metadata=_text(value.metadata),
            rule_set=_text(value.rule_set),
            deleted=bool(value.deleted),
        ),
    )


def _delete_subject_record(written: bytes | None) -> DeleteSubjectRecord | NoRecord:
    value = _value(written, _SubjectVersion)
    if value is None or value.subject is None or value.version is None:
        return NoRecord()
    return DeleteSubjectRecord(value.subject, value.version)


def _schema_value(value: Version) -> _SchemaValue:
    return _SchemaValue(
        subject=value.subject,
        version=value.version,
        id=value.id,
        schema_type=None if value.type == AVRO else value.type,
        references=value.references,
        metadata=_raw(value.metadata),
        rule_set=_raw(value.rule_set),
        schema=value.text,
        deleted=value.deleted,
    )


def _config_value(subject: str | None, config: Config | None) -> bytes | None:
    if config is None:
        return None
    fields = _encode(config)
    if subject is None:
        return fields
    prefix = b'{"subject":' + _encode(subject)
    return prefix + (b"}" if fields == b"{}" else b"," + fields[1:])


def _text(raw: msgspec.Raw) -> str:
    text = bytes(raw).decode()
    return "" if text == "null" else text


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode()) if text else NOTHING
