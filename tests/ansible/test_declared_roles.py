"""The roles topics, acls, users and schemas, over a broker and a registry of ours: applied, applied
again, changed, shown and refused."""

import json
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.zookeeper import EmbeddedZooKeeper
from harness.ansible_tools import REPOSITORY, Played
from harness.broker_process import BrokerProcess
from harness.made_secrets import made_secret
from harness.registry_process import RegistryProcess
from harness.secured_broker import SecuredBroker
from tests.ansible.conftest import Play
from tests.penstock.running import At, penstock

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


def test_topics(played: Play, broker: BrokerProcess, program: str) -> None:
    at = At(broker.bootstrap)
    there = {"penstock_topics_program": program, "penstock_topics_brokers": [broker.bootstrap]}
    views: dict[str, Any] = {"name": "views", "partitions": 2, "configs": {"retention.ms": 7200000}}

    shown = played("topics", "--check", "--diff", penstock_topics=[views], **there)
    assert outcomes(shown) == {"views": "new"}
    assert '\\"retention.ms\\": \\"7200000\\"' in json.dumps(json.loads(shown.diff)[0]["after"])
    assert at.json("topics", "list") == []

    assert outcomes(played("topics", penstock_topics=[views], **there)) == {"views": "new"}
    again = played("topics", penstock_topics=[views], **there)
    assert (again.code, again.changed) == (0, [])

    more = {**views, "partitions": 4, "configs": {}}
    changed = played("topics", "--diff", penstock_topics=[more, {"name": "clicks"}], **there)
    assert outcomes(changed) == {"views": "changed", "clicks": "new"}
    assert changed.changed == ["Topics as they are declared"]
    (diff,) = json.loads(changed.diff)
    assert ('"partitions": 2' in diff["before"], '"partitions": 4' in diff["after"]) == (True, True)

    refused = played("topics", penstock_topics=[{"name": "third"}, {**views}], **there)
    assert refused.code == 2
    assert "nothing was changed: views: a topic never has fewer partitions" in refused.failure
    assert [each["name"] for each in at.json("topics", "list")] == ["clicks", "views"]

    gone = played("topics", penstock_topics=[more], penstock_topics_exact=True, **there)
    assert outcomes(gone) == {"views": "changed", "clicks": "deleted"}
    wrong = played("topics", penstock_topics=[{"name": "x", "partition": 1}], **there)
    assert wrong.code == 2


def test_acls(played: Play, broker: BrokerProcess, program: str) -> None:
    at = At(broker.bootstrap)
    there = {"penstock_acls_program": program, "penstock_acls_brokers": [broker.bootstrap]}
    agents = {"principal": "agent", "producer": True, "topics": ["views"]}
    denied = {"principal": "*", "operations": ["delete"], "topics": ["views"], "deny": True}
    rules = [agents, denied]
    assert set(outcomes(played("acls", "--check", penstock_acls=rules, **there)).values()) == {
        "new"
    }
    assert at.json("acls", "list") == []
    assert len(outcomes(played("acls", penstock_acls=rules, **there))) == 4
    again = played("acls", penstock_acls=rules, **there)
    assert (again.code, again.changed) == (0, [])
    rules = [agents, {**denied, "state": "absent"}]
    assert "deleted" in outcomes(played("acls", penstock_acls=rules, **there)).values()
    assert {each["permission"] for each in at.json("acls", "list")} == {"Allow"}
    wrong = played("acls", penstock_acls=[{"principal": "x", "operations": ["read"]}], **there)
    assert (wrong.code, "acls[0]: on what?" in wrong.failure) == (2, True)


