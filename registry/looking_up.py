"""Whether a subject has a schema already, and under which version and id."""

from registry.contents import Contents
from registry.parsed_schemas import parse_version, pinned
from registry.requests import SchemaRequest
from registry.values import AVRO, Content, Version
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema


def content_of(
    contents: Contents, request: SchemaRequest, parsed: AvroSchema, previous: Version | None = None
) -> Content:
    """What would be stored. Data contracts that the request leaves out are `previous`'s."""
    return Content(
        parsed.text,
        AVRO,
        pinned(contents, request.references or ()),
        request.contract("metadata") or (previous.metadata if previous is not None else ""),
        request.contract("rule_set") or (previous.rule_set if previous is not None else ""),
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

    A schema that is sent with everything written out is the same as one that refers to it.
    """
    schema_id = contents.id_of(content)
    if schema_id is not None:
        found = contents.with_id(schema_id, subject)
        if found is not None and (deleted or not found.deleted):
            return found
    if content.references:
        return None
    for version in reversed(contents.versions(subject, deleted=deleted)):
        if version.references and _same(contents, parsed, version):
            return version
    return None


def _same(contents: Contents, parsed: AvroSchema, version: Version) -> bool:
    try:
        return parse_version(contents, version).resolved_text == parsed.text
    except InvalidSchema:
        return False
