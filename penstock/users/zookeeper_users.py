"""Writes users into ZooKeeper. Needed for the first user, before whom no user can log in to the
brokers.

Brokers do not record such a change; the command records it if --administration-log names a file.
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
        """Returns all users, or only the one with this name."""
        if name is None:
            credentials = users.all_users(self._session)
        else:
            credentials = {name: users.credentials_of(self._session, name)}
        return tuple(
            UserPasswords(
                user, {kind: scram.iterations for kind, scram in credentials[user].items()}
            )
            for user in sorted(credentials)
            if credentials[user]
        )

    def set_password(self, name: str, password: str, iterations: int) -> None:
        credentials: Credentials = {
            mechanism: ScramCredential.of_password(mechanism, password, new_salt(), iterations)
            for mechanism in ScramMechanism
        }
        old_credentials: Credentials = {}

        def replaced(before: Credentials) -> Credentials:
            nonlocal old_credentials
            old_credentials = before
            return credentials

        users.alter(self._session, name, replaced)
        self._note(
            "alter" if old_credentials else "create",
            name,
            {
                str(mechanism): f"{credential.iterations} iterations"
                for mechanism, credential in old_credentials.items()
            },
            {
                str(mechanism): f"another password, {iterations} iterations"
                for mechanism in credentials
            },
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
            message="in ZooKeeper, not through a broker",
        )
        who = Who(_account(), socket.gethostname(), "zookeeper", "penstock users")
        try:
            append(self._administration_log, Program("", "penstock users"), who, change)
        except OSError as error:
            raise Failed(
                f"the user was changed, but not recorded in {self._administration_log}: "
                f"{error.strerror}"
            ) from None


def _account() -> str:
    """The name of the operating system's user."""
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
    """Connects to ZooKeeper. Raises Failed."""
    try:
        # Without the secret, the map that it creates would be open to everyone.
        has_login = secret is not None or bool(security.user)
        session = Session.connect(address, secret=secret, security=security, makes_map=has_login)
        try:
            if not has_login and find_cluster_id(session) is None:
                raise Failed(
                    f"no broker has used ZooKeeper at {address} yet: start one first, or pass "
                    "its `zookeeper_secret` with --zookeeper-secret-file"
                )
            yield UsersInZooKeeper(session, administration_log)
        finally:
            session.close()
    except ClusterError as error:
        raise Failed(str(error)) from None
