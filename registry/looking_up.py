"""Whether a subject has a schema already, and under which version and id."""

import hashlib
from functools import lru_cache
from typing import Final

import msgspec

from registry.contents import Contents
from registry.data_contracts import without_version
from registry.parsed_schemas import SentSchema, parse_version, pinned
from registry.requests import SchemaRequest
from registry.values import AVRO, Content, Version
from schemas.errors import InvalidSchema

_REMEMBERED: Final = 50_000  # of texts that are held in the contents all the same


def content_of(
    contents: Contents, request: SchemaRequest, text: str, previous: Version | None = None
) -> Content:
    """What would be stored. Data contracts that the request leaves out are `previous`'s."""
    metadata = request.metadata.text if request.metadata is not None else ""
    rule_set = request.rule_set.text if request.rule_set is not None else ""
    if previous is not None:
        metadata, rule_set = metadata or previous.metadata, rule_set or previous.rule_set
    return Content(text, AVRO, pinned(contents, request.references or ()), metadata, rule_set)


def look_up(
    contents: Contents,
    subject: str,
    content: Content,
    sent: SentSchema,
    *,
    deleted: bool = False,
) -> Version | None:
    """The version of a subject that is this content, which was sent so.

    The last that has its very text; or else the last that means the same: with the properties of a
    type in another order, or with everything written out that the other refers to.
    """
    schema_id = contents.id_of(content)
    if schema_id is not None:
        found = contents.with_id(schema_id, subject)
        if found is not None and (deleted or not found.deleted):
            return found
    meaning = None
    for version in reversed(contents.versions(subject, deleted=deleted)):
        if not _may_mean_the_same(content, version):
            continue
        if meaning is None:
            meaning = _meaning(sent.parsed().resolved_text if content.references else content.text)
        if _meaning_of(contents, version) == meaning:
            return version
    return None


def _may_mean_the_same(content: Content, version: Version) -> bool:
    if content.rule_set != version.rule_set:
        return False
    if content.metadata != version.metadata and content.metadata != without_version(
        version.metadata
    ):
        return False
    if content.references == version.references:
        return len(content.text) == len(version.text)  # the same letters in another order
    return not content.references


def _meaning_of(contents: Contents, version: Version) -> bytes | None:
    if not version.references:
        return _meaning(version.text)
    try:
        return _meaning(parse_version(contents, version).resolved_text)
    except InvalidSchema:
        return None


@lru_cache(_REMEMBERED)
def _meaning(text: str) -> bytes:
    """The same for texts that differ in nothing but the order of properties."""
    written = msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    return hashlib.blake2b(written, digest_size=16).digest()
