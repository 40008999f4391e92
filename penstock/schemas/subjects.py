"""`penstock schemas list`, `show`, `config` and `delete`: the subjects of a registry."""

import contextlib
import json
from typing import Any

import click

from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.connections.registry import existing_subjects, registry_at, registry_option
from penstock.schemas.arguments import HIGHEST, SCHEMA_ID, SUBJECT, VERSION, Which
from schemas.compatibility import Level
from schemas.errors import RegistryRefused
from schemas.registry_client import (
    REFERENCE_EXISTS,
    SUBJECT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    RegistryClient,
)
from schemas.remote.answers import Reference, RegisteredSchema, SchemaOfId

COLUMNS = ("subject", "version", "id", "type")


@click.command()
@click.option(
    "--deleted", is_flag=True, help="Also list deleted versions, unless deleted permanently."
)
@registry_option
@json_option
def list_subjects(*, deleted: bool, registry: str, as_json: bool) -> None:
    """List all subjects with their latest version, by name.

    \b
    Example:
        penstock schemas list
        penstock schemas list --json | jq -r '.[].subject'
    """
    with registry_at(registry) as client:
        rows = [_row(schema) for schema in client.all_schemas(latest_only=True)]
        if deleted:
            rows = [row | {"deleted": False} for row in rows] + _deleted_rows(client)
    rows.sort(key=lambda row: (row["subject"], row["version"]))
    columns = (*COLUMNS, "deleted") if deleted else COLUMNS
    if as_json:
        print_json(rows)
    elif rows:
        print_table(columns, rows)
    else:
        click.echo("no subjects", err=True)


def _deleted_rows(client: RegistryClient) -> list[dict[str, object]]:
    live_versions = {(schema.subject, schema.version) for schema in client.all_schemas()}
    return [
        _row(schema) | {"deleted": True}
        for schema in client.all_schemas(deleted=True)
        if (schema.subject, schema.version) not in live_versions
    ]


def _row(schema: RegisteredSchema) -> dict[str, object]:
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "type": schema.type,
    }


@click.command()
@click.argument("subject", type=SUBJECT, required=False, shell_complete=existing_subjects)
@click.option(
    "--version",
    type=VERSION,
    metavar="N|latest",
    help="A version, deleted or not; default: the latest.",
)
@click.option("--id", "schema_id", type=SCHEMA_ID, metavar="N", help="Show the schema of this id.")
@registry_option
@json_option
def show(
    *,
    subject: str | None,
    version: Which | None,
    schema_id: int | None,
    registry: str,
    as_json: bool,
) -> None:
    """Show one schema, of a subject or of an id.

    \b
    Example:
        penstock schemas show page_views-value
        penstock schemas show page_views-value --version 2
        penstock schemas show --id 17 --json
    """
    if (subject is None) == (schema_id is None):
        raise click.UsageError("pass a subject, or --id")
    if schema_id is not None and version is not None:
        raise click.UsageError("--version needs a subject, and excludes --id")
    with registry_at(registry) as client:
        if schema_id is not None:
            document = _of_id(client, schema_id)
        else:
            document = _of_subject(client, subject or "", version or "latest")
    if as_json:
        print_json(document)
    else:
        print(indented(document["schema"]))


def _of_id(client: RegistryClient, schema_id: int) -> dict[str, Any]:
    schema = client.text_of(schema_id)
    places = [
        {"subject": place.subject, "version": place.version}
        for place in client.places_of(schema_id)
    ]
    return {"id": schema_id, "places": places, **schema_document(schema)}


def _of_subject(client: RegistryClient, subject: str, version: Which) -> dict[str, Any]:
    schema = client.version(subject, version, deleted=version != "latest")
    place = {"subject": schema.subject, "version": schema.version, "id": schema.id}
    return {**place, **schema_document(schema)}


def schema_document(schema: RegisteredSchema | SchemaOfId) -> dict[str, Any]:
    """Returns the schema with the field names of the registries' API."""
    return {
        "schemaType": schema.type,
        "references": [_reference_document(reference) for reference in schema.references],
        "schema": schema.text,
    }


