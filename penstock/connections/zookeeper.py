"""What the commands that go to ZooKeeper themselves have in common: how to get in, plain errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from cluster.errors import ClusterError, NotAllowed
from cluster.security import ZooKeeperSecurity
from ground.secrets import NoSecret, Secret
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.config.configuration import ConfigurationError, load

if TYPE_CHECKING:
    from cluster.session import Session

_REMEMBERED: Final = "penstock.zookeeper_security"  # in a command's context

F = TypeVar("F", bound=Callable[..., Any])


class ZooKeeperAt(NamedTuple):
    """Where it is, and what lets one in."""

    address: str
    secret: str | None
    security: ZooKeeperSecurity


def zookeeper_options(address_help: str) -> Callable[[F], F]:
    """Adds `zookeeper` and `zookeeper_secret_file`; and --zookeeper-security, which
    `said_zookeeper` goes by."""

    def add(command: F) -> F:
        zookeeper = click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=address_help)
        secret = click.option(
            "--zookeeper-secret-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The brokers' `zookeeper_secret`, in a file.",
        )
        security = click.option(
            "--zookeeper-security",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_remember,
            help="The brokers' `zookeeper_security`: a YAML file with those keys.",
        )
        return zookeeper(secret(security(command)))

    return add


def said_zookeeper(zookeeper: str | None, secret_file: Path | None) -> ZooKeeperAt | None:
    """What the running command was told; None if it shall not go there."""
    path = click.get_current_context().meta.get(_REMEMBERED)
    if zookeeper is None:
        if secret_file is not None:
            raise click.UsageError("--zookeeper-secret-file needs --zookeeper")
        if path is not None:
            raise click.UsageError("--zookeeper-security needs --zookeeper")
        return None
    try:
        security = ZooKeeperSecurity() if path is None else load(ZooKeeperSecurity, path)
    except ConfigurationError as error:
        raise WrongConfiguration(str(error)) from None
    try:
        secret = None if secret_file is None else Secret(file=str(secret_file)).read()
    except NoSecret as error:
        raise Failed(str(error)) from None
    return ZooKeeperAt(zookeeper, secret, security)


@contextmanager
def session_with(at: ZooKeeperAt, *, may_be_new: bool = False) -> Iterator["Session"]:
    """A session with the map that the brokers have made; one that `may_be_new` is made here. Its
    errors become the command's one line; they end it before it does anything."""
    try:
        # An agent's host has no kazoo, and asks brokers.
        from cluster.identity import find_cluster_id  # noqa: PLC0415
        from cluster.session import Session  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise Failed("--zookeeper needs kazoo: pip install 'penstock[broker]'") from None
    try:
        session = Session.connect(
            at.address, secret=at.secret, security=at.security, makes_map=may_be_new
        )
        try:
            if not may_be_new and find_cluster_id(session) is None:
                raise Failed(
                    f"no broker has used ZooKeeper at {at.address} yet: is its chroot right?"
                )
            yield session
        finally:
            session.close()
    except NotAllowed as error:
        hint = "" if at.secret or at.security.user else ": give it with --zookeeper-secret-file"
        raise Failed(f"{error}{hint}") from None
    except ClusterError as error:
        raise Failed(str(error)) from None


def _remember(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_REMEMBERED] = path
