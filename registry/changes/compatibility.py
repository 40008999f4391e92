"""Checks of a new schema against the earlier versions of a subject, by its compatibility level."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from registry.data_contracts import properties
from registry.errors import ErrorAnswer, invalid_schema
from registry.parsed_schemas import SentSchema, stored_schema
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Config, Level, SchemaContent, Version
from schemas.compatibility import messages
from schemas.parsing import AvroSchema


def config_in_scope(contents: RegistryContents, subject: str | None) -> Config:
    """Returns the effective config: the subject's own settings, completed by the global ones."""
    global_config = contents.config_of_all(subject) or Config()
    own_config = contents.config(subject) if subject is not None else None
    merged_config = global_config if own_config is None else merge(global_config, own_config)
    if merged_config.compatibility_level is None:
        return msgspec.structs.replace(merged_config, compatibility_level=contents.default_level)
    return merged_config


def merge(under: Config, over: Config) -> Config:
    """Returns the settings of `over`, with those of `under` where `over` has none."""
    settings = {
        name: getattr(over, name)
        for name in Config.__struct_fields__
        if getattr(over, name) not in (None, msgspec.Raw())
    }
    return msgspec.structs.replace(under, **settings)


class CompatibilityCheck(msgspec.Struct, frozen=True):
    """A compatibility check with all its input, so that any thread can run it."""

    level: Level
    new: Callable[[], AvroSchema]
    previous: tuple[tuple[int, Callable[[], AvroSchema]], ...]  # numbers and schemas, oldest first
    size: int  # characters to parse and compare

    def objections(self) -> list[str]:
        """The incompatibilities in Confluent's words; empty if compatible."""
        if self.level is Level.NONE:
            return []
        new_schema = self.new()
        try:
            objections = messages(
                self.level,
                new_schema,
                [(version, read_schema()) for version, read_schema in self.previous],
            )
        except ErrorAnswer as error:
            objections = [f"Cannot compare with an earlier schema: {error}"]
        if objections:
            objections.append(f"{{validateFields: 'false', compatibility: '{self.level.value}'}}")
        return objections


def compatibility_check(
    contents: RegistryContents,
    subject: str,
    content: SchemaContent,
    sent: SentSchema,
    earlier_versions: Sequence[Version],
) -> CompatibilityCheck:
    """Returns the check of `sent` against `earlier_versions` (oldest first) at the subject's
    level."""
    config = config_in_scope(contents, subject)
    level = config.compatibility_level or Level.NONE
    group = config.compatibility_group
    if group is not None:
        group_name = properties(content.metadata).get(group)
        earlier_versions = [
            version
            for version in earlier_versions
            if properties(version.metadata).get(group) == group_name
        ]
    if not level.endswith("_TRANSITIVE"):
        earlier_versions = earlier_versions[-1:]
    return CompatibilityCheck(
        level,
        sent.parsed,
        tuple((version.version, _schema_of(contents, version)) for version in earlier_versions),
        sent.sent.size + sum(len(version.text) for version in earlier_versions),
    )


def _schema_of(contents: RegistryContents, version: Version) -> Callable[[], AvroSchema]:
    schema = stored_schema(contents, version)
    return partial(_not_avro, version.version) if schema is None else schema.parsed


def _not_avro(number: int) -> AvroSchema:
    raise invalid_schema(f"version {number} is not an Avro schema, or refers to a missing one")
