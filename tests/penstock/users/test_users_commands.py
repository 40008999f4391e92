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

from cluster import users
from cluster.identity import cluster_id
from cluster.session import Session
from cluster.zookeeper import EmbeddedZooKeeper
from ground.administration import read_entry
from harness.certificates import Authority
from harness.made_secrets import made_secret
from harness.secured_zookeeper import SecuredZooKeeper
from tests.penstock.running import At, penstock

SECRET = made_secret("s3")
PASSWORD = made_secret("pass word")
TYPED = f"{PASSWORD}\n".encode()


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
    assert at.output("users", "add", name, "--password-file", password_file) == f"added {name}\n"
    (found,) = [each for each in at.json("users", "list") if each["name"] == name]
    assert found["mechanisms"] == {"SCRAM-SHA-256": 16384, "SCRAM-SHA-512": 16384}
    (row,) = [line for line in at.output("users", "list").splitlines() if line.startswith(name)]
    assert row.split() == [name, "SCRAM-SHA-256,", "SCRAM-SHA-512", "16384"]

    twice = at.run("users", "add", name, "--password-file", password_file)
    assert twice.returncode == 1
    assert f"there is a user {name} already" in twice.stderr
    options = ["--password-file", password_file, "--iterations", "4096"]
    assert at.json("users", "password", name, *options) == {"changed": name}
    (found,) = [each for each in at.json("users", "list") if each["name"] == name]
    assert set(found["mechanisms"].values()) == {4096}

    asked = at.run("users", "remove", name)
    assert (asked.returncode, "say --yes" in asked.stderr) == (2, True)
    assert at.output("users", "remove", name, "--yes") == f"removed {name}\n"
    for command in (["password", name, "--password-file", password_file], ["remove", name, "-y"]):
        gone = at.run("users", *command)
        assert gone.returncode == 1
        assert f"there is no user {name}" in gone.stderr


def test_a_password_that_is_made_up(at: At, name: str, tmp_path: Path) -> None:
    made = tmp_path / "made.password"
    said = at.output("users", "add", name, "--generate", str(made))
    password = made.read_text()
    assert said == f"added {name}\n"
    assert len(password) == 33
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    # A file that is there is never overwritten.
    again = at.run("users", "password", name, "--generate", str(made))
    assert again.returncode == 1
    assert "file exists" in again.stderr
    assert made.read_text() == password


def test_what_was_made_for_nothing_is_gone(at: At, tmp_path: Path) -> None:
    made = tmp_path / "made.password"
    refused = at.run("users", "add", "x" * 200, "--generate", str(made))
    assert refused.returncode == 1
    assert "200 characters" in refused.stderr
    assert not made.exists()


@pytest.mark.parametrize(
    ("typed", "code"),
    [((TYPED, TYPED), 0), ((TYPED, b"other\n", b"\x03"), 130)],
)
def test_on_a_terminal_it_is_asked_for_and_not_shown(
    at: At, name: str, typed: tuple[bytes, ...], code: int
) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, at.arguments("users", "add", name))
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
        ([], 2, "say --password-file or --generate"),
        (["--password-file", "{file}", "--generate", "{file}2"], 2, "exclude each other"),
        (["--password-file", "{file}3"], 1, "no such file"),
        (["--password-file", "/dev/null"], 1, "is empty"),
        (["--password-file", "{file}", "--iterations", "100"], 2, "4096"),
        (["--zookeeper-secret-file", "{file}"], 2, "needs --zookeeper"),
        (["--administration-log", "{file}"], 2, "needs --zookeeper"),
    ],
)
def test_wrong_usage(at: At, password_file: str, options: list[str], code: int, said: str) -> None:
    name = "nobody"
    given = [each.replace("{file}", password_file) for each in options]
    ended = at.run("users", "add", name, *given)
    assert ended.returncode == code
    assert said in ended.stderr
    assert ended.stdout == ""
    assert name not in {each["name"] for each in at.json("users", "list")}


def test_the_first_user_goes_into_zookeeper(
    session: Session, chroot: str, tmp_path: Path, password_file: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    log = tmp_path / "administration.log"
    place = ["--zookeeper", chroot, "--zookeeper-secret-file", str(secret)]
    place += ["--administration-log", str(log)]
    added = penstock("users", "add", "admin", "--password-file", password_file, *place)
    assert (added.returncode, added.stdout, added.stderr) == (0, "added admin\n", "")
    kept = users.credentials_of(session, "admin")
    assert len(kept) == 2
    assert all(each.matches(PASSWORD) for each in kept.values())
    listed = penstock("users", "list", *place)
    assert listed.stdout.splitlines()[1].split()[0] == "admin"
    removed = penstock("users", "remove", "admin", "-y", *place)
    assert removed.returncode == 0
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
    assert ended.returncode == 1
    assert "another secret" in ended.stderr


def test_where_no_broker_was_nothing_is_made_that_is_open_to_all(
    zookeeper: EmbeddedZooKeeper, password_file: str
) -> None:
    place = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    ended = penstock("users", "add", "a", "--password-file", password_file, "--zookeeper", place)
    assert ended.returncode == 1
    assert "no broker has used ZooKeeper" in ended.stderr
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
        assert refused.returncode == 1
        assert "it speaks TLS at this port" in refused.stderr
        place += ["--zookeeper-security", str(security)]
        added = penstock("users", "add", "admin", "--password-file", password_file, *place)
        assert (added.returncode, added.stdout, added.stderr) == (0, "added admin\n", "")
        assert "admin" in penstock("users", "list", *place).stdout
    alone = penstock("users", "list", "--zookeeper-security", str(security))
    assert (alone.returncode, "needs --zookeeper" in alone.stderr) == (2, True)
