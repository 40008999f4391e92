"""Writes users into ZooKeeper, past the brokers: for the first user, as none can log in yet.

No broker can say who has done that: whoever does, notes it, if the command is told where.
"""

import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from client.admin.users import UserPasswords
from cluster.errors import ClusterError
from cluster.records import users
from cluster.records.identity import find_cluster_id
from cluster.records.users import Credentials
from cluster.session.security import ZooKeeperSecurity
from cluster.session.session import Session
from ground.administration.entries import Change, Kind, Program, Who
from ground.administration.log import append
from ground.logins.scram import ScramCredential, ScramMechanism, new_salt
from penstock.cli.failures import Failed


class UsersInZooKeeper:
    def __init__(self, session: Session, administration_log: Path | None) -> None:
        self._session = session
        self._administration_log = administration_log

    def find(self, name: str | None) -> tuple[UserPasswords, ...]:
        """Everybody, or one."""
        if name is None:
            found = users.all_users(self._session)
        else:
            found = {name: users.credentials_of(self._session, name)}
        return tuple(
            UserPasswords(user, {kept.mechanism: kept.iterations for kept in found[user].values()})
            for user in sorted(found)
            if found[user]
        )

    def set_password(self, name: str, password: str, iterations: int) -> None:
        made: Credentials = {
            mechanism: ScramCredential.of_password(mechanism, password, new_salt(), iterations)
            for mechanism in ScramMechanism
        }
        kept: Credentials = {}

        def replaced(before: Credentials) -> Credentials:
            nonlocal kept
            kept = before
            return made

        users.alter(self._session, name, replaced)
        self._note(
            "alter" if kept else "create",
            name,
            {str(mechanism): f"{old.iterations} iterations" for mechanism, old in kept.items()},
            {str(mechanism): f"another password, {iterations} iterations" for mechanism in made},
        )

    def remove(self, user: UserPasswords) -> None:
        users.alter(self._session, user.name, lambda _before: {})
        before = {
            str(mechanism): f"{count} iterations" for mechanism, count in user.iterations.items()
        }
        self._note("delete", user.name, before, {})

    def _note(
        self, action: str, name: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        if self._administration_log is None:
            return
        change = Change(
            action=action,
            kind=Kind.USER,
            name=name,
            before=before,
            after=after,
            message="in ZooKeeper, past the brokers",
        )
        who = Who(_account(), socket.gethostname(), "zookeeper", "penstock users")
        try:
            append(self._administration_log, Program("", "penstock users"), who, change)
        except OSError as error:
            raise Failed(
                f"it is done, and not noted: {self._administration_log}: {error.strerror}"
            ) from None


def _account() -> str:
    """Of this machine: nobody has logged in."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@contextmanager
def zookeeper_users(
    address: str,
    secret: str | None,
    security: ZooKeeperSecurity,
    administration_log: Path | None,
) -> Iterator[UsersInZooKeeper]:
    """Raises Failed."""
    try:
        # Without the secret nothing is made there that everybody could change.
        guarded = secret is not None or bool(security.user)
        session = Session.connect(address, secret=secret, security=security, makes_map=guarded)
        try:
            if not guarded and find_cluster_id(session) is None:
                raise Failed(
                    f"no broker has used ZooKeeper at {address} yet: start one first, or say what "
                    "its `zookeeper_secret` will be, with --zookeeper-secret-file"
                )
            yield UsersInZooKeeper(session, administration_log)
        finally:
            session.close()
    except ClusterError as error:
        raise Failed(str(error)) from None
