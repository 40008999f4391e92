"""The bodies of answers, with exactly the fields of Confluent's registry, version 7.

Later versions added `guid`, `ts`, `deleted` and a `schemaType` of AVRO. Clients do not need them,
and old Java clients fail on unknown fields.
"""

import msgspec

from registry.schemas_topic.values import AVRO, NOTHING, Config, Level, Reference, Version


class SchemaAnswer(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True):
    """A version, or some of its fields."""

    subject: str | None = None
    version: int | None = None
    id: int | None = None
    schema_type: str | None = None
    references: tuple[Reference, ...] = ()
    metadata: msgspec.Raw = NOTHING
    rule_set: msgspec.Raw = NOTHING
    schema: str | None = None
    max_id: int | None = None


class SubjectVersion(msgspec.Struct):
    subject: str
    version: int


class CompatibilityAnswer(msgspec.Struct, omit_defaults=True):
    """The result of a compatibility check. `messages` is set only on request."""

    is_compatible: bool
    messages: list[str] | None = None


class ModeAnswer(msgspec.Struct):
    mode: str


class SentConfig(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A config as clients send it, where the level has another name."""

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: Level | None = msgspec.field(default=None, name="compatibility")
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: msgspec.Raw = NOTHING
    override_metadata: msgspec.Raw = NOTHING
    default_rule_set: msgspec.Raw = NOTHING
    override_rule_set: msgspec.Raw = NOTHING


def whole(version: Version, text: str) -> SchemaAnswer:
    return SchemaAnswer(
        subject=version.subject,
        version=version.version,
        id=version.id,
        schema_type=_type(version),
        references=version.references,
        metadata=_contract(version.metadata),
        rule_set=_contract(version.rule_set),
        schema=text,
    )


def by_id(version: Version, text: str, *, named: bool, highest_id: int | None) -> SchemaAnswer:
    """The answer to a request by id: the schema, with subject and version if the client named the
    subject."""
    return SchemaAnswer(
        subject=version.subject if named else None,
        version=version.version if named else None,
        schema_type=_type(version),
        references=version.references,
        metadata=_contract(version.metadata),
        rule_set=_contract(version.rule_set),
        schema=text,
        max_id=highest_id,
    )


def registered(version: Version) -> SchemaAnswer:
    """The answer to a registration: the id, and for a schema with data contracts also the other
    fields, which may differ from the request."""
    if not version.metadata and not version.rule_set:
        return SchemaAnswer(id=version.id)
    return SchemaAnswer(
        id=version.id,
        version=version.version,
        references=version.references,
        metadata=_contract(version.metadata),
        rule_set=_contract(version.rule_set),
        schema=version.text,
    )


def config_change(config: Config) -> SentConfig:
    return SentConfig(**msgspec.structs.asdict(config))


def config_answer(config: Config, default_level: Level) -> Config:
    """Returns a config as stored, with the default level if it has no level."""
    if config.compatibility_level is not None:
        return config
    return msgspec.structs.replace(config, compatibility_level=default_level)


def _type(version: Version) -> str | None:
    return None if version.type == AVRO else version.type


def _contract(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode()) if text else NOTHING
