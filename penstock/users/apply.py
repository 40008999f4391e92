"""`penstock users apply`: adds and removes users, and sets passwords, as declared in a file.

    users:
    - {name: alice, password_file: /etc/penstock/secrets/alice}
    - {name: bob, password_file: bob.password, renew: true}
    - {name: carol, state: absent}

Brokers do not tell a password, so nobody can compare it. With --check-logins it is tried: as each
user somebody logs in where the command itself connects, and who is refused is given the password of
the file. Where that listener takes no SCRAM, or without the option, a password that is set stays,
unless the entry says `renew`.

`only_new` refuses a user who is there already: the password in the file was made up for a new one,
and the other, which somebody uses, would be lost.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from client.admin.users import UserPasswords
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Login, Mechanism, Security
from client.errors import NotLetIn, WrongCredentials
from ground.logins.scram import FEWEST_ITERATIONS, MOST_ITERATIONS
from penstock.cli.failures import Failed
from penstock.connections.cluster import brokers_security, connected
from penstock.declared.plans import (
    Plan,
    State,
    between,
    carry_out,
    check_once,
    declaration_options,
    declared_in,
    refused,
)
from penstock.users.commands import Users, place_options, users_at
from penstock.users.passwords import said_password


class DeclaredUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    password_file: str = ""
    iterations: int | None = None
    renew: bool = False
    only_new: bool = False
    state: State = State.PRESENT

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a user needs a name")
        if self.state is State.PRESENT and not self.password_file:
            raise ValueError(f"{self.name} needs a password_file")
        count = self.iterations
        if count is not None and not FEWEST_ITERATIONS <= count <= MOST_ITERATIONS:
            raise ValueError(
                f"{self.name}: iterations are {FEWEST_ITERATIONS} to {MOST_ITERATIONS}"
            )

    def password(self, folder: Path) -> Path:
        return folder / self.password_file


class DeclaredUsers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    users: list[DeclaredUser] = []


def plan_of(
    wanted: DeclaredUser, found: UserPasswords | None, *, logs_in: bool | None = None
) -> Plan:
    """`logs_in` says whether the password of the file is the one that is set; None: not known."""
    before = None
    if found is not None:
        counts = {str(kind): count for kind, count in sorted(found.iterations.items())}
        before = {"iterations": counts, "password": "as it was"}
    if wanted.state is State.ABSENT:
        return between(wanted.name, before, None)
    count = wanted.iterations or MOST_ITERATIONS
    there = {} if found is None else found.iterations
    same = wanted.iterations is None or set(there.values()) == {count}
    if found is not None and wanted.only_new:
        lost = "there is such a user, whose password is not here: bring it, or renew it"
        return refused(wanted.name, before, lost)
    if found is not None and same and not wanted.renew and logs_in is not False:
        return between(wanted.name, before, before)
    kinds = sorted(str(mechanism) for mechanism in (there or _MECHANISMS))
    after = {"iterations": dict.fromkeys(kinds, count), "password": "set anew"}
    return between(wanted.name, before, after)


_MECHANISMS = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def logs_in(bootstrap: str, security: Security, name: str, password: Path) -> bool | None:
    """Whether somebody with this password gets in as that user; None if there is no way to try."""
    login = Login(mechanism=Mechanism.SCRAM_SHA_512, user=name, password_file=str(password))
    there = Bootstrap.of(bootstrap, Security(tls=security.tls, login=login))
    try:
        with Brokers(there):
            return True
    except WrongCredentials:
        return False
    except NotLetIn:
        return None


@click.command()
@declaration_options
@click.option(
    "--check-logins", is_flag=True, help="Try to log in, and set passwords that are wrong."
)
@place_options
def command(
    *,
    declared: Path,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    check_logins: bool,
    bootstrap: str,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
) -> None:
    """Add and remove users, and set their passwords, as declared in FILE.

    Paths of password files are relative to FILE's folder. Users that are not in FILE stay.

    \b
    Example:
        penstock users apply users.yaml --dry-run
        penstock users apply users.yaml --check-logins
    """
    wanted = declared_in(DeclaredUsers, declared).users
    check_once("user", (user.name for user in wanted))
    folder = declared.parent
    entries = {user.name: user for user in wanted}
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        found = {user.name: user for user in users.find(None)}
        tried: dict[str, bool | None] = {}
        if check_logins and zookeeper is None:
            tried = _tried(bootstrap, [user for user in wanted if user.name in found], folder)
        plans = [
            plan_of(user, found.get(user.name), logs_in=tried.get(user.name)) for user in wanted
        ]

        def do(plan: Plan) -> None:
            _do(users, plan, entries[plan.name], found.get(plan.name), folder)

        carry_out("users", plans, do, dry_run=dry_run, yes=yes, as_json=as_json)


def _tried(bootstrap: str, wanted: list[DeclaredUser], folder: Path) -> dict[str, bool | None]:
    security = brokers_security(bootstrap)
    found: dict[str, bool | None] = {}
    with connected(bootstrap):  # for its words, if nobody is there
        for user in wanted:
            if user.state is State.PRESENT and not user.renew and not user.only_new:
                password = user.password(folder)
                if not password.is_file():
                    raise Failed(f"{password}: no such file")
                found[user.name] = logs_in(bootstrap, security, user.name, password)
    return found


def _do(
    users: Users, plan: Plan, entry: DeclaredUser, found: UserPasswords | None, folder: Path
) -> None:
    after: Any = plan.after
    if after is None:
        if found is not None:
            users.remove(found)
        return
    with said_password(plan.name, entry.password(folder), None) as password:
        users.set_password(plan.name, password, entry.iterations or MOST_ITERATIONS)
