"""What can fail is checked before anything changes on any host: playbooks that end there."""

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.hosts.ansible_tools import COLLECTION, Played, play
from tests.ansible.conftest import AWAY, HERE

pytestmark = [pytest.mark.long, pytest.mark.not_quick("starts Ansible")]


def played(
    folder: Path, playbook: str, inventory: dict[str, Any], *options: str, **more: Any
) -> Played:
    """Of hosts that are this machine, each with a folder of its own."""
    variables = {
        "penstock_root": f"{folder}/{{{{ inventory_hostname }}}}",
        "penstock_release_dir": f"{folder}/release",
        "penstock_gate_lock": f"{folder}/roll/roll.json",
        "penstock_gate_baseline": f"{folder}/roll/baseline.json",
        "ansible_become": False,
        **more,
    }
    path = COLLECTION / "playbooks" / f"{playbook}.yml"
    ended = play(folder, path, inventory, *options, variables=variables)
    assert ended.code != 0
    # Nothing was written, and the lock was not taken.
    assert ended.changed == []
    assert not (folder / "roll").exists()
    return ended


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_site_tells_all_problems_of_all_servers(ansible: None, tmp_path: Path) -> None:
    old = script(tmp_path / "python", "echo 3 9")
    script(tmp_path / "java8/bin/java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    inventory: dict[str, Any] = {
        "penstock_zookeeper": {
            "hosts": {"zk": {**HERE, "penstock_zookeeper_java_home": f"{tmp_path}/java8"}}
        },
        "penstock_broker": {"hosts": {"b": {**HERE, "penstock_python": old}}},
        "penstock_audit": {"hosts": {"a": {**HERE, "penstock_address": "localhost"}}},
    }
    ended = played(tmp_path, "site", inventory, penstock_release="1.0.0")
    assert f"{old} is Python 3.9, and servers need 3.11 or later" in ended.said
    assert "java is Java 8, and 11 or later is needed: apt install" in ended.said
    peer = "localhost, the address of another server, is 127.0.0.1 here"
    failed = [result for _, result in ended.tasks if result["failed"]]
    assert {each["host"] for each in failed if peer in each["msg"]} == {"zk", "b"}


@pytest.mark.parametrize(
    ("servers", "release", "said"),
    [
        (["broker"], "", "{}/release on the controller has no release: build one"),
        (["broker"], "1.0.0", "release folder {}/release does not exist"),
        ([], "1.0.0", "release folder {}/release does not exist"),
    ],
    ids=["no-version", "no-wheelhouse", "no-agent"],
)
def test_a_missing_release_is_noticed_first(
    ansible: None, tmp_path: Path, servers: list[str], release: str, said: str
) -> None:
    groups = [f"penstock_{name}" for name in (*servers, "agent")]
    inventory = {group: {"hosts": {"one": HERE}} for group in groups}
    variables = {"penstock_release": release} if release else {}
    ended = played(tmp_path, "site", inventory, **variables)
    assert said.format(tmp_path) in ended.said
    assert "rollback" not in ended.said


def test_a_registry_that_is_away_and_a_command_that_is_missing(
    ansible: None, tmp_path: Path
) -> None:
    inventory = {"penstock_registry": {"hosts": {"one": HERE, "away": AWAY}}}
    variables = {
        "penstock_release": "1.0.0",
        "penstock_tls": True,
        "penstock_certificates_penstock": ["/no/penstock"],
        "penstock_certificates_authority": f"{tmp_path}/authority",
    }
    ended = played(tmp_path, "site", inventory, **variables)
    assert "away does not answer, and nothing was changed" in ended.said
    marker = tmp_path / "one" / "releases" / "1.0.0" / "release.json"
    marker.parent.mkdir(parents=True)
    marker.write_text('{"extras": ["registry"]}')
    ended = played(tmp_path, "site", inventory, "--limit", "one", **variables)
    assert "/no/penstock is not on the controller" in ended.said


