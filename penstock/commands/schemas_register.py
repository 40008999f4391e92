"""`penstock schemas register`."""

from pathlib import Path

import click

from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import registry_at, registry_option, shortened
from penstock.schema_files import schema_file, subject_options
from penstock.schema_reports import say
from schemas.registration import Outcome, Planner, register


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@subject_options
@registry_option
@json_option
def command(
    *, file: Path, subject: str | None, topic: str | None, registry: str, as_json: bool
) -> None:
    """Register a schema: it becomes the subject's next version, unless it is one already.

    A type that it names and does not define is taken from the subject of that name.

    \b
    Example:
        penstock schemas register page_views-value.avsc
        penstock schemas register page_views.avsc --topic page_views
    """
    wanted = schema_file(file, subject, topic)
    with registry_at(registry) as client:
        plan = Planner(client).plan(wanted)
        if plan.outcome is Outcome.REFUSED:
            reasons = "; ".join(plan.reasons)
            what = f"{file} cannot be registered as {wanted.subject}"
            raise Failed(shortened(f"{what}: {reasons}"))
        done = register(client, plan, {})
    if as_json:
        print_json(
            {
                "subject": done.subject,
                "version": done.version,
                "id": done.id,
                "outcome": plan.outcome,
            }
        )
    else:
        verb = "unchanged" if plan.outcome is Outcome.UNCHANGED else "registered"
        say(f"{verb} {done.subject}: version {done.version}, id {done.id}")
