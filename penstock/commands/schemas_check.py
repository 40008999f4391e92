"""`penstock schemas check`."""

from pathlib import Path

import click

from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import registry_at, registry_option
from penstock.schema_files import schema_file, subject_options
from penstock.schema_reports import difference_documents, say, say_differences, why_no_event
from schemas.registration import Outcome, Plan, Planner


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@subject_options
@registry_option
@json_option
def command(
    *, file: Path, subject: str | None, topic: str | None, registry: str, as_json: bool
) -> None:
    """Say whether a schema may be registered and, if not, why. Nothing is changed.

    Exit code 1: it may not.

    \b
    Example:
        penstock schemas check page_views-value.avsc
        penstock schemas check page_views.avsc --topic page_views
    """
    wanted = schema_file(file, subject, topic)
    with registry_at(registry) as client:
        plan = Planner(client).plan(wanted)
        level = client.level(wanted.subject)
    if as_json:
        print_json(
            {
                "subject": wanted.subject,
                "level": level,
                "outcome": plan.outcome,
                "reasons": plan.reasons,
                "differences": difference_documents(plan.differences),
                "no_event": why_no_event(plan),
            }
        )
    else:
        _say(plan, level)
    if plan.outcome is Outcome.REFUSED:
        raise Failed(f"{file} cannot be registered as {wanted.subject}")


def _say(plan: Plan, level: str) -> None:
    subject = plan.file.subject
    match plan.outcome:
        case Outcome.UNCHANGED if plan.registered:
            say(f"unchanged: it is {subject}, version {plan.registered.version}")
        case Outcome.NEW:
            say(f"new: there is no {subject} yet")
        case Outcome.REFUSED:
            say(f"refused ({level}):")
            for reason in plan.reasons:
                say(f"  {reason}")
        case _:
            say(f"compatible ({level}) with {subject}:")
    say_differences(plan.differences, indent="  ")
    if why := why_no_event(plan):
        say(f"no event for Penstock's agent and loader: {why}", colour="yellow")
