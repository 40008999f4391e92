"""What the commands that talk to a cluster have in common: options, a connection, plain errors."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import BadAddress, ClientError, NotReachable
from penstock.cli import address_variables
from penstock.cli.address_variables import what_to_do
from penstock.cli.completion import said, words
from penstock.cli.failures import Failed

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
    except NotReachable as error:
        hint = what_to_do(bootstrap, DEFAULT_BOOTSTRAP, "--bootstrap", address_variables.BOOTSTRAP)
        raise Failed(f"{error}{hint}") from None
    except ClientError as error:
        raise Failed(str(error)) from None


def existing_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion: what could be meant, if the cluster says so quickly."""
    bootstrap = said(context, "bootstrap", address_variables.BOOTSTRAP, DEFAULT_BOOTSTRAP)

    def topics() -> Iterable[str]:
        with connected(bootstrap) as brokers:
            return brokers.refresh(None).topics

    return words(topics, incomplete)
