"""The schemas an agent has been told of, on disk: a restart needs no registry.

One file, `schemas`, in the data directory: a line with format, version and the CRC-32C of all that
follows, then JSON. It is replaced as a whole. An id means nothing at another registry: so the
file says whose it is, and is left unread if not one of its addresses is still configured. Whatever
cannot be read is asked for again.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import crc32c
import msgspec

from agent.topic_schemas.values import Purpose, TopicSchema, Wanted
from ground.durable_files import replace_file
from ground.known_types import known_type
from schemas.errors import InvalidSchema
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
    """It cannot be used: says why."""


def read_cache(directory: Path, registry: Sequence[str]) -> dict[Wanted, TopicSchema]:
    """What was kept for this registry; nothing if there is no such file, or it is damaged."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
        content = _content(data)
        if not set(content.registry) & set(registry):
            log.warning(
                "cached schemas are another registry's, and not used path=%s registry=%s",
                path,
                ",".join(content.registry),
            )
            return {}
        return {Wanted(each.topic, each.purpose): _schema(each) for each in content.schemas}
    except FileNotFoundError:
        return {}
    except (OSError, _Damaged, InvalidSchema) as error:
        log.warning("cached schemas cannot be read, asking again path=%s error=%s", path, error)
        return {}


def write_cache(
    directory: Path, registry: Sequence[str], schemas: Mapping[Wanted, TopicSchema]
) -> None:
    """Replaces the file; a crash leaves the old one or the new. Raises OSError."""
    entries = tuple(
        _Entry(
            topic=each.topic,
            purpose=wanted.purpose,
            id=each.id,
            version=each.version,
            schema=each.schema.resolved_text,
        )
        for wanted, each in schemas.items()
    )
    body = msgspec.json.encode(_Content(registry=tuple(registry), schemas=entries))
    head = f"{_FORMAT} {crc32c.crc32c(body):08x}\n".encode()
    replace_file(directory / FILE_NAME, head + body)


def _content(data: bytes) -> _Content:
    head, _, body = data.partition(b"\n")
    name, _, crc = head.decode("ascii", "replace").rpartition(" ")
    if name != _FORMAT:
        raise _Damaged("it is of another format")
    if crc != f"{crc32c.crc32c(body):08x}":
        raise _Damaged("its checksum does not match")
    try:
        return msgspec.json.decode(body, type=known_type(_Content))
    except msgspec.DecodeError as error:
        raise _Damaged(str(error)) from None


def _schema(entry: _Entry) -> TopicSchema:
    schema = parse(entry.schema, strict=False)
    return TopicSchema(entry.topic, entry.id, entry.version, schema)
