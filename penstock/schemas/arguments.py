"""Arguments of the commands about schemas: subject, version, id and file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import click

from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from ground.printable import one_line
from penstock.cli.failures import Failed
from schemas.errors import InvalidSchema
from schemas.folder import ENDING, SchemaFile, needs_of, read_schema, subject_of

Which: TypeAlias = int | Literal["latest"]
HIGHEST: Final = 2**31 - 1  # of an int in Java
_DIGITS: Final = 10
SCHEMA_ID: Final = click.IntRange(0, HIGHEST)
VALUES: Final = "-value"  # the suffix of the subjects of topics' values, as in Confluent's clients
F = TypeVar("F", bound=Callable[..., Any])


class Subject(click.ParamType[str]):
    """A name that can be encoded; the registry decides whether it is valid."""

    name = "subject"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("a subject's name cannot be empty", param, ctx)
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8", param, ctx)
        return value


class VersionArgument(click.ParamType[Which]):
    """A version of a subject."""

    name = "version"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Which:
        if value == "latest":
            return "latest"
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS and 0 < int(text) <= HIGHEST:
            return int(text)
        return self.fail(f"{text!r} is neither a version such as 3 nor 'latest'", param, ctx)


SUBJECT: Final = Subject()
VERSION: Final = VersionArgument()


def subject_options(command: F) -> F:
    """Adds the options `subject` and `topic`."""
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
    """Reads a schema from the file. Raises UsageError or Failed."""
    if subject is not None and topic is not None:
        raise click.UsageError("pass either --subject or --topic")
    if topic is not None:
        subject = subject_of_topic(topic)
    if subject is None and path.suffix != ENDING:
        raise click.UsageError(f"pass --subject or --topic: {path} is not named SUBJECT{ENDING}")
    text = file_text(path)
    try:
        return SchemaFile(one_line(str(path)), subject or subject_of(path), text, needs_of(text))
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
