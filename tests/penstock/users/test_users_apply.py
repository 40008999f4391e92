"""`penstock users apply`, against a broker without logins, and against one that has them."""

import uuid
from pathlib import Path

import pytest
import yaml

from cluster.zookeeper import EmbeddedZooKeeper
from harness.made_secrets import made_secret
from harness.secured_broker import SecuredBroker
from penstock.users.apply import DeclaredUser, plan_of
from tests.penstock.declared import Declared
from tests.penstock.running import At

FIRST, SECOND = made_secret("first pass"), made_secret("second pass")


@pytest.fixture
def users(at: At, tmp_path: Path) -> Declared:
    (tmp_path / "a.password").write_text(f"{FIRST}\n")
    return Declared(at, "users", tmp_path)


@pytest.fixture
def name() -> str:
    return f"u{uuid.uuid4().hex[:10]}"


def test_users_become_what_is_declared(users: Declared, name: str) -> None:
    user = {"name": name, "password_file": "a.password"}
    assert users.dry(user) == {name: "new"}
    assert users.apply({**user, "only_new": True}) == {name: "new"}
    assert users.apply(user) == {name: "unchanged"}
    # Where nobody can log in, a password is not tried.
    assert users.apply(user, options=("--check-logins",)) == {name: "unchanged"}
    assert users.apply({**user, "renew": True}) == {name: "changed"}
    assert users.apply({**user, "iterations": 4096}) == {name: "changed"}
    assert users.apply({**user, "iterations": 4096}) == {name: "unchanged"}
    said, _ = users.refused({**user, "only_new": True})
    assert "whose password is not here" in said["users"][0]["reasons"][0]
    assert users.apply({"name": name, "state": "absent"}) == {name: "deleted"}
    assert users.apply({"name": name, "state": "absent"}) == {name: "unchanged"}
    said, line = users.refused({"name": name}, code=2)
    assert "needs a password_file" in line
    said, line = users.refused({"name": name, "password_file": "nowhere"})
    assert "nowhere cannot be read" in line
    assert said["users"][0]["applied"] is False


def test_passwords_are_tried(tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    with SecuredBroker(tmp_path / "secured", zookeeper=chroot) as secured:
        folder = secured.directory
        security = tmp_path / "security.yaml"
        security.write_text(
            yaml.safe_dump(
                {
                    "tls": {"ca": str(secured.authority.ca)},
                    "login": {
                        "mechanism": "SCRAM-SHA-512",
                        "user": "alice",
                        "password_file": str(folder / "alice.password"),
                    },
                }
            )
        )
        users = Declared(At(f"127.0.0.1:{secured.locked}"), "users", tmp_path)
        options = ("--check-logins", "--security", str(security))
        (tmp_path / "carol").write_text(FIRST)
        entries = (
            {"name": "bob", "password_file": str(folder / "bob.password")},
            {"name": "carol", "password_file": "carol"},
        )
        assert users.apply(*entries, options=options) == {"bob": "unchanged", "carol": "new"}
        assert users.apply(*entries, options=options) == {"bob": "unchanged", "carol": "unchanged"}
        (tmp_path / "carol").write_text(SECOND)
        assert users.dry(*entries, options=options) == {"bob": "unchanged", "carol": "changed"}
        assert users.apply(*entries, options=options) == {"bob": "unchanged", "carol": "changed"}
        assert users.apply(*entries, options=options) == {"bob": "unchanged", "carol": "unchanged"}


def test_a_plan_shows_no_password() -> None:
    plan = plan_of(DeclaredUser(name="alice", password_file="alice.password"), None)
    assert plan.after == {
        "iterations": {"SCRAM-SHA-256": 16384, "SCRAM-SHA-512": 16384},
        "password": "set anew",
    }
