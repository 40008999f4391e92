"""The role for agents and its playbook, on simulated hosts: what changes, starts and stops."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.made_secrets import made_secret
from harness.simulated_hosts import SimulatedHosts, ansible_bin, simulated_hosts, tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(ansible_bin() is None, reason="no ansible-playbook (PENSTOCK_ANSIBLE)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

INPUTS = [{"paths": ["/var/log/syslog"], "topic": "syslog"}]
PLACES = ("etc", "opt", "units")
MOST_TASKS = 5  # on a host that has all of it
SHOP = {"paths": ["/var/log/shop/*.log"], "topic": "clicks", "name": "shop"}
TEAM = """
- hosts: penstock_agent
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: penstock.pipeline.agent
        tasks_from: application
      vars:
        penstock_agent_application: shop
"""


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SimulatedHosts]:
    """One host: each more is seconds in every play."""
    with simulated_hosts(tmp_path, getattr(request, "param", 1)) as hosts:
        hosts.make_release("1.0.0")
        hosts.write_inventory(penstock_agent_inputs=INPUTS, penstock_agents_waves=["100%"])
        yield hosts


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_from_nothing_to_nothing_to_do_and_what_a_change_touches(fleet: SimulatedHosts) -> None:
    first = fleet.names[0]
    said = fleet.play("agents", "--check", "--diff")
    assert (said.code, set(said.changed.values())) == (0, {3}), said.said
    assert tree(fleet.host(first), PLACES) == {}
    assert "+brokers:" in said.said

    said = fleet.play("agents")
    assert (said.code, fleet.starts(first)) == (0, 1), said.said
    there = tree(fleet.host(first), PLACES)
    config = yaml.safe_load(there["etc/agent.yaml"][1])
    assert (config["host"], config["brokers"]) == (first, ["broker-1:9092"])
    assert there["opt/current"][1] == b"releases/1.0.0"

    said = fleet.play("agents")
    assert (said.code, set(said.changed.values())) == (0, {0}), said.said
    # And one that asks once for all of them.
    assert sum(said.ok.values()) <= MOST_TASKS * len(said.ok) + 1
    assert tree(fleet.host(first), PLACES) == there

    # The agent reads its inputs again by itself.
    said = fleet.play("agents", "--diff", penstock_agent_inputs=[*INPUTS, SHOP])
    assert (said.code, fleet.starts(first), set(said.changed.values())) == (0, 1, {1}), said.said
    now = tree(fleet.host(first), PLACES)
    assert {path for path in now if now[path] != there[path]} == {"etc/agent.d/00-inventory.yaml"}

    said = fleet.play("agents", penstock_agent_config={"scan_interval": 2})
    assert (said.code, fleet.starts(first)) == (0, 2), said.said
    assert yaml.safe_load((fleet.host(first) / "etc/agent.yaml").read_text())["scan_interval"] == 2

    said = fleet.play("agents", "--limit", first, penstock_agent_inputs=[])
    assert said.code == 0, said.said
    assert list((fleet.host(first) / "etc/agent.d").iterdir()) == []


def test_what_is_wrong_replaces_nothing(fleet: SimulatedHosts) -> None:
    first = fleet.names[0]
    assert fleet.play("agents").code == 0
    there = tree(fleet.host(first), ("etc", "units"))

    fleet.make_release("2.0.0")
    wrong = fleet.play(
        "agents", penstock_release="2.0.0", penstock_agent_config={"scan_intervall": 2}
    )
    assert wrong.code != 0
    assert "did you mean scan_interval?" in wrong.said
    assert tree(fleet.host(first), ("etc", "units")) == there
    assert str((fleet.host(first) / "opt/current").readlink()) == "releases/1.0.0"

    fleet.make_release("3.0.0", broken="no such symbol")
    wrong = fleet.play("agents", penstock_release="3.0.0")
    assert (wrong.code != 0, "no such symbol" in wrong.said) == (True, True)
    archive = next(fleet.release.glob("*-2.0.0-*"))
    archive.write_bytes(archive.read_bytes()[:-9] + b"123456789")
    shutil.rmtree(fleet.host(first) / "opt/releases/2.0.0")
    wrong = fleet.play("agents", "--limit", first, penstock_release="2.0.0")
    assert "is not what SHA256SUMS" in wrong.said
    assert releases(fleet, first) == ["1.0.0"]
    assert tree(fleet.host(first), ("etc", "units")) == there
    assert fleet.starts(first) == 1


def test_a_release_comes_and_the_one_before_comes_back(fleet: SimulatedHosts) -> None:
    """Also where a run was cut off after the files were there, and before the agent was started."""
    first = fleet.names[0]
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        fleet.make_release(version)
        said = fleet.play("agents", penstock_release=version)
        assert said.code == 0, said.said
    assert fleet.starts(first) == 3
    assert releases(fleet, first) == ["2.0.0", "3.0.0"]

    next(fleet.release.glob("*-2.0.0-*")).unlink()
    cut_off = fleet.play(
        "agents",
        "--limit",
        first,
        penstock_release="2.0.0",
        ansible_python_interpreter=str(cut(fleet, first)),
    )
    assert (cut_off.code != 0, fleet.starts(first)) == (True, 3), cut_off.said
    said = fleet.play("agents", penstock_release="2.0.0")
    assert said.code == 0, said.said
    assert str((fleet.host(first) / "opt/current").readlink()) == "releases/2.0.0"
    assert fleet.starts(first) == 4


def cut(fleet: SimulatedHosts, name: str) -> Path:
    """An interpreter on a host whose systemctl cannot start anything."""
    host = fleet.host(name)
    (host / "cut").mkdir()
    stub = (host / "bin/systemctl").read_text().replace("restart)", "restart) exit 1 ;; never)")
    (host / "cut/systemctl").write_text(stub)
    (host / "cut/systemctl").chmod(0o755)
    path = host / "cut/python"
    path.write_text((host / "python").read_text().replace(f"{host}/bin", f"{host}/cut"))
    path.chmod(0o755)
    return path


def test_a_teams_file(fleet: SimulatedHosts, tmp_path: Path) -> None:
    first = fleet.names[0]
    assert fleet.play("agents").code == 0
    playbook = tmp_path / "team.yml"
    playbook.write_text(TEAM)
    given = {"penstock_agent_application_inputs": [SHOP]}
    said = fleet.play(playbook, "--limit", first, **given)
    assert said.code == 0, said.said
    file = fleet.host(first) / "etc/agent.d/shop.yaml"
    assert yaml.safe_load(file.read_text())["inputs"] == [SHOP]
    again = fleet.play(playbook, "--limit", first, **given)
    assert again.changed[first] == 0, again.said
    assert fleet.starts(first) == 1

    before = file.read_text()
    taken = {**SHOP, "name": "syslog"}
    wrong = fleet.play(
        playbook, "--limit", first, **{**given, "penstock_agent_application_inputs": [taken]}
    )
    assert (wrong.code != 0, file.read_text()) == (True, before)
    assert "two inputs are called syslog" in wrong.said

    gone = fleet.play(
        playbook, "--limit", first, **{**given, "penstock_agent_application_state": "absent"}
    )
    assert (gone.code, file.exists()) == (0, False), gone.said


def releases(fleet: SimulatedHosts, name: str) -> list[str]:
    return sorted(each.name for each in (fleet.host(name) / "opt/releases").iterdir())


def test_no_secret_is_shown(fleet: SimulatedHosts) -> None:
    secret = made_secret("kafka")
    config = {
        "security": {
            "tls": {},
            "login": {
                "mechanism": "SCRAM-SHA-512",
                "user": "agent",
                "password_file": str(fleet.host("{}") / "etc/agent-secrets/kafka").replace(
                    "{}", "{{ inventory_hostname }}"
                ),
            },
        }
    }
    given = {"penstock_agent_inputs": INPUTS, "penstock_agent_config": config}
    fleet.write_inventory(penstock_agent_secrets={"kafka": secret}, **given)
    said = fleet.play("agents", "--diff", "-vvv")
    assert said.code == 0, said.said.replace(secret, "(the secret)")
    path = fleet.host(fleet.names[0]) / "etc/agent-secrets/kafka"
    assert (path.read_text(), path.stat().st_mode & 0o777) == (f"{secret}\n", 0o640)
    assert secret not in said.said
    fleet.write_inventory(penstock_agent_secrets={"../kafka": secret}, **given)
    refused = fleet.play("agents", "-vvv")
    assert (refused.code != 0, secret in refused.said) == (True, False)


def test_a_roll_stops_after_too_many_failures(tmp_path: Path) -> None:
    with simulated_hosts(tmp_path, 5) as fleet:
        fleet.make_release("1.0.0", checks=False)
        fleet.write_inventory(penstock_agent_inputs=INPUTS)
        (fleet.host(fleet.names[1]) / "opt").write_text("no directory")
        waves = {"penstock_agents_waves": [1, 2, "100%"]}
        stopped = fleet.play("agents", **waves)
        assert stopped.code != 0
        assert "1 hosts have failed, and 0 may: web-0002" in stopped.said, stopped.said
        assert [fleet.starts(name) for name in fleet.names] == [1, 0, 1, 0, 0]
        allowed = fleet.play("agents", penstock_agents_max_failures=1, **waves)
        assert [fleet.starts(name) for name in fleet.names] == [1, 0, 1, 1, 1], allowed.said
        assert sum(allowed.failed.values()) == 1


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_a_host_that_looks_for_itself(fleet: SimulatedHosts, tmp_path: Path) -> None:
    """ansible-pull, as the timer runs it, with an inventory from a git repository."""
    repository = tmp_path / "repository"
    repository.mkdir()
    shutil.copy(fleet.inventory, repository / "inventory.yml")
    (repository / "agents.yml").write_text(
        "- ansible.builtin.import_playbook: penstock.pipeline.agents_pulled\n"
    )
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "hosts"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    name = fleet.names[1]
    common = (
        "--url",
        f"file://{repository}",
        "--directory",
        str(tmp_path / "checkout"),
        "--inventory",
        "inventory.yml",
        "--limit",
        name,
        "--extra-vars",
        json.dumps({"penstock_release_dir": str(fleet.release)}),
    )
    said = fleet.run(
        "ansible-pull",
        *common,
        "--extra-vars",
        "penstock_agent_pull_percent=0",
        "agents.yml",
        cwd=repository.parent / "collections",
    )
    assert (said.code, fleet.starts(name)) == (0, 0), said.said
    said = fleet.run("ansible-pull", *common, "agents.yml", cwd=tmp_path / "collections")
    assert (said.code, fleet.starts(name)) == (0, 1), said.said
    assert fleet.starts(fleet.names[0]) == 0
