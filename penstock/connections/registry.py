"""The shared parts of commands that talk to a schema registry: options and errors."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from ground.http.security import HttpSecurity
from ground.printable import one_line
from ground.similar_names import did_you_mean
from penstock.cli import address_variables
from penstock.cli.completion import words
from penstock.cli.failures import Failed
from penstock.connections.profile import (
    address_option,
    chosen_security,
    default_address,
    hint,
    origin,
    security_option,
)
from schemas.errors import RegistryNotReachable, RegistryRefused, SchemaError
from schemas.registry_client import SUBJECT_NOT_FOUND, RegistryClient
from schemas.remote.address import RegistryAddress

DEFAULT_REGISTRY = "http://127.0.0.1:8081"
PATIENCE_SECONDS = 20.0  # a new writer is elected within this time
CONTACT_SECONDS: Final = 3.0
SECURITY: Final = "PENSTOCK_REGISTRY_SECURITY"  # the environment's variable for the option
_LONGEST = 500

F = TypeVar("F", bound=Callable[..., Any])


def registry_option(command: F) -> F:
    """Adds the parameter `registry`, and the option --registry-security."""
    security = security_option(
        "registry_security",
        "--registry-security",
        SECURITY,
        "How to connect to the registry: a YAML file with `tls`, and `user` or `token_file`.",
    )
    registry = address_option(
        "registry",
        "-r",
        "--registry",
        default=DEFAULT_REGISTRY,
        variable=address_variables.REGISTRY,
        metavar="URL,…",
        help="URLs of the schema registry's instances.",
    )
    return registry(security(command))


def registry_address(urls: str) -> RegistryAddress:
    """Returns the address of these instances, with the credentials of the running command."""
    return RegistryAddress(
        urls, chosen_security("registry_security", "registry", urls, HttpSecurity)
    )


@contextmanager
def registry_at(place: str | RegistryAddress) -> Iterator[RegistryClient]:
    """Yields a client of a registry that answers. Schema and registry errors become Failed. Plain
    URLs are used with the credentials of the running command."""
    address = registry_address(place) if isinstance(place, str) else place
    try:
        client = RegistryClient(
            address,
            patience_seconds=PATIENCE_SECONDS,
            first_contact_seconds=0,
            first_attempt_seconds=CONTACT_SECONDS,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        with client:
            try:
                client.contact()
                yield client
            except RegistryRefused as error:
                raise Failed(_refusal(error, client) + origin("registry", address.urls)) from None
    except RegistryNotReachable as error:
        # Imported here because it needs Kafka's client.
        from penstock.connections.reachability import registry_failure  # noqa: PLC0415

        reason = registry_failure(error, address.urls)
        advice = hint(
            "registry", address.urls, DEFAULT_REGISTRY, "--registry", address_variables.REGISTRY
        )
        raise Failed(shortened(reason) + advice) from None
    except SchemaError as error:
        raise Failed(shortened(str(error)) + origin("registry", address.urls)) from None


def _refusal(error: RegistryRefused, client: RegistryClient) -> str:
    """The registry's message; about an unknown subject, with the one that is probably meant."""
    context = click.get_current_context(silent=True)
    subject = context.params.get("subject") if context else None
    if error.code != SUBJECT_NOT_FOUND or not isinstance(subject, str):
        return shortened(error.message)
    try:
        subjects = client.subjects()
    except SchemaError:
        return shortened(error.message)
    suggestion = did_you_mean(subject, subjects) or did_you_mean(f"{subject}-value", subjects)
    return shortened(error.message).removesuffix(".") + suggestion


def existing_subjects(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Returns the registry's subjects for completion, if the registry answers quickly."""
    typed_value = context.params.get("registry") or os.environ.get(address_variables.REGISTRY)

    def subjects() -> list[str]:
        with registry_at(typed_value or default_address("registry", DEFAULT_REGISTRY)) as client:
            return client.subjects()

    with context.scope(cleanup=False):  # its options name the credentials
        return words(subjects, incomplete)


def shortened(text: str) -> str:
    """Makes a registry's message, which may quote whole schemas, short and printable."""
    text = one_line(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
