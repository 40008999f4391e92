"""Whether a subject has a schema already, and under which version and id."""

import msgspec

from registry.contents import RegistryContents
from registry.data_contracts import without_version
from registry.errors import Answered
from registry.parsed_schemas import SentSchema, stored_schema
from registry.requests import SchemaRequest
from registry.values import AVRO, SchemaContent, Version


def content_of(
    request: SchemaRequest, sent: SentSchema, text: str, previous: Version | None = None
) -> SchemaContent:
    """What would be stored. Data contracts that the request leaves out are `previous`'s."""
    metadata = request.metadata.text if request.metadata is not None else ""
    rule_set = request.rule_set.text if request.rule_set is not None else ""
    if previous is not None:
        metadata, rule_set = metadata or previous.metadata, rule_set or previous.rule_set
    return SchemaContent(text, AVRO, sent.references, metadata, rule_set)


class Search(msgspec.Struct, frozen=True):
    """A version that means the same as what was sent, among some: found in whichever thread.

    The same is a schema with the properties of a type in another order, or with everything written
    out that the other refers to.
    """

    sent: SentSchema
    among: tuple[tuple[Version, SentSchema], ...]  # the newest first

    @property
    def size(self) -> int:
        """Characters that are to be looked through."""
        return self.sent.sent.size + sum(schema.sent.size for _, schema in self.among)

    def found(self) -> Version | None:
        if not self.among:
            return None
        meaning = self.sent.meaning
        for version, schema in self.among:
            try:
                if schema.meaning == meaning:
                    return version
            except Answered:  # it stands there without a check
                continue
        return None


def look_up(
    contents: RegistryContents,
    subject: str,
    content: SchemaContent,
    sent: SentSchema,
    *,
    deleted: bool = False,
) -> Version | Search:
    """The version of a subject that has this very text; or where to look for one like it."""
    schema_id = contents.id_of(content)
    if schema_id is not None:
        found = contents.with_id(schema_id, subject)
        if found is not None and (deleted or not found.deleted):
            return found
    among = [
        (version, schema)
        for version in reversed(contents.versions(subject, deleted=deleted))
        if _may_mean_the_same(content, version)
        and (schema := stored_schema(contents, version)) is not None
    ]
    return Search(sent, tuple(among))


def _may_mean_the_same(content: SchemaContent, version: Version) -> bool:
    if content.type != version.type or content.rule_set != version.rule_set:
        return False
    if content.metadata != version.metadata and content.metadata != without_version(
        version.metadata
    ):
        return False
    if content.references == version.references:
        return len(content.text) == len(version.text)  # the same letters in another order
    return not content.references
