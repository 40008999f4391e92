"""Whether a subject has a schema already, and under which version and id."""

from typing import Any

import msgspec

from registry.contents import Contents
from registry.data_contracts import without_version
from registry.parsed_schemas import parse_version, pinned
from registry.requests import SchemaRequest
from registry.values import AVRO, Content, Version
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema


def content_of(
    contents: Contents, request: SchemaRequest, parsed: AvroSchema, previous: Version | None = None
) -> Content:
    """What would be stored. Data contracts that the request leaves out are `previous`'s."""
    metadata = request.metadata.text if request.metadata is not None else ""
    rule_set = request.rule_set.text if request.rule_set is not None else ""
    if previous is not None:
        metadata, rule_set = metadata or previous.metadata, rule_set or previous.rule_set
    return Content(
        parsed.text, AVRO, pinned(contents, request.references or ()), metadata, rule_set
    )


def look_up(
    contents: Contents,
    subject: str,
    content: Content,
    parsed: AvroSchema,
    *,
    deleted: bool = False,
) -> Version | None:
    """The version of a subject that is this content.

    The last that has its very text; or else the last that means the same: with the properties of a
    type in another order, or with everything written out that the other refers to.
    """
    schema_id = contents.id_of(content)
    if schema_id is not None:
        found = contents.with_id(schema_id, subject)
        if found is not None and (deleted or not found.deleted):
            return found
    meaning: Any = None
    for version in reversed(contents.versions(subject, deleted=deleted)):
        if not _may_mean_the_same(content, version):
            continue
        if meaning is None:
            meaning = msgspec.json.decode(parsed.resolved_text)
        if _meaning(contents, version) == meaning:
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


def _meaning(contents: Contents, version: Version) -> Any:
    try:
        return msgspec.json.decode(parse_version(contents, version).resolved_text)
    except InvalidSchema:
        return None
