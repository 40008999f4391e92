"""`penstock users apply`: adds and removes users, and sets passwords, as declared in a file.

    users:
    - {name: alice, password_file: /etc/penstock/secrets/alice}
    - {name: bob, password_file: bob.password, renew: true}
    - {name: carol, state: absent}

Brokers do not reveal passwords. With --check-logins the command tries to log in as each user, and
sets the password of the file if it is rejected. Without the option, or if the listener does not
offer SCRAM, existing passwords stay, unless the entry says `renew`.

`only_new` refuses an existing user, for a file with a newly generated password: setting it would
replace a password that is in use.
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
from penstock.users.passwords import password_for


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
            raise ValueError(f"{self.name}: `password_file` is missing")
        iterations = self.iterations
        if iterations is not None and not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ValueError(
                f"{self.name}: `iterations` must be from {FEWEST_ITERATIONS} to {MOST_ITERATIONS}"
            )

    def password(self, folder: Path) -> Path:
        return folder / self.password_file


class DeclaredUsers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    users: list[DeclaredUser] = []


def plan_of(
    entry: DeclaredUser, existing: UserPasswords | None, *, logs_in: bool | None = None
) -> Plan:
    """Plans one user. `logs_in` says whether the password in the file is the current one; None if
    that is unknown."""
    old_state = None
    if existing is not None:
        counts = {str(kind): count for kind, count in sorted(existing.iterations.items())}
        old_state = {"iterations": counts, "password": "unchanged"}
    if entry.state is State.ABSENT:
        return between(entry.name, old_state, None)
    count = entry.iterations or MOST_ITERATIONS
    iterations = {} if existing is None else existing.iterations
    is_same_count = entry.iterations is None or set(iterations.values()) == {count}
    if existing is not None and entry.only_new:
        reason = (
            "the user exists, with a password that is not in this file: copy it here, or renew it"
        )
        return refused(entry.name, old_state, reason)
    if existing is not None and is_same_count and not entry.renew and logs_in is not False:
        return between(entry.name, old_state, old_state)
    kinds = sorted(str(mechanism) for mechanism in (iterations or _MECHANISMS))
    new_state = {"iterations": dict.fromkeys(kinds, count), "password": "set"}
    return between(entry.name, old_state, new_state)


_MECHANISMS = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def logs_in(bootstrap: str, security: Security, name: str, password: Path) -> bool | None:
    """Whether the user can log in with this password; None if the brokers do not offer SCRAM."""
    login = Login(mechanism=Mechanism.SCRAM_SHA_512, user=name, password_file=str(password))
    bootstrap_as_user = Bootstrap.of(bootstrap, Security(tls=security.tls, login=login))
    try:
        with Brokers(bootstrap_as_user):
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
    declared_users = declared_in(DeclaredUsers, declared).users
    check_once("user", (user.name for user in declared_users))
    folder = declared.parent
    entries = {user.name: user for user in declared_users}
    with users_at(bootstrap, zookeeper, zookeeper_secret_file) as users:
        existing_users = {user.name: user for user in users.find(None)}
        login_results: dict[str, bool | None] = {}
        if check_logins and zookeeper is None:
            login_results = _login_results(
                bootstrap, [user for user in declared_users if user.name in existing_users], folder
            )
        plans = [
            plan_of(user, existing_users.get(user.name), logs_in=login_results.get(user.name))
            for user in declared_users
        ]

        def do(plan: Plan) -> None:
            _do(users, plan, entries[plan.name], existing_users.get(plan.name), folder)

        carry_out("users", plans, do, dry_run=dry_run, yes=yes, as_json=as_json)


def _login_results(
    bootstrap: str, declared_users: list[DeclaredUser], folder: Path
) -> dict[str, bool | None]:
    security = brokers_security(bootstrap)
    results: dict[str, bool | None] = {}
    with connected(bootstrap):  # for its message if no broker is reachable
        for user in declared_users:
            if user.state is State.PRESENT and not user.renew and not user.only_new:
                password = user.password(folder)
                if not password.is_file():
                    raise Failed(f"{password}: no such file")
                results[user.name] = logs_in(bootstrap, security, user.name, password)
    return results


def _do(
    users: Users, plan: Plan, entry: DeclaredUser, existing: UserPasswords | None, folder: Path
) -> None:
    after: Any = plan.after
    if after is None:
        if existing is not None:
            users.remove(existing)
        return
    with password_for(plan.name, entry.password(folder), None) as password:
        users.set_password(plan.name, password, entry.iterations or MOST_ITERATIONS)
