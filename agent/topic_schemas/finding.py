"""A topic's schema, as its registry has it; registered there first where that is this agent's part.

What comes with Penstock is always registered: LogLine where lines of plain text go to a topic that
has no schema yet, DeadLetter, Ledger. An input's own file is where `auto_register` is on. The id of
a schema that comes with Penstock is that of this very text, whatever versions there are beside it:
this release knows how to write no other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent.errors import NoSchema
from agent.topic_schemas.values import BUILT_IN_FOR, Purpose, TopicSchema, Wanted
from schemas.errors import InvalidSchema, RegistryError
from schemas.event_schemas import built_in, check_event_schema
from schemas.folder import SchemaFile, needs_of, read_schema
from schemas.parsing import AvroSchema
from schemas.registration import Outcome, Planner, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

_HIGHEST_ID: Final = 2**31 - 1


def find(registry: RegistryClient, wanted: Wanted) -> TopicSchema:
    """NoSchema says in one line why there is none; RegistryError, why the registry did not say."""
    if wanted.purpose is Purpose.FIELDS:
        found = _of_the_topic(registry, wanted)
    else:
        found = _built_in(registry, wanted, BUILT_IN_FOR[wanted.purpose])
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


def _of_the_topic(registry: RegistryClient, wanted: Wanted) -> TopicSchema:
    """The subject's latest version."""
    latest = registry.latest(wanted.subject)
    if latest is None:
        raise NoSchema(
            f"topic {wanted.topic} has no schema: register one as {wanted.subject}, with "
            "`penstock schemas register`, or name its file as `schema` and say `auto_register`"
        )
    return TopicSchema(wanted.topic, latest.id, latest.version, _event_schema(registry, latest))


def _event_schema(registry: RegistryClient, found: RegisteredSchema) -> AvroSchema:
    try:
        schema = registry.resolved(found)
        check_event_schema(schema)
    except InvalidSchema as error:
        what = f"version {found.version} of subject {found.subject}"
        raise NoSchema(f"{what} is not the schema of an event: {error}") from None
    return schema


def _built_in(registry: RegistryClient, wanted: Wanted, name: str) -> TopicSchema:
    schema = built_in(name)
    subject = wanted.subject
    found = None
    if latest := registry.latest(subject):
        found = registry.lookup(subject, schema.text)
        if found is None:
            _check_name(registry, wanted, latest, name)
    if found is None:
        registry.register(subject, schema.text)
        found = registry.lookup(subject, schema.text)
    if found is None:
        raise RegistryError(f"{subject} was registered, and is gone again")
    return TopicSchema(wanted.topic, found.id, found.version, schema)


def _check_name(
    registry: RegistryClient, wanted: Wanted, latest: RegisteredSchema, name: str
) -> None:
    """Another schema's subject is left alone, whatever its level of compatibility allows."""
    there = _event_schema(registry, latest).full_name
    if there == name:
        return
    advice = ""
    if wanted.purpose is Purpose.LINES:
        advice = (
            "; for lines with fields, choose a `format` that has them, such as "
            "`format: regex` with `pattern: (?P<message>.*)`"
        )
    raise NoSchema(
        f"topic {wanted.topic} has the schema {there}, and not {name}, which this writes{advice}"
    )
