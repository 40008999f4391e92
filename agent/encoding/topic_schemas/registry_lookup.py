"""Looks up a topic's schema in the registry, and registers it if that is the agent's task.

Penstock's own schemas are always registered: LogLine for messages to a topic without a schema,
SyslogLine, AccessLine and so on for lines of such formats, DeadLetter, Ledger. A topic that has
LogLine or SyslogLine keeps it: lines of syslog are then written as LogLine, or plain lines as
SyslogLine without fields. The schema file of an input is registered if `auto_register` is on. For
Penstock's own schemas the id is that of exactly this text, regardless of other versions, since this
release writes no other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent.encoding.topic_schemas.values import BUILT_IN_FOR, Purpose, TopicPurpose, TopicSchema
from agent.errors import NoSchema
from schemas.errors import InvalidSchema, RegistryError
from schemas.event_schemas import LOG_LINE, SYSLOG_LINE, built_in, check_event_schema
from schemas.folder import SchemaFile, needs_of, read_schema
from schemas.parsing import AvroSchema
from schemas.registration import Outcome, Planner, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

_FOR_MESSAGES: Final = {LOG_LINE, SYSLOG_LINE}
_HIGHEST_ID: Final = 2**31 - 1


def find(
    registry: RegistryClient, wanted: TopicPurpose, known: TopicSchema | None = None
) -> TopicSchema:
    """Returns the schema of a topic; `known`, the one found before, if it is still current. Raises
    NoSchema if there is none, or RegistryError if the registry did not answer; both with a one-line
    message."""
    latest_schema = registry.latest(wanted.subject)
    if (
        known
        and latest_schema
        and (known.id, known.version) == (latest_schema.id, latest_schema.version)
    ):
        return known
    event_schema = None if latest_schema is None else _event_schema(registry, latest_schema)
    own_name = BUILT_IN_FOR.get(wanted.purpose)
    kept_names = _FOR_MESSAGES if own_name in _FOR_MESSAGES else {own_name}
    present_name = None if event_schema is None else event_schema.full_name
    if own_name is None:
        schema = _of_the_topic(wanted, latest_schema, event_schema)
    elif present_name is not None and present_name in kept_names:
        schema = _built_in(registry, wanted, present_name, event_schema)
    elif event_schema is not None and wanted.may_change:
        schema = _of_the_topic(wanted, latest_schema, event_schema)
    else:
        schema = _built_in(registry, wanted, own_name, event_schema)
    if not 0 <= schema.id <= _HIGHEST_ID:
        raise RegistryError(f"the registry returned an invalid id {schema.id} for {wanted.subject}")
    return schema


def register_files(registry: RegistryClient, wanted: TopicPurpose, files: Sequence[str]) -> None:
    """Registers files as versions of the topic's subject, unless they are registered already.

    Raises NoSchema if one is rejected, or RegistryError if the registry did not answer.
    """
    for path in files:
        try:
            _register_file(registry, wanted, path)
        except (InvalidSchema, OSError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            raise NoSchema(f"cannot register the schema {path}: {reason}") from None


def _register_file(registry: RegistryClient, wanted: TopicPurpose, path: str) -> None:
    text = read_schema(Path(path))
    plan = Planner(registry).plan(SchemaFile(path, wanted.subject, text, needs_of(text)))
    if plan.outcome is Outcome.REFUSED or plan.schema is None:
        raise InvalidSchema("; ".join(plan.reasons))
    check_event_schema(plan.schema)
    register(registry, plan, {})


def _of_the_topic(
    wanted: TopicPurpose, latest: RegisteredSchema | None, there: AvroSchema | None
) -> TopicSchema:
    if latest is None or there is None:
        raise NoSchema(
            f"topic {wanted.topic} has no schema: register one as {wanted.subject} with "
            "`penstock schemas register`, or configure its file as `schema` with `auto_register`"
        )
    return TopicSchema(wanted.topic, latest.id, latest.version, there)


def _event_schema(registry: RegistryClient, registered: RegisteredSchema) -> AvroSchema:
    try:
        schema = registry.resolved(registered)
        check_event_schema(schema)
    except InvalidSchema as error:
        version_words = f"version {registered.version} of subject {registered.subject}"
        raise NoSchema(f"{version_words} is not an event schema: {error}") from None
    return schema


def _built_in(
    registry: RegistryClient, wanted: TopicPurpose, name: str, there: AvroSchema | None
) -> TopicSchema:
    """Penstock's own schema, registered if this text is not a version yet."""
    if there is not None and there.full_name != name:
        # A subject with another schema is not changed, even if its compatibility level allows it.
        raise NoSchema(_other_schema(wanted, there, name))
    schema = built_in(name)
    registered_schema = registry.lookup(wanted.subject, schema.text)
    if registered_schema is None:
        registry.register(wanted.subject, schema.text)
        registered_schema = registry.lookup(wanted.subject, schema.text)
    if registered_schema is None:
        raise RegistryError(f"{wanted.subject} was registered, but no longer exists")
    return TopicSchema(wanted.topic, registered_schema.id, registered_schema.version, schema)


def _other_schema(wanted: TopicPurpose, there: AvroSchema, name: str) -> str:
    problem = (
        f"topic {wanted.topic} has the schema {there.full_name}, but the agent would write {name}"
    )
    if wanted.purpose is not Purpose.LINES:
        return problem
    return (
        f"{problem}: choose a `format` with fields, such as `format: regex` with "
        "`pattern: (?P<message>.*)`"
    )
