"""Users written into ZooKeeper, past the brokers: for the first, when nobody can log in yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from client.users import UserPasswords
from cluster import users
from cluster.errors import ClusterError
from cluster.identity import find_cluster_id
from cluster.security import ZooKeeperSecurity
from cluster.session import Session
from cluster.users import Credentials
from ground.scram import ScramCredential, ScramMechanism, new_salt
from penstock.cli.failures import Failed


class UsersInZooKeeper:
    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, name: str | None) -> tuple[UserPasswords, ...]:
        """Everybody, or one."""
        if name is None:
            found = users.all_users(self._session)
        else:
            found = {name: users.credentials_of(self._session, name)}
        return tuple(
            UserPasswords(each, {kept.mechanism: kept.iterations for kept in found[each].values()})
            for each in sorted(found)
            if found[each]
        )

    def set_password(self, name: str, password: str, iterations: int) -> None:
        made: Credentials = {
            mechanism: ScramCredential.of_password(mechanism, password, new_salt(), iterations)
            for mechanism in ScramMechanism
        }
        users.alter(self._session, name, lambda _before: made)

    def remove(self, user: UserPasswords) -> None:
        users.alter(self._session, user.name, lambda _before: {})


@contextmanager
def zookeeper_users(
    address: str, secret: str | None, security: ZooKeeperSecurity
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
            yield UsersInZooKeeper(session)
        finally:
            session.close()
    except ClusterError as error:
        raise Failed(str(error)) from None
