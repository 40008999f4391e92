"""`penstock schemas list`."""

import click

from penstock.json_option import json_option
from penstock.output import print_json, print_table
from penstock.registry_connection import registry_at, registry_option
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

COLUMNS = ("subject", "version", "id", "type")


@click.command()
@click.option("--deleted", is_flag=True, help="Add the versions that were deleted, not for good.")
@registry_option
@json_option
def command(*, deleted: bool, registry: str, as_json: bool) -> None:
    """List all subjects with their latest version, by name.

    \b
    Example:
        penstock schemas list
        penstock schemas list --json | jq -r '.[].subject'
    """
    with registry_at(registry) as client:
        rows = [_row(each) for each in client.all_schemas(latest_only=True)]
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
    there = {(each.subject, each.version) for each in client.all_schemas()}
    every = client.all_schemas(deleted=True)
    gone = [each for each in every if (each.subject, each.version) not in there]
    return [_row(each) | {"deleted": True} for each in gone]


def _row(schema: RegisteredSchema) -> dict[str, object]:
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "type": schema.type,
    }
