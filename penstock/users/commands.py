"""`penstock users list`, `add`, `password` and `remove`, through brokers or ZooKeeper."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click

from client.admin import users as over_brokers
from client.admin.users import UserPasswords
from client.connection.brokers import Brokers
from ground.logins.scram import FEWEST_ITERATIONS, MOST_ITERATIONS
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.failures import Failed, missing_extra
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected
from penstock.connections.zookeeper import zookeeper_at, zookeeper_options
from penstock.users.passwords import password_for, password_options

_LOG_KEY: Final = "penstock.administration_log"  # in a command's context
COLUMNS: Final = ("name", "mechanisms", "iterations")

F = TypeVar("F", bound=Callable[..., Any])


class Users(Protocol):
    """The users of a cluster, changed through brokers or in ZooKeeper."""

    def find(self, name: str | None) -> tuple[UserPasswords, ...]: ...

    def set_password(self, name: str, password: str, iterations: int) -> None: ...

    def remove(self, user: UserPasswords) -> None: ...


class _OverBrokers:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def find(self, name: str | None) -> tuple[UserPasswords, ...]:
        return over_brokers.users(self._brokers, name)

    def set_password(self, name: str, password: str, iterations: int) -> None:
        over_brokers.set_password(self._brokers, name, password, iterations)

    def remove(self, user: UserPasswords) -> None:
        over_brokers.remove_user(self._brokers, user)


def place_options(command: F) -> F:
    """Adds the parameters `bootstrap`, `zookeeper` and `zookeeper_secret_file`, and for `users_at`
    the options --zookeeper-security and --administration-log."""
    log = click.option(
        "--administration-log",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        expose_value=False,
        callback=_remember_log,
        help="With --zookeeper: record the change in this administration log of a broker.",
    )
    zookeeper = zookeeper_options(
        "Write to this ZooKeeper instead of to brokers: for the first user."
    )
    return bootstrap_option(zookeeper(log(command)))


def _remember_log(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_LOG_KEY] = path


def iterations_option(command: F) -> F:
    return click.option(
        "--iterations",
        type=click.IntRange(FEWEST_ITERATIONS, MOST_ITERATIONS),
        default=MOST_ITERATIONS,
        show_default=True,
        metavar="N",
        help="Iterations of the password's hash.",
    )(command)


@contextmanager
def users_at(
    bootstrap: str, zookeeper: str | None, zookeeper_secret_file: Path | None
) -> Iterator[Users]:
    log_path: Path | None = click.get_current_context().meta.get(_LOG_KEY)
    zookeeper_address = zookeeper_at(zookeeper, zookeeper_secret_file)
    if zookeeper_address is None:
        if log_path is not None:
            raise click.UsageError(
                "--administration-log needs --zookeeper: brokers record changes themselves"
            )
        with connected(bootstrap) as brokers:
            yield _OverBrokers(brokers)
        return
    try:
        # Imported here because hosts with an agent alone have no kazoo.
        from penstock.users.zookeeper_users import zookeeper_users  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise Failed(missing_extra("--zookeeper", "kazoo", "broker")) from None
    with zookeeper_users(
        zookeeper_address.address, zookeeper_address.secret, zookeeper_address.security, log_path
    ) as users:
        yield users


@click.command()
@place_options
@json_option
def list_users(
    *, bootstrap: str, zookeeper: str | None, zookeeper_secret_file: Path | None, as_json: bool
) -> None:
    """List the users who can log in with a password, by name.

    \b
    Example:
        penstock users list
        penstock users list --json | jq -r '.[].name'
    """
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        user_list = users.find(None)
    if as_json:
        print_json(
            [
                {
                    "name": user.name,
                    "mechanisms": {str(kind): count for kind, count in user.iterations.items()},
                }
                for user in user_list
            ]
        )
    elif user_list:
        print_table(COLUMNS, [_row(user) for user in user_list])
    else:
        click.echo("no users", err=True)


def _row(user: UserPasswords) -> dict[str, object]:
    counts = sorted(set(user.iterations.values()))
    return {
        "name": user.name,
        "mechanisms": ", ".join(sorted(user.iterations)),
        "iterations": ", ".join(map(str, counts)),
    }


@click.command()
@click.argument("name")
@password_options
@iterations_option
@place_options
@json_option
def add(
    *,
    name: str,
    password_file: Path | None,
    generate: Path | None,
    iterations: int,
    bootstrap: str,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
    as_json: bool,
) -> None:
    """Add a user who logs in with a password, by PLAIN or SCRAM.

    The first user must be written into the brokers' ZooKeeper (--zookeeper), as no user can log in
    yet.

    \b
    Example:
        penstock users add alice
        penstock users add agent-web-1 --generate web-1.password
        penstock users add admin --zookeeper-secret-file zookeeper.secret \\
            --zookeeper 127.0.0.1:2181/penstock --administration-log administration.log
    """
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        if users.find(name):
            raise Failed(
                f"user {name} exists: `penstock users password {name}` changes the password"
            )
        with password_for(name, password_file, generate) as password:
            users.set_password(name, password, iterations)
    _say("added", name, as_json=as_json)


@click.command()
@click.argument("name")
@password_options
@iterations_option
@place_options
@json_option
def password(
    *,
    name: str,
    password_file: Path | None,
    generate: Path | None,
    iterations: int,
    bootstrap: str,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
    as_json: bool,
) -> None:
    """Change a user's password. Existing connections stay open.

    \b
    Example:
        penstock users password alice
        penstock users password alice --password-file new.password
    """
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        if not users.find(name):
            raise Failed(f"there is no user {name}: `penstock users add {name}`")
        with password_for(name, password_file, generate) as new_password:
            users.set_password(name, new_password, iterations)
    _say("changed", name, as_json=as_json)


@click.command()
@click.argument("name")
@yes_option
@place_options
@json_option
def remove(
    *,
    name: str,
    yes: bool,
    bootstrap: str,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
    as_json: bool,
) -> None:
    """Remove a user, who can no longer log in. Existing connections stay open.

    \b
    Example:
        penstock users remove alice
        penstock users remove alice --yes
    """
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        matches = users.find(name)
        if not matches:
            raise Failed(f"there is no user {name}")
        if not yes:
            confirm_deletion(f"user {name}")
        users.remove(matches[0])
    _say("removed", name, as_json=as_json)


def _say(verb: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({verb: name})
    else:
        print(f"{verb} {name}")
