"""The roles topics, acls, users and schemas, over a broker and a registry of ours: shown, applied,
applied again, changed and refused."""

import json
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.hosts.ansible_tools import REPOSITORY, Played
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.penstock.secured_broker import SecuredBroker
from tests.ansible.conftest import Steps
from tests.penstock.running import At, penstock

pytestmark = pytest.mark.long

PASSWORD = made_secret("of a vault")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`penstock` as a release has it, of this repository."""
    path = tmp_path_factory.mktemp("bin") / "penstock"
    path.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{REPOSITORY}"\nexec {sys.executable} -m penstock "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"),
        zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}",
        settings={"authorization": {"super_users": ["User:ANONYMOUS"]}},
    ) as running:
        yield running


def outcomes(played: Played) -> dict[str, str]:
    assert played.code == 0, played.said
    found = [result["items"] for _, result in played.tasks if "items" in result]
    return {each["name"]: each["outcome"] for items in found for each in items}


def test_topics(played: Steps, broker: BrokerProcess, program: str) -> None:
    views = {"name": "views", "partitions": 2, "configs": {"retention.ms": 7200000}}
    more = {**views, "partitions": 4, "configs": {}}
    shown, first, again, changed, refused, gone, wrong = played(
        "topics",
        {"penstock_topics": [views], "check": True},
        {"penstock_topics": [views]},
        {"penstock_topics": [views]},
        {"penstock_topics": [more, {"name": "clicks"}]},
        {"penstock_topics": [{"name": "third"}, views]},
        {"penstock_topics": [more], "penstock_topics_exact": True},
        {"penstock_topics": [{"name": "x", "partition": 1}]},
        penstock_topics_program=program,
        penstock_topics_brokers=[broker.bootstrap],
    )
    assert outcomes(shown) == {"views": "new"}
    assert '\\"retention.ms\\": \\"7200000\\"' in json.dumps(json.loads(shown.diff)[0]["after"])
    assert outcomes(first) == {"views": "new"}  # so nothing was made when it was only shown
    assert (again.code, again.changed) == (0, [])

    assert outcomes(changed) == {"views": "changed", "clicks": "new"}
    assert changed.changed == ["Apply the declared topics"]
    (diff,) = json.loads(changed.diff)
    assert ('"partitions": 2' in diff["before"], '"partitions": 4' in diff["after"]) == (True, True)

    assert refused.code == 2
    assert "nothing was changed: views: a topic never has fewer partitions" in refused.failure
    # Nor was the third one made: it would be deleted now.
    assert outcomes(gone) == {"views": "changed", "clicks": "deleted"}
    assert (wrong.code, "partition" in wrong.failure) == (2, True)


def test_acls(played: Steps, broker: BrokerProcess, program: str) -> None:
    agents = {"principal": "agent", "producer": True, "topics": ["views"]}
    denied = {"principal": "*", "operations": ["delete"], "topics": ["views"], "deny": True}
    shown, first, again, changed, wrong = played(
        "acls",
        {"penstock_acls": [agents, denied], "check": True},
        {"penstock_acls": [agents, denied]},
        {"penstock_acls": [agents, denied]},
        {"penstock_acls": [agents, {**denied, "state": "absent"}]},
        {"penstock_acls": [{"principal": "x", "operations": ["read"]}]},
        penstock_acls_program=program,
        penstock_acls_brokers=[broker.bootstrap],
    )
    assert set(outcomes(shown).values()) == {"new"}
    assert list(outcomes(first).values()) == ["new"] * 4  # so nothing was there yet
    assert (again.code, again.changed) == (0, [])
    assert "deleted" in outcomes(changed).values()
    assert (wrong.code, "acls[0]: no resource" in wrong.failure) == (2, True)
    listed = At(broker.bootstrap).json("acls", "list")
    assert {each["permission"] for each in listed} == {"Allow"}


def test_schemas(
    played: Steps, running_registry: RegistryProcess, program: str, tmp_path: Path
) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    subject = f"{topic}-value"
    folders = [tmp_path / name for name in ("first", "incompatible", "changed")]
    first_folder, incompatible, changed_folder = folders
    for folder in folders:
        (folder / "shop").mkdir(parents=True)
    assert penstock("schemas", "new", topic, "--dir", f"{first_folder}/shop").returncode == 0
    schema = json.loads((first_folder / f"shop/{subject}.avsc").read_text())
    schema["fields"].append({"name": "added", "type": "long"})
    (incompatible / f"shop/{subject}.avsc").write_text(json.dumps(schema))
    schema["fields"][-1]["default"] = 0
    (changed_folder / f"shop/{subject}.avsc").write_text(json.dumps(schema))
    (changed_folder / "schemas.yaml").write_text("compatibility: FULL\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.avsc").symlink_to("/etc/hostname")

    shown, first, again, refused, shown_change, changed, gone, linked = played(
        "schemas",
        {"penstock_schemas_dir": str(first_folder), "check": True},
        {"penstock_schemas_dir": str(first_folder)},
        {"penstock_schemas_dir": str(first_folder)},
        {"penstock_schemas_dir": str(incompatible)},
        {"penstock_schemas_dir": str(changed_folder), "check": True},
        {"penstock_schemas_dir": str(changed_folder)},
        {"penstock_schemas_absent": [subject, "nobodys"]},
        {"penstock_schemas_dir": str(outside)},
        penstock_schemas_program=program,
        penstock_schemas_registry=running_registry.url,
    )
    assert outcomes(shown) == {subject: "new"}
    assert outcomes(first) == {subject: "new"}  # so nothing was registered when it was only shown
    assert (again.code, again.changed) == (0, [])
    assert refused.code == 2
    assert "nothing was changed" in refused.failure
    assert "added" in refused.failure
    assert outcomes(shown_change) == {subject: "changed"}
    assert ("FULL" in shown_change.diff, "added" in shown_change.diff) == (True, True)
    assert outcomes(changed) == {subject: "changed"}
    assert outcomes(gone) == {subject: "deleted", "nobodys": "unchanged"}
    assert "target is outside the folder" in linked.failure


def test_users(
    played: Steps, tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str, program: str
) -> None:
    """Passwords are made up, kept on the controller, tried at the broker, and exchanged."""
    kept = tmp_path / "passwords"
    file, first, second = kept / "web.password", tmp_path / "first", tmp_path / "second"
    web, vault = {"name": "web"}, {"name": "vault", "password": PASSWORD}
    bob = {"name": "bob", "state": "absent"}
    users = {"penstock_users": [web, vault]}
    with SecuredBroker(tmp_path / "secured", zookeeper=chroot) as secured:
        login = {
            "mechanism": "SCRAM-SHA-512",
            "user": "alice",
            "password_file": str(secured.directory / "alice.password"),
        }
        security = {"tls": {"ca": str(secured.authority.ca)}, "login": login}
        shown, made, again, rotated, by_hand, interrupted, refused, unkept, gone = played(
            "users",
            {**users, "check": True},
            {**users, "before": f"test ! -e {kept}"},
            users,
            {**users, "penstock_users_rotate": ["web"], "before": f"cp -p {file} {first}"},
            # What is set by hand is found out by trying it.
            {**users, "before": f"cp {file} {second}; cp {first} {file}"},
            # Interrupted before the cluster had it: the same password, again.
            {**users, "before": f"cp {second} {file}.next"},
            # Somebody who is there, and whose password nobody has here, is not locked out.
            {"penstock_users": [{"name": "bob"}, {"name": "fourth"}]},
            {"penstock_users": [web, vault, bob, {"name": "../x"}]},
            {"penstock_users": [web, vault, bob]},
            penstock_users_program=program,
            penstock_users_brokers=[f"127.0.0.1:{secured.locked}"],
            penstock_users_security=security,
            penstock_users_dir=str(kept),
        )
        file_of_security = tmp_path / "security.yaml"
        file_of_security.write_text(yaml.safe_dump(security))
        at = At(f"127.0.0.1:{secured.locked}")
        listed = at.json("users", "list", "--security", str(file_of_security))
    assert outcomes(shown) == {"web": "new", "vault": "new"}
    assert outcomes(made) == {"web": "new", "vault": "new"}
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert (again.code, again.changed) == (0, [])
    assert outcomes(rotated) == {"web": "changed", "vault": "unchanged"}
    passwords = [each.read_text().strip() for each in (first, second)]
    assert len({*passwords, ""}) == 3
    assert not any(each in made.said for each in passwords)
    assert outcomes(by_hand)["web"] == "changed"
    assert outcomes(interrupted)["web"] == "changed"
    assert refused.code == 2
    assert "bob: the user exists, with a password that is not in this file" in refused.failure
    assert "set penstock_users_dir, or" in unkept.failure
    assert outcomes(gone)["bob"] == "deleted"
    # The fourth one's is kept for the next run; bob's is not.
    assert {each.name for each in kept.iterdir()} == {"web.password", "fourth.password.next"}
    assert file.read_text() == second.read_text()
    assert {each["name"] for each in listed} == {"alice", "broker", "web", "vault"}
