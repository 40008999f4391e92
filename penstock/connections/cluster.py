"""What the commands that talk to a cluster have in common: options, a connection, plain errors."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import BadAddress, ClientError, NotReachable
from client.security import Security
from penstock.cli import address_variables
from penstock.cli.address_variables import what_to_do
from penstock.cli.completion import said, words
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.config.configuration import ConfigurationError, load

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

SECURITY: Final = "PENSTOCK_SECURITY"  # the environment's variable for --security
_REMEMBERED: Final = "penstock.security"  # in a command's context

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(command: F) -> F:
    """Adds `bootstrap`; and --security, which `connected` goes by."""
    security = click.option(
        "--security",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar=SECURITY,
        show_envvar=True,
        metavar="FILE",
        expose_value=False,
        callback=_remember,
        help="How the brokers are connected to: a YAML file with the keys `tls` and `login`.",
    )
    bootstrap = click.option(
        "-b",
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        envvar=address_variables.BOOTSTRAP,
        show_envvar=True,
        metavar="HOST:PORT,…",
        help="Some brokers of the cluster.",
    )
    return bootstrap(security(command))


def _remember(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_REMEMBERED] = path


def said_security() -> Security:
    """What the running command was told of how to connect."""
    context = click.get_current_context(silent=True)
    path = context.meta.get(_REMEMBERED) if context else None
    if path is None:
        return Security()
    try:
        return load(Security, path)
    except ConfigurationError as error:
        raise WrongConfiguration(str(error)) from None


@contextmanager
def connected(bootstrap: str, security: Security | None = None) -> Iterator[Brokers]:
    """The cluster, as a file says to connect or else the command; its errors become the command's
    one line."""
    try:
        with Brokers(Bootstrap.of(bootstrap, security or said_security())) as brokers:
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

    with context.scope(cleanup=False):  # where the file is that says how to get in
        return words(topics, incomplete)
