"""`penstock schemas new`, `check` and `register`: a schema from its first file to the registry."""

import json
import re
from pathlib import Path
from typing import Any

import click

from ground.printable import one_line
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.connections.registry import registry_at, registry_option, shortened
from penstock.schemas.arguments import VALUES, schema_file, subject_of_topic, subject_options
from penstock.schemas.diff import difference_documents, say_differences, say_unit_changes
from schemas.errors import InvalidSchema
from schemas.event_schemas import scaffold
from schemas.folder import ENDING
from schemas.registration import Outcome, Planner, RegistrationPlan, register

force_option = click.option(
    "--force", is_flag=True, help="Accept that old events become dead letters."
)
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@click.command()
@click.argument("topic")
@click.option(
    "--record",
    metavar="NAME",
    help="The event's name, such as com.example.PageView; default: derived from the topic's.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=TYPE",
    help="A field with an Avro type, with ? if it may be null, or JSON; may be repeated.",
)
@click.option("--doc", default="", metavar="TEXT", help="A description of the event.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="The folder for the file.",
)
@json_option
def new(
    *,
    topic: str,
    record: str | None,
    fields: tuple[str, ...],
    doc: str,
    directory: Path,
    as_json: bool,
) -> None:
    """Write a first schema for a topic's events, as a file TOPIC-value.avsc to edit.

    It begins with the header of every event. An existing file is not replaced.

    \b
    Example:
        penstock schemas new page_views
        penstock schemas new page_views --record shop.PageView --field url=string --field user=long?
    """
    subject = subject_of_topic(topic)
    try:
        text = scaffold(record or _record_name(topic), dict(map(_field, fields)), doc)
    except InvalidSchema as error:
        raise click.UsageError(str(error)) from None
    path = directory / f"{subject}{ENDING}"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Failed(f"{path} already exists") from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None
    if as_json:
        print_json({"file": one_line(str(path)), "subject": subject})
    else:
        say(f"wrote {path}")


def _record_name(topic: str) -> str:
    """page_views is PageViews."""
    name = "".join(part[:1].upper() + part[1:] for part in re.split(r"[._-]+", topic))
    if not _AVRO_NAME.fullmatch(name):
        raise click.UsageError(f"pass --record: {name!r} cannot be the name of an event")
    return name


def _field(text: str) -> tuple[str, Any]:
    name, separator, kind = text.partition("=")
    if not separator or not name or not kind:
        raise click.UsageError(f"{text!r} is not NAME=TYPE")
    if kind[0] in '[{"':
        try:
            return name, json.loads(kind)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"--field {name}: not JSON: {error}") from None
    return name, ["null", kind[:-1]] if kind.endswith("?") else kind


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@subject_options
@click.option(
    "--any-writer", is_flag=True, help="Accept a schema of events that agents cannot write."
)
@force_option
@registry_option
@json_option
def check(
    *,
    file: Path,
    subject: str | None,
    topic: str | None,
    any_writer: bool,
    force: bool,
    registry: str,
    as_json: bool,
) -> None:
    """Check whether a schema may be registered, without registering it.

    A topic's values must also be events that an agent can write: their first field is the header,
    and the agent has a value for each field. If only your own applications write them, pass
    --any-writer.

    The registry does not compare the units of decimals, dates and times. If a unit changes, stderr
    says what happens to old events: they are rescaled, or become dead letters; in the latter case
    the schema is refused without --force.

    Exit code 1: it may not be registered, or no agent can write it.

    \b
    Example:
        penstock schemas check page_views-value.avsc
        penstock schemas check page_views.avsc --topic page_views
    """
    schema = schema_file(file, subject, topic)
    with registry_at(registry) as client:
        plan = Planner(client).plan(schema)
        level = client.level(schema.subject)
    if as_json:
        print_json(
            {
                "subject": schema.subject,
                "level": level,
                "outcome": plan.outcome,
                "reasons": plan.reasons,
                "differences": difference_documents(plan.differences),
                "no_event": why_no_event(plan),
            }
        )
    else:
        _say(plan, level)
    say_unit_changes(plan.unit_changes)
    if plan.outcome is Outcome.REFUSED:
        raise Failed(f"{file} cannot be registered as {schema.subject}")
    require_readable(plan, force=force)
    if not any_writer and (reason := why_no_event(plan)):
        raise Failed(
            f"{file}: no agent can write it: {reason} (--any-writer if only your applications do)"
        )


def require_readable(plan: RegistrationPlan, *, force: bool) -> None:
    """Checks that no event of an earlier version would become a dead letter. Raises `Failed`."""
    if not force and (changes := [change for change in plan.unit_changes if change.is_refused]):
        paths = ", ".join(dict.fromkeys(change.path or "the value" for change in changes))
        raise Failed(
            shortened(
                f"{plan.file.path}: old events would become dead letters, because of {paths}: "
                "add a field with another name, or pass --force"
            )
        )


def why_no_event(plan: RegistrationPlan) -> str | None:
    """Returns why a topic's values are not events that agents write and loaders expect; None if
    they are."""
    if plan.schema is None or not plan.file.subject.endswith(VALUES):
        return None
    # Imported here because other subjects need no encoder.
    from agent.encoding.topic_schemas.writable import why_unwritable  # noqa: PLC0415

    return why_unwritable(plan.schema) or None


def _say(plan: RegistrationPlan, level: str) -> None:
    subject = plan.file.subject
    match plan.outcome:
        case Outcome.UNCHANGED if plan.registered:
            say(f"unchanged: registered as {subject}, version {plan.registered.version}")
        case Outcome.NEW:
            say(f"new: there is no {subject} yet")
        case Outcome.REFUSED:
            say(f"refused ({level}):")
            for reason in plan.reasons:
                say(f"  {reason}")
        case _:
            say(f"compatible ({level}) with {subject}:")
    say_differences(plan.differences, indent="  ")
    if event_problem := why_no_event(plan):
        say(f"not an event for Penstock's agent and loader: {event_problem}", colour="yellow")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@subject_options
@force_option
@registry_option
@json_option
def register_schema(
    *,
    file: Path,
    subject: str | None,
    topic: str | None,
    force: bool,
    registry: str,
    as_json: bool,
) -> None:
    """Register a schema as the subject's next version, unless it is a version already.

    A type that it names but does not define is taken from the subject of that name. As with
    `check`, stderr reports changed units, and --force accepts that old events become unreadable.

    \b
    Example:
        penstock schemas register page_views-value.avsc
        penstock schemas register page_views.avsc --topic page_views
    """
    schema = schema_file(file, subject, topic)
    with registry_at(registry) as client:
        plan = Planner(client).plan(schema)
        if plan.outcome is Outcome.REFUSED:
            reasons = "; ".join(plan.reasons)
            problem = f"{file} cannot be registered as {schema.subject}"
            raise Failed(shortened(f"{problem}: {reasons}"))
        say_unit_changes(plan.unit_changes)
        require_readable(plan, force=force)
        registration = register(client, plan, {})
    if as_json:
        print_json(
            {
                "subject": registration.subject,
                "version": registration.version,
                "id": registration.id,
                "outcome": plan.outcome,
            }
        )
    else:
        verb = "unchanged" if plan.outcome is Outcome.UNCHANGED else "registered"
        say(f"{verb} {registration.subject}: version {registration.version}, id {registration.id}")
