"""Caches the agent's schemas on disk, so that a restart does not need the registry.

The file `schemas` in the data directory has a line with format, version and the CRC-32C of the
rest, then JSON. It is replaced as a whole. Ids are valid for one registry only, so the file has the
registry's addresses, and is ignored if none of them is configured any more. An unreadable cache is
filled from the registry again, and so are schemas of Penstock's own entries that another release
has written: they lack fields that this one writes.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import crc32c
import msgspec

from agent.encoding.topic_schemas.values import BUILT_IN_FOR, Purpose, TopicPurpose, TopicSchema
from ground.files.durable_files import replace_file
from ground.known_types import known_type
from schemas.errors import InvalidSchema
from schemas.event_schemas import built_in
from schemas.parsing import parse

FILE_NAME: Final = "schemas"
_FORMAT: Final = "penstock-agent-schemas 1"
_MOST_BYTES: Final = 256 * 1024 * 1024

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    purpose: Purpose
    id: int
    version: int
    schema: str


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    registry: tuple[str, ...]
    schemas: tuple[_Entry, ...]


class _Damaged(Exception):
    """The error for a cache that cannot be used; the message is the reason."""


def read_cache(directory: Path, registry: Sequence[str]) -> dict[TopicPurpose, TopicSchema]:
    """The cached schemas of this registry; none if the file is missing or damaged."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
        content = _content(data)
        if not set(content.registry) & set(registry):
            log.warning(
                "ignoring cached schemas of another registry path=%s registry=%s",
                path,
                ",".join(content.registry),
            )
            return {}
        schemas = {
            TopicPurpose(entry.topic, entry.purpose): _schema(entry) for entry in content.schemas
        }
        return {purpose: schema for purpose, schema in schemas.items() if _is_ours(purpose, schema)}
    except FileNotFoundError:
        return {}
    except (OSError, _Damaged, InvalidSchema) as error:
        log.warning(
            "cannot read cached schemas, querying the registry path=%s error=%s", path, error
        )
        return {}


def write_cache(
    directory: Path, registry: Sequence[str], schemas: Mapping[TopicPurpose, TopicSchema]
) -> None:
    """Replaces the cache file; a crash leaves either the old file or the new one. Raises
    OSError."""
    entries = tuple(
        _Entry(
            topic=schema.topic,
            purpose=purpose.purpose,
            id=schema.id,
            version=schema.version,
            schema=schema.schema.resolved_text,
        )
        for purpose, schema in schemas.items()
    )
    body = msgspec.json.encode(_Content(registry=tuple(registry), schemas=entries))
    head = f"{_FORMAT} {crc32c.crc32c(body):08x}\n".encode()
    replace_file(directory / FILE_NAME, head + body)


def _content(data: bytes) -> _Content:
    head, _, body = data.partition(b"\n")
    name, _, crc = head.decode("ascii", "replace").rpartition(" ")
    if name != _FORMAT:
        raise _Damaged("unknown format")
    if crc != f"{crc32c.crc32c(body):08x}":
        raise _Damaged("checksum mismatch")
    try:
        return msgspec.json.decode(body, type=known_type(_Content))
    except msgspec.DecodeError as error:
        raise _Damaged(str(error)) from None


def _schema(entry: _Entry) -> TopicSchema:
    schema = parse(entry.schema, strict=False)
    return TopicSchema(entry.topic, entry.id, entry.version, schema)


def _is_ours(wanted: TopicPurpose, schema: TopicSchema) -> bool:
    """Whether this release writes with the schema. It writes lines with any release's."""
    if wanted.purpose not in {Purpose.LEDGER, Purpose.DEAD_LETTERS}:
        return True
    return schema.schema.text == built_in(BUILT_IN_FOR[wanted.purpose]).text
