"""Who may come in, in ZooKeeper before there is a broker."""

from pathlib import Path

import pytest

from broker.access.acl_evaluation import Permissions
from cluster.layout import paths
from cluster.records import acls, users
from cluster.session.session import Session
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.logins.scram import ScramMechanism
from penstock.directory.keys import make_keys
from penstock.directory.locks import USERS, Locks, rules
from penstock.directory.locks import users as users_of
from penstock.directory.places import OFFLINE, SOURCE, Places, Ports
from penstock.up.admission import Admission, admit
from wire.acls import Acl, Operation, Permission, ResourcePattern, ResourceType

SECRET = "the brokers' own"
TOPIC = ResourceType.TOPIC
OWN = ResourcePattern(TOPIC, "_audit"), Acl("User:ada", "*", Operation.READ, Permission.ALLOW)


@pytest.fixture
def locks(tmp_path: Path) -> Locks:
    found = Locks.of(Places(tmp_path))
    make_keys(found)
    return found


def test_users_have_the_passwords_of_their_files(locks: Locks, chroot: str) -> None:
    def versions() -> list[int]:
        written = [paths.user_config(user) for user in USERS]
        written += sorted({paths.acl(pattern) for pattern, _ in rules()})
        found = [session.read(path) for path in written]
        return [-1 if each is None else each.version for each in found]

    def knows(user: str, password: str) -> bool:
        kept = users.credentials_of(session, user)
        return len(kept) == len(ScramMechanism) and all(e.matches(password) for e in kept.values())

    admit(locks, chroot, SECRET)
    session = Session.connect(chroot, secret=SECRET)
    try:
        assert all(knows(user, locks.password(user).read_text().strip()) for user in USERS)
        first = versions()
        assert -1 not in first
        acls.add(session, OWN[0], [OWN[1]])
        locks.password("agent").write_text("another one, made by hand\n")
        admit(locks, chroot, SECRET)
        changed = [after - before for before, after in zip(first, versions(), strict=True)]
        assert knows("agent", "another one, made by hand")
        assert sum(changed) == 2, "that user, and the rule that somebody has added"
        assert OWN[1] in acls.standing(session, OWN[0])
    finally:
        session.close()


def permissions_of(*, mirrored: bool) -> Permissions:
    status: dict[ResourcePattern, tuple[Acl, ...]] = {}
    for pattern, acl in rules(mirrored=mirrored):
        status[pattern] = (*status.get(pattern, ()), acl)
    return Permissions(status)


def who_may(operation: Operation, topic: str, *, mirrored: bool = False) -> list[str]:
    permissions = permissions_of(mirrored=mirrored)
    return [
        user
        for user in users_of(mirrored=mirrored)
        if permissions.allows(user, "127.0.0.1", operation, TOPIC, topic)
    ]


def test_each_program_may_do_what_it_does() -> None:
    for operation, topic, programs in (
        (Operation.WRITE, "logs", ["agent"]),
        (Operation.WRITE, "logs.dead", ["agent"]),
        (Operation.WRITE, "_audit", ["agent", "loader"]),
        (Operation.WRITE, "_schemas", ["registry"]),
        (Operation.READ, "logs", ["agent", "loader", "audit"]),
        (Operation.READ, "_audit", ["loader", "audit"]),
        (Operation.READ, "_schemas", ["registry"]),
        (Operation.DELETE, "logs", []),
    ):
        assert who_may(operation, topic) == programs, topic
    assert "audit" in who_may(Operation.DESCRIBE, "logs")


def test_a_mirror_may_copy_and_nothing_else() -> None:
    for operation, topic, may in (
        (Operation.READ, "web", True),
        (Operation.READ, "_schemas", True),
        (Operation.WRITE, "dc1._schemas", True),
        (Operation.WRITE, "_schemas", False),
        (Operation.DELETE, "dc1.web", False),
    ):
        assert ("mirror" in who_may(operation, topic, mirrored=True)) is may, topic
    assert who_may(Operation.READ, "dc1._schemas", mirrored=True) == ["registry", "audit", "mirror"]


def test_both_clusters_know_who_may_come_in(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    places = Places(tmp_path)
    make_keys(Locks.of(places), mirrored=True)
    places.data("zookeeper").mkdir()
    (places.data("zookeeper") / "secret").write_text(SECRET)
    admission = Admission(places, Ports(zookeeper=zookeeper.port), mirrored=True)
    assert admission.is_done(), admission.failure
    for cluster in (SOURCE, OFFLINE):
        session = Session.connect(f"{zookeeper.address}/{cluster}", secret=SECRET)
        try:
            assert all(users.credentials_of(session, each) for each in users_of(mirrored=True))
        finally:
            session.close()


def test_what_never_will_be_is_said(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    admission = Admission(Places(tmp_path), Ports(zookeeper=zookeeper.port))
    assert not admission.is_done()
    assert admission.failure.startswith("cannot write users and ACLs into ZooKeeper: ")
    assert "admin.password cannot be read" in admission.failure


def test_zookeeper_is_waited_for(tmp_path: Path) -> None:
    admission = Admission(Places(tmp_path), Ports(zookeeper=1))
    assert (admission.is_done(), admission.failure) == (False, "")
