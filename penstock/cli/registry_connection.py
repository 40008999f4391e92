"""What the commands that talk to a schema registry have in common: an option, plain errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from ground.printable import one_line
from penstock.cli import address_variables
from penstock.cli.completion import said, words
from penstock.cli.failures import Failed
from schemas.errors import BadMessage, InvalidSchema, RegistryRefused, SchemaError
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient

DEFAULT_REGISTRY = "http://127.0.0.1:8081"
PATIENCE_SECONDS = 20.0  # a new writer is elected within that
_LONGEST = 500

F = TypeVar("F", bound=Callable[..., Any])


def registry_option(command: F) -> F:
    return click.option(
        "-r",
        "--registry",
        default=DEFAULT_REGISTRY,
        show_default=True,
        envvar=address_variables.REGISTRY,
        show_envvar=True,
        metavar="URL,…",
        help="Some instances of the schema registry.",
    )(command)


@contextmanager
def registry_at(urls: str) -> Iterator[RegistryClient]:
    """A client; whatever is wrong with schemas or the registry becomes the command's one line."""
    try:
        client = RegistryClient(urls, patience_seconds=PATIENCE_SECONDS, first_contact_seconds=0)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        with client:
            yield client
    except RegistryRefused as error:
        raise Failed(shortened(error.message)) from None
    except SchemaError as error:
        raise Failed(shortened(str(error))) from None


def schemas_by_id(client: RegistryClient) -> Callable[[int], AvroSchema | None]:
    """What a message's id means; None if there is no such schema, BadMessage if it is of no use."""

    def schema(schema_id: int) -> AvroSchema | None:
        try:
            return client.schema(schema_id)
        except RegistryRefused as refused:
            if refused.code == SCHEMA_NOT_FOUND:
                return None
            raise
        except InvalidSchema as error:
            raise BadMessage(f"its schema {schema_id} cannot be used: {error}") from None

    return schema


def existing_subjects(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion: what could be meant, if the registry says so quickly."""
    urls = said(context, "registry", address_variables.REGISTRY, DEFAULT_REGISTRY)

    def subjects() -> list[str]:
        with registry_at(urls) as client:
            return client.subjects()

    return words(subjects, incomplete)


def shortened(text: str) -> str:
    """What a registry says may quote whole schemas, and hold anything."""
    text = one_line(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