def _reference_document(reference: Reference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def indented(text: str) -> str:
    """Indents a schema, and escapes characters that are not printable."""
    # Foreign registries may have schemas that are not JSON.
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


@click.command()
@click.argument("subject", type=SUBJECT, required=False, shell_complete=existing_subjects)
@click.option(
    "--set",
    "wanted",
    type=click.Choice([level.value for level in Level], case_sensitive=False),
    metavar="LEVEL",
    help=f"The new level: {', '.join(Level)}.",
)
@click.option("--default", "reset", is_flag=True, help="Remove the subject's own level.")
@registry_option
@json_option
def config(
    *, subject: str | None, wanted: str | None, reset: bool, registry: str, as_json: bool
) -> None:
    """Show or set the level of compatibility: of a subject, or of all that have none of their own.

    \b
    Example:
        penstock schemas config
        penstock schemas config page_views-value --set FULL_TRANSITIVE
        penstock schemas config page_views-value --default
    """
    if wanted is not None and reset:
        raise click.UsageError("pass either --set or --default")
    with registry_at(registry) as client:
        if wanted is not None:
            client.set_level(subject, wanted)
        elif reset:
            _reset(client, subject)
        level = client.level(subject)
        level_of_subject = client.own_level(subject) if subject is not None else level
    if as_json:
        print_json({"subject": subject, "level": level, "own": level_of_subject is not None})
    else:
        is_own = subject is not None and level_of_subject is not None
        say(f"{level}, the level of {subject if is_own else 'all subjects without their own'}")


def _reset(client: RegistryClient, subject: str | None) -> None:
    if subject is not None and client.own_level(subject) is None:
        raise Failed(f"{subject} has no level of its own")
    client.reset_level(subject)


@click.command()
@click.argument("subject", type=SUBJECT, shell_complete=existing_subjects)
@click.option("--version", type=click.IntRange(1, HIGHEST), metavar="N", help="Only this version.")
@click.option(
    "--permanent",
    is_flag=True,
    help="Delete permanently; messages written with it may become unreadable.",
)
@yes_option
@registry_option
@json_option
def delete(
    *,
    subject: str,
    version: int | None,
    permanent: bool,
    yes: bool,
    registry: str,
    as_json: bool,
) -> None:
    """Delete a subject, or one version of it.

    Unless the deletion is --permanent, the registry still serves deleted schemas to consumers by id
    and by version.

    \b
    Example:
        penstock schemas delete page_views-value --version 3
        penstock schemas delete page_views-value --permanent --yes
    """
    target = subject if version is None else f"{subject}, version {version}"
    if not yes:
        confirm_deletion(f"{target}{' permanently' if permanent else ''}")
    with registry_at(registry) as client:
        versions = _delete(client, subject, version, again=permanent)
        if permanent:
            versions = _purge(client, subject, version)
    if as_json:
        print_json({"subject": subject, "versions": versions, "permanent": permanent})
    else:
        version_list = ", ".join(map(str, versions))
        say(f"deleted {subject}{' permanently' if permanent else ''}: version {version_list}")


def _delete(client: RegistryClient, subject: str, version: int | None, *, again: bool) -> list[int]:
    """Deletes the versions. `again`: they may be deleted already."""
    try:
        if version is None:
            return client.delete_subject(subject)
        return [client.delete_version(subject, version)]
    except RegistryRefused as error:
        if error.code == REFERENCE_EXISTS:
            users = _users(client, subject, version)
            raise Failed(f"{subject} is referenced by {users}: delete these first") from None
        if error.code not in {SUBJECT_SOFT_DELETED, VERSION_SOFT_DELETED}:
            raise
        if again:
            return []
        raise Failed("already deleted: pass --permanent to delete it permanently") from None


def _purge(client: RegistryClient, subject: str, version: int | None) -> list[int]:
    if version is None:
        return client.delete_subject(subject, permanent=True)
    return [client.delete_version(subject, version, permanent=True)]


def _users(client: RegistryClient, subject: str, version: int | None) -> str:
    versions = client.versions(subject) if version is None else [version]
    ids = {schema_id for number in versions for schema_id in client.referenced_by(subject, number)}
    places = sorted({place for schema_id in ids for place in client.places_of(schema_id)})
    return ", ".join(f"{place.subject} version {place.version}" for place in places)
