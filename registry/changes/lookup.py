"""Looks up whether a subject has a schema already, and its version and id."""

import msgspec

from registry.data_contracts import without_version
from registry.errors import ErrorAnswer
from registry.parsed_schemas import SentSchema, stored_schema
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import AVRO, SchemaContent, Version


def content_of(
    request: SchemaRequest, sent: SentSchema, text: str, previous: Version | None = None
) -> SchemaContent:
    """Returns the content to store. Data contracts that the request omits are taken from
    `previous`."""
    metadata = request.metadata.text if request.metadata is not None else ""
    rule_set = request.rule_set.text if request.rule_set is not None else ""
    if previous is not None:
        metadata, rule_set = metadata or previous.metadata, rule_set or previous.rule_set
    return SchemaContent(text, AVRO, sent.references, metadata, rule_set)


class Search(msgspec.Struct, frozen=True):
    """Searches versions for one with the same meaning as the schema sent. Runs on any thread.

    Schemas mean the same if they differ only in the order of a type's properties, or if one spells
    out the types that the other refers to.
    """

    sent: SentSchema
    among: tuple[tuple[Version, SentSchema], ...]  # newest first

    @property
    def size(self) -> int:
        """The number of characters to compare."""
        return self.sent.sent.size + sum(schema.sent.size for _, schema in self.among)

    def found(self) -> Version | None:
        if not self.among:
            return None
        meaning = self.sent.meaning
        for version, schema in self.among:
            try:
                if schema.meaning == meaning:
                    return version
            except ErrorAnswer:  # stored without validation
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
    """Returns the version of a subject with exactly this content, or else a search for one that
    means the same."""
    schema_id = contents.id_of(content)
    if schema_id is not None:
        version = contents.with_id(schema_id, subject)
        if version is not None and (deleted or not version.deleted):
            return version
    candidates = [
        (version, schema)
        for version in reversed(contents.versions(subject, deleted=deleted))
        if _may_mean_the_same(content, version)
        and (schema := stored_schema(contents, version)) is not None
    ]
    return Search(sent, tuple(candidates))


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