@pytest.mark.parametrize(
    ("playbook", "group", "told"),
    [
        ("site", "registry", "authority/ca.pem and {0}/secrets/zookeeper-secret"),
        ("agents", "agent", "authority/ca.pem"),
        ("rotate_certificates", "agent", "authority/ca.pem"),
    ],
)
def test_a_controller_that_lost_what_the_cluster_was_installed_with(
    ansible: None, tmp_path: Path, playbook: str, group: str, told: str
) -> None:
    """Of the hosts one is away. Without the key, what is there cannot be renewed either."""
    for path in (
        "web/releases/1.0.0/release.json",
        "etc/tls/ca.pem",
        "etc/secrets/zookeeper-secret",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f'{{"extras": ["{group}"]}}')
    inventory = {
        f"penstock_{group}": {"hosts": {"web": HERE}},
        "penstock_mirror": {"hosts": {"away": AWAY}},
    }
    settings: dict[str, Any] = {
        "penstock_cluster": "dc1",
        "penstock_release": "1.0.0",
        "penstock_tls": True,
        "penstock_config_dir": f"{tmp_path}/etc",
        "penstock_certificates_penstock": ["/bin/true"],
    }
    ended = played(tmp_path, playbook, inventory, "--limit", "web", **settings)
    assert f"web was installed with {tmp_path}/{told}, and".format(tmp_path) in ended.failure
    assert f"--file {tmp_path}/backups/dc1-TIME/controller.tar --directory" in ended.failure
    (tmp_path / "authority").mkdir()
    (tmp_path / "authority/ca.pem").touch()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/zookeeper-secret").touch()
    ended = played(tmp_path, playbook, inventory, "--limit", "web", **settings)
    assert f"authority/ca.key is missing, and is needed to sign {group}-web" in ended.said


def test_a_host_is_not_retired_where_the_audit_cannot_be_told(
    ansible: None, tmp_path: Path
) -> None:
    """Neither is its agent stopped, nor the canary's file made."""
    script(tmp_path / "web" / "bin" / "penstock", 'echo "no audit: $*" >&2; exit 1')
    inventory: dict[str, Any] = {
        "penstock_broker": {"hosts": {"b": HERE}},
        "penstock_audit": {"hosts": {"a": AWAY}},
        "penstock_agent": {"hosts": {"web": {**HERE, "penstock_agent_host": "web.example"}}},
    }
    ended = played(tmp_path, "retire_host", inventory, "-e", "penstock_retired_host=web")
    why = "the retirement of web.example cannot be recorded for the audit: no audit"
    assert why in ended.said
    assert "--dry-run" in ended.said


def test_a_disk_without_room(tmp_path: Path) -> None:
    module = runpy.run_path(str(COLLECTION / "plugins" / "modules" / "requirements.py"))
    said = module["problem_of_room"](f"{tmp_path}/opt/penstock", 1_000_000_000)
    assert said.startswith(f"{tmp_path} has ")
    assert said.endswith("MB free, and the release needs about 1000000000 MB: free some space")
    assert module["problem_of_room"](f"{tmp_path}/opt/penstock", 0) == ""


def test_secrets_are_kept_out_of_git(ansible: None, tmp_path: Path) -> None:
    playbook = COLLECTION / "playbooks" / "gitignore.yml"
    inventory = {"penstock_agent": {"hosts": {"one": AWAY}}}  # no host is asked
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    first = play(tmp_path, playbook, inventory)
    assert (first.code, first.changed) == (0, ["Write .gitignore beside the inventory"]), first.said
    ignored = ["authority/ca.key", "secrets/users/web.password"]
    subprocess.run(["git", "-C", str(tmp_path), "check-ignore", *ignored], check=True)
    assert play(tmp_path, playbook, inventory).changed == []


def test_an_inventory_without_agents_has_no_waves(ansible: None, tmp_path: Path) -> None:
    playbook = COLLECTION / "playbooks" / "agents.yml"
    ended = play(tmp_path, playbook, {"penstock_broker": {"hosts": {"b": HERE}}})
    assert (ended.code, ended.changed) == (0, []), ended.said
