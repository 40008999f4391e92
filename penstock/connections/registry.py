"""What the commands that talk to a schema registry have in common: options, plain errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ground.http_security import HttpSecurity
from ground.printable import one_line
from penstock.cli import address_variables
from penstock.cli.completion import said, words
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.config.configuration import ConfigurationError, load
from schemas.errors import BadMessage, InvalidSchema, RegistryRefused, SchemaError
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient
from schemas.remote.address import RegistryAddress

DEFAULT_REGISTRY = "http://127.0.0.1:8081"
PATIENCE_SECONDS = 20.0  # a new writer is elected within that
SECURITY: Final = "PENSTOCK_REGISTRY_SECURITY"  # the environment's variable for the option
_REMEMBERED: Final = "penstock.registry_security"  # in a command's context
_LONGEST = 500

F = TypeVar("F", bound=Callable[..., Any])


def registry_option(command: F) -> F:
    """Adds `registry`; and --registry-security, which `registry_at` goes by."""
    security = click.option(
        "--registry-security",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar=SECURITY,
        show_envvar=True,
        metavar="FILE",
        expose_value=False,
        callback=_remember,
        help="How the registry is asked: a YAML file with `tls`, and `user` or `token_file`.",
    )
    registry = click.option(
        "-r",
        "--registry",
        default=DEFAULT_REGISTRY,
        show_default=True,
        envvar=address_variables.REGISTRY,
        show_envvar=True,
        metavar="URL,…",
        help="Some instances of the schema registry.",
    )
    return registry(security(command))


def _remember(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_REMEMBERED] = path


def said_registry(urls: str) -> RegistryAddress:
    """With what the running command was told of how to ask it."""
    context = click.get_current_context(silent=True)
    path = context.meta.get(_REMEMBERED) if context else None
    if path is None:
        return RegistryAddress(urls)
    try:
        return RegistryAddress(urls, load(HttpSecurity, path))
    except ConfigurationError as error:
        raise WrongConfiguration(str(error)) from None


@contextmanager
def registry_at(place: str | RegistryAddress) -> Iterator[RegistryClient]:
    """A client; whatever is wrong with schemas or the registry becomes the command's one line.
    URLs alone are asked as the command was told."""
    address = said_registry(place) if isinstance(place, str) else place
    try:
        client = RegistryClient(address, patience_seconds=PATIENCE_SECONDS, first_contact_seconds=0)
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

    with context.scope(cleanup=False):  # where the file is that says how to get in
        return words(subjects, incomplete)


def shortened(text: str) -> str:
    """What a registry says may quote whole schemas, and hold anything."""
    text = one_line(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
