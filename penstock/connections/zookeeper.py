"""The shared parts of commands that connect to ZooKeeper: options, session, errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from cluster.errors import ClusterError, NotAllowed
from cluster.session.security import ZooKeeperSecurity
from ground.logins.secrets import NoSecret, Secret
from penstock.cli.failures import Failed, missing_extra
from penstock.connections.profile import (
    chosen_security,
    profile,
    profile_option,
    readable_profile,
    security_file,
    security_option,
)

if TYPE_CHECKING:
    from cluster.session.session import Session

_SECURITY: Final = "zookeeper_security"

F = TypeVar("F", bound=Callable[..., Any])


class ZooKeeperAt(NamedTuple):
    """An address, and the credentials for it."""

    address: str
    secret: str | None
    security: ZooKeeperSecurity


def zookeeper_options(address_help: str) -> Callable[[F], F]:
    """Adds the parameters `zookeeper` and `zookeeper_secret_file`, and the option
    --zookeeper-security."""

    def add(command: F) -> F:
        zookeeper = click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=address_help)
        secret_option = click.option(
            "--zookeeper-secret-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The brokers' `zookeeper_secret`, in a file.",
        )
        security = security_option(
            _SECURITY,
            "--zookeeper-security",
            None,
            "The brokers' `zookeeper_security`: a YAML file with those keys.",
        )
        return profile_option(zookeeper(secret_option(security(command))))

    return add


def zookeeper_at(zookeeper: str | None, secret_file: Path | None) -> ZooKeeperAt | None:
    """Returns the address and credentials that the running command's options name; None without
    --zookeeper. The profile adds credentials for the ZooKeeper that it names."""
    if zookeeper is None:
        if secret_file is not None:
            raise click.UsageError("--zookeeper-secret-file needs --zookeeper")
        if security_file(_SECURITY) is not None:
            raise click.UsageError("--zookeeper-security needs --zookeeper")
        return None
    security = chosen_security(_SECURITY, "zookeeper", zookeeper, ZooKeeperSecurity)
    current_profile = readable_profile()
    if secret_file is None and current_profile.names("zookeeper", zookeeper):
        path = current_profile.value("zookeeper_secret_file")
        secret_file = Path(path) if path else None
    try:
        secret = None if secret_file is None else Secret(file=str(secret_file)).read()
    except NoSecret as error:
        raise Failed(str(error)) from None
    return ZooKeeperAt(zookeeper, secret, security)


def needed_zookeeper(zookeeper: str | None, secret_file: Path | None) -> ZooKeeperAt:
    """Returns ZooKeeper's address and login for a command that needs it; without --zookeeper, those
    of the profile."""
    if zookeeper is None:
        zookeeper = profile().value("zookeeper")
    if not zookeeper:
        raise click.UsageError("no ZooKeeper: pass --zookeeper, or set `zookeeper` in a profile")
    address = zookeeper_at(zookeeper, secret_file)
    assert address is not None
    return address


@contextmanager
def session_with(at: ZooKeeperAt, *, may_be_new: bool = False) -> Iterator["Session"]:
    """Opens a session on the brokers' map; with `may_be_new`, creates the map if it is missing.
    Errors become Failed."""
    try:
        # Imported here because hosts with an agent alone have no kazoo.
        from cluster.records.identity import find_cluster_id  # noqa: PLC0415
        from cluster.session.session import Session  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise Failed(missing_extra("--zookeeper", "kazoo", "broker")) from None
    try:
        session = Session.connect(
            at.address, secret=at.secret, security=at.security, makes_map=may_be_new
        )
        try:
            if not may_be_new and find_cluster_id(session) is None:
                raise Failed(f"no broker has used ZooKeeper at {at.address} yet: check the chroot")
            yield session
        finally:
            session.close()
    except NotAllowed as error:
        hint = "" if at.secret or at.security.user else ": pass --zookeeper-secret-file"
        raise Failed(f"{error}{hint}") from None
    except ClusterError as error:
        raise Failed(str(error)) from None
