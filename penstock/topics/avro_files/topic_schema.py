"""The version of a topic's schema that a container file uses."""

from pathlib import Path
from typing import Any, NamedTuple

from ground.printable import one_line
from penstock.cli.failures import Failed
from penstock.connections.registry import shortened
from penstock.schemas.arguments import Which, subject_of_topic
from schemas.errors import RegistryError
from schemas.folder import SchemaFile, needs_of
from schemas.parsing import AvroSchema
from schemas.registration import Outcome, Planner, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema


class RegisteredTopicSchema(NamedTuple):
    """A version; `is_new` if it was registered for the file."""

    schema: AvroSchema
    subject: str
    version: int
    id: int
    is_new: bool = False

    @property
    def document(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.version, "id": self.id}


def version_of(client: RegistryClient, topic: str, which: Which) -> RegisteredTopicSchema:
    """Returns the requested version. Raises SchemaError if it does not exist or cannot be used."""
    schema = client.version(subject_of_topic(topic), which)
    return _of(schema, client.resolved(schema))


def version_for(
    client: RegistryClient, topic: str, path: Path, schema: AvroSchema
) -> RegisteredTopicSchema:
    """Returns the version with the file's schema. If there is none, registers the schema as the
    next version, as `penstock schemas register` does."""
    subject, text = subject_of_topic(topic), schema.text
    plan = Planner(client).plan(SchemaFile(one_line(str(path)), subject, text, needs_of(text)))
    if plan.outcome is Outcome.REFUSED:
        raise Failed(
            f"the schema of {path} cannot be registered as {subject}: "
            f"{shortened('; '.join(plan.reasons))}; with --schema-version latest its values are "
            "written with the topic's present schema"
        )
    registration = register(client, plan, {})
    return _of(registration, schema, is_new=plan.outcome is not Outcome.UNCHANGED)


def _of(
    found: RegisteredSchema, schema: AvroSchema, *, is_new: bool = False
) -> RegisteredTopicSchema:
    if not 0 <= found.id < 2**31:
        raise RegistryError(f"the registry returned the invalid id {found.id} for {found.subject}")
    return RegisteredTopicSchema(schema, found.subject, found.version, found.id, is_new)
