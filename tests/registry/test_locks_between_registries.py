"""Writes that are passed on between registries behind locks: for whom, and by whom."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.administration.entries import OK, read_entry
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.registry.locked import SCHEMA, Locks, ask, log_of


class Pair:
    """Two registries of one topic."""

    def __init__(
        self, directory: Path, broker: BrokerProcess, zookeeper: EmbeddedZooKeeper
    ) -> None:
        self.locks = Locks(directory / "locks")
        path = self.locks.directory / "peers-password"
        path.write_text(made_secret("peer"))
        self.password = path
        topic, chroot = f"_schemas_{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
        peer = {"user": "peer", "password_file": str(path)}
        settings = {
            "topic": topic,
            "registries": ["peer"],
            "forwarding_security": {"tls": {"ca": str(self.locks.authority.ca)}, **peer},
            "patience": {"forward": 2},
        }
        self.both = [
            self.locks.registry(
                directory / name,
                broker.bootstrap,
                zookeeper=f"{zookeeper.address}/{chroot}",
                settings={
                    **settings,
                    "administration_log": {"file": str(directory / name / "administration.log")},
                },
            )
            for name in ("a", "b")
        ]

    @property
    def roles(self) -> tuple[RegistryProcess, RegistryProcess]:
        """Who writes, and who passes on."""
        wait_until(lambda: any(each.is_writer for each in self.both), within=60, what="a writer")
        writer, other = sorted(self.both, key=lambda each: not each.is_writer)
        return writer, other


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
    running_broker: BrokerProcess,
    zookeeper: EmbeddedZooKeeper,
) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), running_broker, zookeeper)
    with made.both[0], made.both[1]:
        yield made


def test_a_write_is_passed_on_for_who_asked(pair: Pair) -> None:
    writer, other = pair.roles
    alice = pair.locks.login("alice")
    before = log_of(writer)
    assert ask(other, alice, "POST", "/subjects/pay-passed-on/versions", SCHEMA)[0] == 200
    said = log_of(writer)[len(before) :]
    assert "/subjects/pay-passed-on/versions" in said
    assert "principal='alice'" in said
    assert ask(other, alice, "POST", "/subjects/secret/versions", SCHEMA)[0] == 403
    # It is remembered where she asked.
    for entry in (("alice", "pay-passed-on", OK), ("alice", "secret", "40301")):
        wait_until(lambda entry=entry: entry in remembered(other), within=30, what=str(entry))
    assert "pay-passed-on" not in {subject for _, subject, _ in remembered(writer)}


def remembered(registry: RegistryProcess) -> list[tuple[str, str, str]]:
    """By whom, about which subject, and what came of it."""
    log = registry.config.parent / "administration.log"
    entries = [read_entry(line) for line in log.read_bytes().splitlines()]
    return [(each.principal, each.name, each.result) for each in entries]


@pytest.mark.parametrize(
    ("principal", "subject", "status", "code"),
    [
        ("alice", "pay-direct", 200, None),
        ("alice", "secret", 403, 40301),
        ("nobody", "pay-direct", 403, 40301),
        ("", "pay-direct", 403, 40302),
        ("x" * 2_000, "pay-direct", 403, 40302),
    ],
)
def test_the_writer_asks_again_what_somebody_may(
    pair: Pair, principal: str, subject: str, status: int, code: int | None
) -> None:
    writer, _ = pair.roles
    headers = {"penstock-forwarded": "1", "penstock-principal": quote(principal)}
    path = f"/subjects/{subject}/versions"
    answer = ask(writer, pair.locks.login("peer"), "POST", path, SCHEMA, **headers)
    assert (answer[0], answer[1].get("error_code")) == (status, code)


def test_nobody_else_is_taken_for_a_registry(pair: Pair) -> None:
    writer, other = pair.roles
    headers = {"penstock-forwarded": "1", "penstock-principal": "root"}
    for registry in (writer, other):
        for access in (pair.locks.login("alice"), pair.locks.certificate, pair.locks.token()):
            answer = ask(registry, access, "POST", "/subjects/forged/versions", SCHEMA, **headers)
            assert (answer[0], answer[1]["error_code"]) == (403, 40302)
    root = pair.locks.login("root")
    assert ask(writer, root, "GET", "/subjects/forged/versions")[0] == 404


def test_a_client_is_not_blamed_for_the_login_of_its_registry(pair: Pair) -> None:
    _, other = pair.roles
    pair.password.write_text("wrong")
    try:
        path = "/subjects/pay-not-passed/versions"
        status, answer = ask(other, pair.locks.login("alice"), "POST", path, SCHEMA)
    finally:
        pair.password.write_text(made_secret("peer"))
    assert (status, answer["error_code"]) == (500, 50003)
    assert "forwarding_security" in log_of(other)
    assert "wrong" not in log_of(other)
