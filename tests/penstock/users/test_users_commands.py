"""`penstock users`, against a running broker and its ZooKeeper."""

import getpass
import os
import pty
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from cluster.records import users
from cluster.records.identity import cluster_id
from cluster.session.session import Session
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.administration.entries import read_entry
from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.penstock.secured_broker import SecuredBroker
from harness.penstock.secured_zookeeper import SecuredZooKeeper
from penstock.users.apply import DeclaredUser, plan_of
from tests.penstock.declared import Declared
from tests.penstock.running import PENSTOCK, At, penstock

SECRET = made_secret("s3")
PASSWORD = made_secret("pass word")
TYPED = f"{PASSWORD}\n".encode()
FIRST, SECOND = made_secret("first pass"), made_secret("second pass")


@pytest.fixture
def name() -> str:
    return f"u{uuid.uuid4().hex[:10]}"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "a.password"
    path.write_text(f"{PASSWORD}\n")
    return str(path)


@pytest.fixture
def session(chroot: str) -> Iterator[Session]:
    opened = Session.connect(chroot, secret=SECRET)
    yield opened
    opened.close()


def test_the_life_of_a_user(at: At, name: str, password_file: str) -> None:
    given = ("--password-file", password_file)
    assert at.output("users", "add", name, *given) == f"added {name}\n"
    (found,) = [each for each in at.json("users", "list") if each["name"] == name]
    assert found["mechanisms"] == {"SCRAM-SHA-256": 16384, "SCRAM-SHA-512": 16384}
    (row,) = [line for line in at.output("users", "list").splitlines() if line.startswith(name)]
    assert row.split() == [name, "SCRAM-SHA-256,", "SCRAM-SHA-512", "16384"]
    assert f"user {name} exists" in at.refused("users", "add", name, *given)
    changed = at.json("users", "password", name, *given, "--iterations", "4096")
    assert changed == {"changed": name}
    (found,) = [each for each in at.json("users", "list") if each["name"] == name]
    assert set(found["mechanisms"].values()) == {4096}
    assert "pass --yes" in at.refused("users", "remove", name, code=2)
    assert at.output("users", "remove", name, "--yes") == f"removed {name}\n"
    for command in (["password", name, *given], ["remove", name, "-y"]):
        assert f"there is no user {name}" in at.refused("users", *command)


def test_a_password_that_is_made_up(at: At, name: str, tmp_path: Path) -> None:
    made = tmp_path / "made.password"
    assert at.output("users", "add", name, "--generate", str(made)) == f"added {name}\n"
    password = made.read_text()
    assert len(password) == 33
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    # A file that is there is never overwritten.
    assert "file exists" in at.refused("users", "password", name, "--generate", str(made))
    assert made.read_text() == password
    unused = tmp_path / "unused.password"
    assert "200 characters" in at.refused("users", "add", "x" * 200, "--generate", str(unused))
    assert not unused.exists()


@pytest.mark.parametrize(
    ("typed", "code"), [((TYPED, TYPED), 0), ((TYPED, b"other\n", b"\x03"), 130)]
)
def test_on_a_terminal_it_is_asked_for_and_not_shown(
    at: At, name: str, typed: tuple[bytes, ...], code: int
) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*PENSTOCK, *at.arguments("users", "add", name)])
    shown = b""
    for word in typed:
        asked = shown.count(b": ")
        while shown.count(b": ") == asked:  # what is typed before that is thrown away
            shown += os.read(terminal, 1_000)
        os.write(terminal, word)
    with suppress(OSError):  # Linux's way to say that the other side is closed
        while more := os.read(terminal, 1_000):
            shown += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code, shown
    assert f"password of {name}: ".encode() in shown
    assert TYPED.strip() not in shown
    assert (name in {each["name"] for each in at.json("users", "list")}) == (code == 0)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "pass --password-file or --generate"),
        (["--password-file", "{file}", "--generate", "{file}2"], 2, "exclude each other"),
        (["--password-file", "{file}3"], 1, "no such file"),
        (["--password-file", "/dev/null"], 1, "is empty"),
        (["--password-file", "{file}", "--iterations", "100"], 2, "4096"),
        (["--zookeeper-secret-file", "{file}"], 2, "needs --zookeeper"),
        (["--administration-log", "{file}"], 2, "needs --zookeeper"),
    ],
)
def test_wrong_usage(at: At, password_file: str, options: list[str], code: int, said: str) -> None:
    given = [each.replace("{file}", password_file) for each in options]
    assert said in at.refused("users", "add", "nobody", *given, code=code)
    assert "nobody" not in {each["name"] for each in at.json("users", "list")}


def test_the_first_user_goes_into_zookeeper(
    session: Session, chroot: str, tmp_path: Path, password_file: str
) -> None:
    secret, log = tmp_path / "secret", tmp_path / "administration.log"
    secret.write_text(f"{SECRET}\n")
    place = ["--zookeeper", chroot, "--zookeeper-secret-file", str(secret)]
    place += ["--administration-log", str(log)]
    added = penstock("users", "add", "admin", "--password-file", password_file, *place)
    assert (added.returncode, added.stdout, added.stderr) == (0, "added admin\n", "")
    kept = users.credentials_of(session, "admin")
    assert len(kept) == 2
    assert all(each.matches(PASSWORD) for each in kept.values())
    listed = penstock("users", "list", *place)
    assert listed.stdout.splitlines()[1].split()[0] == "admin"
    assert penstock("users", "remove", "admin", "-y", *place).returncode == 0
    assert users.all_users(session) == {}
    # No broker knows of it: the command has noted it.
    noted = [read_entry(line) for line in log.read_bytes().splitlines()]
    assert [(each.action, each.kind, each.name) for each in noted] == [
        ("create", "user", "admin"),
        ("delete", "user", "admin"),
    ]
    assert {each.principal for each in noted} == {getpass.getuser()}
    assert "pass word" not in log.read_text()
    assert penstock("users", "list", *place).stderr == "no users\n"


