"""The users and ACLs of a secure pipeline, written into ZooKeeper before a broker is started.

They cannot be sent to a broker, as the first user who may do so is among them. Writing past the
brokers takes the secret of ZooKeeper, as with `penstock users add --zookeeper`.

Each user gets the password in its file, and each rule of locks.py is added; other users and rules
stay. What is already right is not written again, so this can be killed and repeated.
"""

from functools import partial

from cluster.errors import ClusterError, Unavailable
from cluster.records import acls
from cluster.records import users as kept_users
from cluster.records.users import Credentials
from cluster.session.session import Session
from cluster.zookeeper_server.server import read_secret
from cluster.zookeeper_server.status import answers
from ground.logins.scram import MOST_ITERATIONS, ScramCredential, ScramMechanism, new_salt
from ground.logins.secrets import NoSecret, Secret
from penstock.directory.locks import Locks, rules, users
from penstock.directory.places import HOST, OFFLINE, SOURCE, Places, Ports


class Admission:
    """Writes the users and ACLs of a pipeline before a broker starts. `is_done` replaces the check
    that ZooKeeper answers, and is called by one thread at a time. `failure` says why it can never
    succeed."""

    def __init__(self, places: Places, ports: Ports, *, mirrored: bool = False) -> None:
        """`mirrored`: write to both clusters."""
        self.failure = ""
        self._maps = (f"/{SOURCE}", f"/{OFFLINE}") if mirrored else ("",)
        self._mirrored = mirrored
        self._places = places
        self._port = ports.zookeeper
        self._written = False

    def is_done(self) -> bool:
        if not answers(HOST, self._port):
            return False
        if not self._written:
            secret = read_secret(self._places.data("zookeeper"))
            try:
                for chroot in self._maps:
                    zookeeper = f"{HOST}:{self._port}{chroot}"
                    admit(Locks.of(self._places), zookeeper, secret, mirrored=self._mirrored)
            except Unavailable:
                return False  # ZooKeeper was killed, or is restarting
            except (ClusterError, NoSecret) as error:
                self.failure = f"cannot write users and ACLs into ZooKeeper: {error}"
                return False
            self._written = True
        return True


def admit(locks: Locks, zookeeper: str, secret: str | None, *, mirrored: bool = False) -> None:
    """Writes users and ACLs into ZooKeeper. Raises ClusterError or NoSecret."""
    passwords = {
        user: Secret(file=str(locks.password(user))).read() for user in users(mirrored=mirrored)
    }
    session = Session.connect(zookeeper, secret=secret)
    try:
        for user, password in passwords.items():
            kept_users.alter(session, user, partial(_credentials, password))
        for pattern, acl in rules(mirrored=mirrored):
            acls.add(session, pattern, [acl])
    finally:
        session.close()


def _credentials(password: str, before: Credentials) -> Credentials:
    """The present credentials if they match the password, else new ones."""
    credentials = [before.get(mechanism) for mechanism in ScramMechanism]
    if all(credential is not None and credential.matches(password) for credential in credentials):
        return before
    # As many rounds as all other users have: else the broker's answers would tell who is who.
    return {
        mechanism: ScramCredential.of_password(mechanism, password, new_salt(), MOST_ITERATIONS)
        for mechanism in ScramMechanism
    }
