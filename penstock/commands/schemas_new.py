"""`penstock schemas new`."""

import json
import re
from pathlib import Path
from typing import Any

import click

from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.schema_files import subject_of_topic
from penstock.schema_reports import say
from schemas.errors import InvalidSchema
from schemas.event_schemas import scaffold
from schemas.folder import ENDING, shown_path

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@click.command()
@click.argument("topic")
@click.option(
    "--record",
    metavar="NAME",
    help="The event's name, com.example.PageView; without it, made from the topic's.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=TYPE",
    help="A field: a type of Avro, with ? if it may be null, or JSON; may be repeated.",
)
@click.option("--doc", default="", metavar="TEXT", help="What the event is.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="Where the file is put.",
)
@json_option
def command(
    *,
    topic: str,
    record: str | None,
    fields: tuple[str, ...],
    doc: str,
    directory: Path,
    as_json: bool,
) -> None:
    """Write a first schema for a topic's events, as a file TOPIC-value.avsc to be edited.

    It begins with the header that every event has. A file that is there is left alone.

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
        raise Failed(f"{path} is there already") from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None
    if as_json:
        print_json({"file": shown_path(path), "subject": subject})
    else:
        say(f"wrote {path}")


def _record_name(topic: str) -> str:
    """page_views is PageViews."""
    name = "".join(part[:1].upper() + part[1:] for part in re.split(r"[._-]+", topic))
    if not _AVRO_NAME.fullmatch(name):
        raise click.UsageError(f"give --record: {name!r} cannot be an event's name")
    return name


def _field(text: str) -> tuple[str, Any]:
    name, equals, kind = text.partition("=")
    if not equals or not name or not kind:
        raise click.UsageError(f"{text!r} is not NAME=TYPE")
    if kind[0] in '[{"':
        try:
            return name, json.loads(kind)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"--field {name}: not JSON: {error}") from None
    return name, ["null", kind[:-1]] if kind.endswith("?") else kind
