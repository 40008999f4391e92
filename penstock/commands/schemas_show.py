"""`penstock schemas show`."""

from typing import Any

import click

from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import existing_subjects, registry_at, registry_option
from penstock.schema_arguments import SCHEMA_ID, SUBJECT, VERSION, Which
from penstock.schema_reports import indented, schema_document
from schemas.registry_client import RegistryClient


@click.command()
@click.argument("subject", type=SUBJECT, required=False, shell_complete=existing_subjects)
@click.option(
    "--version", type=VERSION, metavar="N|latest", help="Deleted or not; without it, the latest."
)
@click.option("--id", "schema_id", type=SCHEMA_ID, metavar="N", help="What this id means.")
@registry_option
@json_option
def command(
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
        raise click.UsageError("give a subject, or --id")
    if schema_id is not None and version is not None:
        raise click.UsageError("--version is of a subject, not of an id")
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
    found = client.text_of(schema_id)
    places = [
        {"subject": each.subject, "version": each.version} for each in client.places_of(schema_id)
    ]
    return {"id": schema_id, "places": places, **schema_document(found)}


def _of_subject(client: RegistryClient, subject: str, version: Which) -> dict[str, Any]:
    found = client.version(subject, version, deleted=version != "latest")
    place = {"subject": found.subject, "version": found.version, "id": found.id}
    return {**place, **schema_document(found)}