def test_without_the_secret_of_a_guarded_cluster(session: Session, chroot: str) -> None:
    cluster_id(session)
    ended = penstock("users", "list", "--zookeeper", chroot)
    assert (ended.returncode, "another secret" in ended.stderr) == (1, True)


def test_where_no_broker_was_nothing_is_made_that_is_open_to_all(
    zookeeper: EmbeddedZooKeeper, password_file: str
) -> None:
    place = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    ended = penstock("users", "add", "a", "--password-file", password_file, "--zookeeper", place)
    assert (ended.returncode, "no broker has used ZooKeeper" in ended.stderr) == (1, True)
    with_map = Session.connect(place, secret=None, makes_map=False)
    try:
        assert not with_map.exists("/")
    finally:
        with_map.close()


def test_a_zookeeper_that_speaks_tls(tmp_path: Path, password_file: str) -> None:
    authority = Authority(tmp_path / "authority")
    secret, security = tmp_path / "secret", tmp_path / "security.yaml"
    secret.write_text(f"{SECRET}\n")
    security.write_text(f"tls: {{ca: {authority.ca}}}\n")
    with SecuredZooKeeper(tmp_path / "zookeeper", authority) as secured:
        place = ["--zookeeper", secured.tls_address, "--zookeeper-secret-file", str(secret)]
        refused = penstock("users", "list", *place)
        assert (refused.returncode, "it speaks TLS at this port" in refused.stderr) == (1, True)
        place += ["--zookeeper-security", str(security)]
        added = penstock("users", "add", "admin", "--password-file", password_file, *place)
        assert (added.returncode, added.stdout, added.stderr) == (0, "added admin\n", "")
        assert "admin" in penstock("users", "list", *place).stdout
    alone = penstock("users", "list", "--zookeeper-security", str(security))
    assert (alone.returncode, "needs --zookeeper" in alone.stderr) == (2, True)


def test_users_become_what_is_declared(at: At, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.password").write_text(f"{FIRST}\n")
    declared = Declared(at, "users", tmp_path)
    user = {"name": name, "password_file": "a.password"}
    assert declared.dry(user) == {name: "new"}
    for change, options, outcome in (
        ({"only_new": True}, (), "new"),
        ({}, (), "unchanged"),
        # Where nobody can log in, a password is not tried.
        ({}, ("--check-logins",), "unchanged"),
        ({"renew": True}, (), "changed"),
        ({"iterations": 4096}, (), "changed"),
        ({"iterations": 4096}, (), "unchanged"),
    ):
        assert declared.apply({**user, **change}, options=options) == {name: outcome}, change
    said, _ = declared.refused({**user, "only_new": True})
    assert "with a password that is not in this file" in said["users"][0]["reasons"][0]
    assert declared.apply({"name": name, "state": "absent"}) == {name: "deleted"}
    assert declared.apply({"name": name, "state": "absent"}) == {name: "unchanged"}
    _, line = declared.refused({"name": name}, code=2)
    assert "`password_file` is missing" in line
    said, line = declared.refused({"name": name, "password_file": "nowhere"})
    assert "nowhere cannot be read" in line
    assert said["users"][0]["applied"] is False


def test_passwords_are_tried(tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    with SecuredBroker(tmp_path / "secured", zookeeper=chroot) as secured:
        folder, carol = secured.directory, tmp_path / "carol"
        login = {"mechanism": "SCRAM-SHA-512", "user": "alice"}
        login["password_file"] = str(folder / "alice.password")
        security = tmp_path / "security.yaml"
        tls = {"ca": str(secured.authority.ca)}
        security.write_text(yaml.safe_dump({"tls": tls, "login": login}))
        declared = Declared(At(f"127.0.0.1:{secured.locked}"), "users", tmp_path)
        options = ("--check-logins", "--security", str(security))
        entries = (
            {"name": "bob", "password_file": str(folder / "bob.password")},
            {"name": "carol", "password_file": "carol"},
        )
        carol.write_text(FIRST)
        for outcome in ("new", "unchanged"):
            applied = declared.apply(*entries, options=options)
            assert applied == {"bob": "unchanged", "carol": outcome}
        carol.write_text(SECOND)
        changed = {"bob": "unchanged", "carol": "changed"}
        assert declared.dry(*entries, options=options) == changed
        assert declared.apply(*entries, options=options) == changed
        assert set(declared.apply(*entries, options=options).values()) == {"unchanged"}


def test_a_plan_shows_no_password() -> None:
    plan = plan_of(DeclaredUser(name="alice", password_file="alice.password"), None)
    assert plan.after == {
        "iterations": {"SCRAM-SHA-256": 16384, "SCRAM-SHA-512": 16384},
        "password": "set",
    }
