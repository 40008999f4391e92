"""The shared parts of commands that talk to a cluster: options, connection, errors."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Security
from client.errors import BadAddress, ClientError, NotReachable, UnknownTopic
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

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

SECURITY: Final = "PENSTOCK_SECURITY"  # the environment's variable for --security

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(command: F) -> F:
    """Adds the parameter `bootstrap`, and the option --security."""
    security = security_option(
        "security",
        "--security",
        SECURITY,
        "How to connect to the brokers: a YAML file with the keys `tls` and `login`.",
    )
    bootstrap = address_option(
        "brokers",
        "-b",
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        variable=address_variables.BOOTSTRAP,
        metavar="HOST:PORT,…",
        help="Addresses of one or more brokers of the cluster.",
    )
    return bootstrap(security(command))


def brokers_security(bootstrap: str) -> Security:
    """Returns the credentials of the running command for these brokers."""
    return chosen_security("security", "brokers", bootstrap, Security)


@contextmanager
def connected(bootstrap: str, security: Security | None = None) -> Iterator[Brokers]:
    """Connects to the cluster, by default with the credentials of the running command. Client
    errors become Failed or a UsageError."""
    try:
        with Brokers(Bootstrap.of(bootstrap, security or brokers_security(bootstrap))) as brokers:
            try:
                yield brokers
            except UnknownTopic as error:
                raise Failed(f"{error}{_suggestion(brokers, error.topic)}") from None
    except BadAddress as error:
        raise click.UsageError(str(error)) from None
    except NotReachable as error:
        advice = hint(
            "brokers", bootstrap, DEFAULT_BOOTSTRAP, "--bootstrap", address_variables.BOOTSTRAP
        )
        raise Failed(f"{error}{advice}") from None
    except ClientError as error:
        raise Failed(f"{error}{origin('brokers', bootstrap)}") from None


def _suggestion(brokers: Brokers, topic: str) -> str:
    """A hint with the most similar topic, for the end of a message."""
    try:
        return did_you_mean(topic, brokers.refresh(None).topics)
    except ClientError:
        return ""


def existing_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Returns the cluster's topics for completion, if the cluster answers quickly."""

    def topics() -> Iterable[str]:
        with connected(typed_bootstrap(context)) as brokers:
            return brokers.refresh(None).topics

    with context.scope(cleanup=False):  # its options name the credentials
        return words(topics, incomplete)


def typed_bootstrap(context: click.Context) -> str:
    """Returns the brokers that the incomplete command line or the variable names, else the
    command's default."""
    typed_value = context.params.get("bootstrap") or os.environ.get(address_variables.BOOTSTRAP)
    return typed_value or default_address("brokers", DEFAULT_BOOTSTRAP)
