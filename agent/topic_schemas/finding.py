"""A topic's schema, as its registry has it; registered there first where that is this agent's part.

What comes with Penstock is always registered: LogLine where messages go to a topic that has no
schema yet, SyslogLine where lines of syslog do, DeadLetter, Ledger. A topic that has one of the two
keeps it: lines of syslog go on as LogLine, and plain lines are SyslogLine without fields. An
input's own file is where `auto_register` is on. The id of a schema that comes with Penstock is that
of this very text, whatever versions there are beside it: this release knows how to write no other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent.errors import NoSchema
from agent.topic_schemas.values import BUILT_IN_FOR, Purpose, TopicSchema, Wanted
from schemas.errors import InvalidSchema, RegistryError
from schemas.event_schemas import LOG_LINE, SYSLOG_LINE, built_in, check_event_schema
from schemas.folder import SchemaFile, needs_of, read_schema
from schemas.parsing import AvroSchema
from schemas.registration import Outcome, Planner, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

_FOR_MESSAGES: Final = {LOG_LINE, SYSLOG_LINE}
_HIGHEST_ID: Final = 2**31 - 1


def find(registry: RegistryClient, wanted: Wanted, known: TopicSchema | None = None) -> TopicSchema:
    """`known` if that is still it. NoSchema says in one line why there is none; RegistryError, why
    the registry did not say."""
    latest = registry.latest(wanted.subject)
    if known and latest and (known.id, known.version) == (latest.id, latest.version):
        return known
    there = None if latest is None else _event_schema(registry, latest)
    match wanted.purpose:
        case Purpose.FIELDS:
            found = _of_the_topic(wanted, latest, there)
        case Purpose.EITHER | Purpose.SYSLOG if there is not None and (
            there.full_name not in _FOR_MESSAGES
        ):
            found = _of_the_topic(wanted, latest, there)
        case Purpose.LINES | Purpose.EITHER | Purpose.SYSLOG if there is not None and (
            there.full_name in _FOR_MESSAGES
        ):
            found = _built_in(registry, wanted, there.full_name, there)
        case purpose:
            found = _built_in(registry, wanted, BUILT_IN_FOR[purpose], there)
    if not 0 <= found.id <= _HIGHEST_ID:
        raise RegistryError(f"the registry says that {wanted.subject} has the id {found.id}")
    return found


def register_files(registry: RegistryClient, wanted: Wanted, files: Sequence[str]) -> None:
    """Makes these files versions of the topic's subject, where they are none yet.

    NoSchema if one of them is refused; RegistryError if the registry did not say.
    """
    for path in files:
        try:
            _register_file(registry, wanted, path)
        except (InvalidSchema, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            raise NoSchema(f"the schema {path} is not registered: {why}") from None


def _register_file(registry: RegistryClient, wanted: Wanted, path: str) -> None:
    text = read_schema(Path(path))
    plan = Planner(registry).plan(SchemaFile(path, wanted.subject, text, needs_of(text)))
    if plan.outcome is Outcome.REFUSED or plan.schema is None:
        raise InvalidSchema("; ".join(plan.reasons))
    check_event_schema(plan.schema)
    register(registry, plan, {})


def _of_the_topic(
    wanted: Wanted, latest: RegisteredSchema | None, there: AvroSchema | None
) -> TopicSchema:
    """The subject's latest version."""
    if latest is None or there is None:
        raise NoSchema(
            f"topic {wanted.topic} has no schema: register one as {wanted.subject}, with "
            "`penstock schemas register`, or name its file as `schema` and say `auto_register`"
        )
    return TopicSchema(wanted.topic, latest.id, latest.version, there)


def _event_schema(registry: RegistryClient, found: RegisteredSchema) -> AvroSchema:
    try:
        schema = registry.resolved(found)
        check_event_schema(schema)
    except InvalidSchema as error:
        what = f"version {found.version} of subject {found.subject}"
        raise NoSchema(f"{what} is not the schema of an event: {error}") from None
    return schema


def _built_in(
    registry: RegistryClient, wanted: Wanted, name: str, there: AvroSchema | None
) -> TopicSchema:
    """This very text, registered if it is no version yet."""
    if there is not None and there.full_name != name:
        # Another schema's subject is left alone, whatever its level of compatibility allows.
        raise NoSchema(_other_schema(wanted, there, name))
    schema = built_in(name)
    found = registry.lookup(wanted.subject, schema.text)
    if found is None:
        registry.register(wanted.subject, schema.text)
        found = registry.lookup(wanted.subject, schema.text)
    if found is None:
        raise RegistryError(f"{wanted.subject} was registered, and is gone again")
    return TopicSchema(wanted.topic, found.id, found.version, schema)


def _other_schema(wanted: Wanted, there: AvroSchema, name: str) -> str:
    said = (
        f"topic {wanted.topic} has the schema {there.full_name}, and not {name}, which is what "
        "would be written"
    )
    if wanted.purpose is not Purpose.LINES:
        return said
    return (
        f"{said}: choose a `format` that has fields, such as `format: regex` with "
        "`pattern: (?P<message>.*)`"
    )
