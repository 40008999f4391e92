"""`penstock schemas config`."""

import click

from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import existing_subjects, registry_at, registry_option
from penstock.schema_arguments import SUBJECT
from penstock.schema_reports import say
from schemas.compatibility import Level
from schemas.registry_client import RegistryClient


@click.command()
@click.argument("subject", type=SUBJECT, required=False, shell_complete=existing_subjects)
@click.option(
    "--set",
    "wanted",
    type=click.Choice([each.value for each in Level], case_sensitive=False),
    metavar="LEVEL",
    help=f"The level from now on: {', '.join(Level)}.",
)
@click.option("--default", "reset", is_flag=True, help="No level of its own any longer.")
@registry_option
@json_option
def command(
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
        raise click.UsageError("give --set or --default, not both")
    with registry_at(registry) as client:
        if wanted is not None:
            client.set_level(subject, wanted)
        elif reset:
            _reset(client, subject)
        level = client.level(subject)
        own = client.own_level(subject) if subject is not None else level
    if as_json:
        print_json({"subject": subject, "level": level, "own": own is not None})
    else:
        own_level = subject is not None and own is not None
        say(f"{level}, the level of {subject if own_level else 'all subjects without their own'}")


def _reset(client: RegistryClient, subject: str | None) -> None:
    if subject is not None and client.own_level(subject) is None:
        raise Failed(f"{subject} has no level of its own")
    client.reset_level(subject)
