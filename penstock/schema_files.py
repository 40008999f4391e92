"""What the commands that take the file of a schema have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from penstock.failures import Failed
from penstock.schema_arguments import SUBJECT
from schemas.errors import InvalidSchema
from schemas.folder import ENDING, SchemaFile, needs_of, read_schema, shown_path, subject_of

VALUES: Final = "-value"  # ends the subjects of topics' values, for Confluent's clients as well

F = TypeVar("F", bound=Callable[..., Any])


def subject_options(command: F) -> F:
    """`--subject` and `--topic`."""
    subject = click.option(
        "-s",
        "--subject",
        type=SUBJECT,
        metavar="SUBJECT",
        help=f"Without it: the file's name before {ENDING}.",
    )
    topic = click.option(
        "-t", "--topic", metavar="TOPIC", help="The subject of this topic's values: TOPIC-value."
    )
    return subject(topic(command))


def schema_file(path: Path, subject: str | None, topic: str | None) -> SchemaFile:
    """The file with its subject; what is wrong with it becomes the command's one line."""
    if subject is not None and topic is not None:
        raise click.UsageError("give --subject or --topic, not both")
    if topic is not None:
        subject = subject_of_topic(topic)
    if subject is None and path.suffix != ENDING:
        raise click.UsageError(f"give --subject or --topic: {path} is not named SUBJECT{ENDING}")
    text = file_text(path)
    try:
        return SchemaFile(shown_path(path), subject or subject_of(path), text, needs_of(text))
    except InvalidSchema as error:
        raise Failed(str(error)) from None


def file_text(path: Path) -> str:
    try:
        return read_schema(path)
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None
    except InvalidSchema as error:
        raise Failed(str(error)) from None


def subject_of_topic(topic: str) -> str:
    try:
        check_topic_name(topic)
    except InvalidTopicName as error:
        raise click.UsageError(str(error)) from None
    return f"{topic}{VALUES}"
