"""What the commands that talk to a cluster have in common: options, a connection, plain errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import BadAddress, ClientError
from penstock import address_variables
from penstock.failures import Failed

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(command: F) -> F:
    return click.option(
        "-b",
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        envvar=address_variables.BOOTSTRAP,
        show_envvar=True,
        metavar="HOST:PORT,…",
        help="Some brokers of the cluster.",
    )(command)


@contextmanager
def connected(bootstrap: str) -> Iterator[Brokers]:
    """The cluster; its errors become the command's one line."""
    try:
        with Brokers(parse_addresses(bootstrap)) as brokers:
            yield brokers
    except BadAddress as error:
        raise click.UsageError(str(error)) from None
    except ClientError as error:
        raise Failed(str(error)) from None