def test_schemas(
    played: Play, running_registry: RegistryProcess, program: str, tmp_path: Path
) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    folder = tmp_path / "schemas" / "shop"
    folder.mkdir(parents=True)
    assert penstock("schemas", "new", topic, "--dir", str(folder)).returncode == 0
    file = folder / f"{topic}-value.avsc"
    there = {
        "penstock_schemas_program": program,
        "penstock_schemas_registry": running_registry.url,
        "penstock_schemas_dir": str(tmp_path / "schemas"),
    }
    assert outcomes(played("schemas", "--check", "--diff", **there)) == {f"{topic}-value": "new"}
    assert running_registry.ask("GET", f"/subjects/{topic}-value/versions").status == 404
    assert outcomes(played("schemas", **there)) == {f"{topic}-value": "new"}
    again = played("schemas", **there)
    assert (again.code, again.changed) == (0, [])

    schema = json.loads(file.read_text())
    schema["fields"].append({"name": "added", "type": "long"})
    file.write_text(json.dumps(schema))
    refused = played("schemas", **there)
    assert refused.code == 2
    assert "nothing was changed" in refused.failure
    assert "added" in refused.failure

    schema["fields"][-1]["default"] = 0
    file.write_text(json.dumps(schema))
    (tmp_path / "schemas" / "schemas.yaml").write_text("compatibility: FULL\n")
    shown = played("schemas", "--check", "--diff", **there)
    assert outcomes(shown) == {f"{topic}-value": "changed"}
    assert ("FULL" in shown.diff, "added" in shown.diff) == (True, True)
    assert outcomes(played("schemas", **there)) == {f"{topic}-value": "changed"}
    del there["penstock_schemas_dir"]
    gone = played("schemas", penstock_schemas_absent=[f"{topic}-value", "nobodys"], **there)
    assert outcomes(gone) == {f"{topic}-value": "deleted", "nobodys": "unchanged"}
    (tmp_path / "schemas" / "x.avsc").symlink_to("/etc/hostname")
    there["penstock_schemas_dir"] = str(tmp_path / "schemas")
    assert "a link that leads out" in played("schemas", **there).failure


def test_users(
    played: Play, tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str, program: str
) -> None:
    """Passwords are made up, kept on the controller, tried at the broker, and exchanged."""
    with SecuredBroker(tmp_path / "secured", zookeeper=chroot) as secured:
        login = {
            "mechanism": "SCRAM-SHA-512",
            "user": "alice",
            "password_file": str(secured.directory / "alice.password"),
        }
        kept = tmp_path / "passwords"
        there: dict[str, Any] = {
            "penstock_users_program": program,
            "penstock_users_brokers": [f"127.0.0.1:{secured.locked}"],
            "penstock_users_security": {
                "tls": {"ca": str(secured.authority.ca)},
                "login": login,
            },
            "penstock_users_dir": str(kept),
        }
        users: list[dict[str, Any]] = [{"name": "web"}, {"name": "vault", "password": PASSWORD}]
        shown = played("users", "--check", "--diff", penstock_users=users, **there)
        assert outcomes(shown) == {"web": "new", "vault": "new"}
        assert not kept.exists()
        made = played("users", "-vvv", "--diff", penstock_users=users, **there)
        assert outcomes(made) == {"web": "new", "vault": "new"}
        file = kept / "web.password"
        assert [each.name for each in kept.iterdir()] == ["web.password"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        first = file.read_text().strip()
        assert first not in made.said
        again = played("users", penstock_users=users, **there)
        assert (again.code, again.changed) == (0, [])

        rotated = played("users", penstock_users=users, penstock_users_rotate=["web"], **there)
        assert outcomes(rotated) == {"web": "changed", "vault": "unchanged"}
        second = file.read_text().strip()
        assert second not in {first, ""}
        # What is set by hand is found out by trying it.
        file.write_text(first)
        assert outcomes(played("users", penstock_users=users, **there))["web"] == "changed"
        # Interrupted before the cluster had it: the same password, again.
        (kept / "web.password.next").write_text(second)
        assert outcomes(played("users", penstock_users=users, **there))["web"] == "changed"
        assert [each.read_text() for each in kept.iterdir()] == [second]

        # Somebody who is there, and whose password nobody has here, is not locked out.
        strangers = [{"name": "bob"}, {"name": "fourth"}]
        refused = played("users", penstock_users=strangers, **there)
        assert refused.code == 2
        assert "bob: there is such a user, whose password is not here" in refused.failure
        assert not (kept / "bob.password.next").exists()
        gone = [*users, {"name": "bob", "state": "absent"}, {"name": "../x"}]
        assert "none can be kept in a file" in played("users", penstock_users=gone, **there).failure
        assert outcomes(played("users", penstock_users=gone[:3], **there))["bob"] == "deleted"
        names = {each["name"] for each in listed(secured, login, tmp_path)}
        assert names == {"alice", "broker", "web", "vault"}


def listed(secured: SecuredBroker, login: dict[str, str], folder: Path) -> Any:
    security = folder / "security.yaml"
    security.write_text(yaml.safe_dump({"tls": {"ca": str(secured.authority.ca)}, "login": login}))
    at = At(f"127.0.0.1:{secured.locked}")
    return at.json("users", "list", "--security", str(security))
