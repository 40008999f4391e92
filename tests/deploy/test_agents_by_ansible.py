"""The role for agents and its playbook, on simulated hosts: what changes, starts and stops."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from harness.hosts.ansible_tools import ansible_tool
from harness.hosts.simulated_hosts import Played, SimulatedHosts, simulated_hosts, tree
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

INPUTS = [{"paths": ["/var/log/syslog"], "topic": "syslog"}]
PLACES = ("etc", "opt", "units")
MOST_TASKS = 5  # on a host that has all of it
GATED = ("penstock_broker", "penstock_agent", "penstock_agent_canary")
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


class Installed(NamedTuple):
    """A host with the first release, what the runs said that led there, and a copy of its files."""

    fleet: SimulatedHosts
    checked: Played
    after_check: dict[str, tuple[int, bytes]]
    played: Played
    starts: int
    copy: Path

    @property
    def host(self) -> Path:
        return self.fleet.host(self.fleet.names[0])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    directory = tmp_path_factory.mktemp("fleet")
    with simulated_hosts(directory, 1) as fleet:
        host, copy = fleet.host(fleet.names[0]), directory / "copy"
        fleet.make_release("1.0.0")
        write_inventory(fleet)
        checked = fleet.play("agents", "--check", "--diff")
        after_check = tree(host, PLACES)
        played = fleet.play("agents")
        starts = fleet.starts(fleet.names[0])
        not_kept = shutil.ignore_patterns("pid", "starts")
        shutil.copytree(host, copy / "host", symlinks=True, ignore=not_kept)
        shutil.copytree(fleet.release, copy / "release")
        yield Installed(fleet, checked, after_check, played, starts, copy)


@pytest.fixture
def fleet(installed: Installed) -> SimulatedHosts:
    """The host as it was once the first release was there, with its agent started once."""
    installed.fleet.close()
    for name, path in (("host", installed.host), ("release", installed.fleet.release)):
        shutil.rmtree(path)
        shutil.copytree(installed.copy / name, path, symlinks=True)
    subprocess.run([installed.host / "bin/systemctl", "restart"], check=True)
    write_inventory(installed.fleet)
    return installed.fleet


@pytest.fixture
def host(fleet: SimulatedHosts) -> Path:
    return fleet.host(fleet.names[0])


def write_inventory(fleet: SimulatedHosts, **more: object) -> None:
    fleet.write_inventory(penstock_agent_inputs=INPUTS, **more)


def releases(host: Path) -> list[str]:
    return sorted(each.name for each in (host / "opt/releases").iterdir())


def current(host: Path) -> str:
    return str((host / "opt/current").readlink())


def test_a_check_shows_what_the_first_run_writes(installed: Installed, host: Path) -> None:
    checked, played = installed.checked, installed.played
    assert (checked.code, set(checked.changed.values())) == (0, {3}), checked.said
    assert "+brokers:" in checked.said
    assert installed.after_check == {}

    assert (played.code, installed.starts) == (0, 1), played.said
    config = yaml.safe_load((host / "etc/agent.yaml").read_text())
    assert (config["host"], config["brokers"]) == (host.name, ["broker-1:9092"])
    assert current(host) == "releases/1.0.0"


def test_a_run_touches_only_what_has_changed(fleet: SimulatedHosts, host: Path) -> None:
    (name,) = fleet.names
    there = tree(host, PLACES)
    said = fleet.play("agents")
    assert (said.code, said.changed) == (0, {name: 0}), said.said
    # And those that ask once for all hosts.
    assert said.ok[name] <= MOST_TASKS + 3
    assert tree(host, PLACES) == there

    # The agent reads its inputs again by itself.
    said = fleet.play("agents", "--diff", penstock_agent_inputs=[*INPUTS, SHOP])
    assert (said.code, fleet.starts(name), said.changed) == (0, 1, {name: 1}), said.said
    now = tree(host, PLACES)
    assert {path for path in now if now[path] != there[path]} == {"etc/agent.d/00-inventory.yaml"}

    config = {"scan_interval": 2}
    said = fleet.play("agents", penstock_agent_config=config, penstock_agent_inputs=[])
    assert (said.code, fleet.starts(name)) == (0, 2), said.said
    assert yaml.safe_load((host / "etc/agent.yaml").read_text())["scan_interval"] == 2
    assert list((host / "etc/agent.d").iterdir()) == []


def test_a_wrong_release_replaces_nothing_and_the_release_before_comes_back(
    fleet: SimulatedHosts, host: Path
) -> None:
    """Also where a run was cut off after the files were there, and before the agent was started."""
    (name,) = fleet.names
    there = tree(host, ("etc", "units"))

    fleet.make_release("2.0.0")
    config = {"scan_intervall": 2}
    wrong = fleet.play("agents", penstock_release="2.0.0", penstock_agent_config=config)
    assert wrong.code != 0
    assert "did you mean scan_interval?" in wrong.said
    assert tree(host, ("etc", "units")) == there
    assert current(host) == "releases/1.0.0"

    fleet.make_release("3.0.0", broken="no such symbol")
    wrong = fleet.play("agents", penstock_release="3.0.0")
    assert (wrong.code != 0, "no such symbol" in wrong.said) == (True, True)
    archive = next(fleet.release.glob("*-2.0.0-*"))
    archive.write_bytes(archive.read_bytes()[:-9] + b"123456789")
    shutil.rmtree(host / "opt/releases/2.0.0")
    wrong = fleet.play("agents", penstock_release="2.0.0")
    assert "does not match penstock-2.0.0.SHA256SUMS" in wrong.said
    assert releases(host) == ["1.0.0"]
    assert tree(host, ("etc", "units")) == there
    assert fleet.starts(name) == 1

    for version in ("2.0.0", "3.0.0"):
        fleet.make_release(version, checks=False)
        said = fleet.play("agents", penstock_release=version)
        assert said.code == 0, said.said
    assert fleet.starts(name) == 3
    assert releases(host) == ["2.0.0", "3.0.0"]

    archive.unlink()
    interpreter = str(interpreter_that_starts_nothing(host))
    back = {"penstock_release": "2.0.0"}
    cut_off = fleet.play("agents", ansible_python_interpreter=interpreter, **back)
    assert (cut_off.code != 0, fleet.starts(name)) == (True, 3), cut_off.said
    said = fleet.play("agents", **back)
    assert said.code == 0, said.said
    assert (current(host), fleet.starts(name)) == ("releases/2.0.0", 4)


def interpreter_that_starts_nothing(host: Path) -> Path:
    """An interpreter on a host whose systemctl cannot start anything."""
    (host / "cut").mkdir()
    stub = (host / "bin/systemctl").read_text().replace("restart)", "restart) exit 1 ;; never)")
    (host / "cut/systemctl").write_text(stub)
    (host / "cut/systemctl").chmod(0o755)
    path = host / "cut/python"
    path.write_text((host / "python").read_text().replace(f"{host}/bin", f"{host}/cut"))
    path.chmod(0o755)
    return path


def test_a_teams_file(fleet: SimulatedHosts, host: Path, tmp_path: Path) -> None:
    (name,) = fleet.names
    playbook = tmp_path / "team.yml"
    playbook.write_text(TEAM)
    given = {"penstock_agent_application_inputs": [SHOP]}
    said = fleet.play(playbook, **given)
    assert said.code == 0, said.said
    file = host / "etc/agent.d/shop.yaml"
    assert yaml.safe_load(file.read_text())["inputs"] == [SHOP]
    again = fleet.play(playbook, **given)
    assert again.changed[name] == 0, again.said
    assert fleet.starts(name) == 1

    before = file.read_text()
    taken = {**SHOP, "name": "syslog"}
    wrong = fleet.play(playbook, penstock_agent_application_inputs=[taken])
    assert (wrong.code != 0, file.read_text()) == (True, before)
    assert "duplicate input syslog" in wrong.said

    gone = fleet.play(playbook, penstock_agent_application_state="absent", **given)
    assert (gone.code, file.exists()) == (0, False), gone.said


def test_no_secret_is_shown(fleet: SimulatedHosts, host: Path) -> None:
    secret = made_secret("kafka")
    path = host / "etc/agent-secrets/kafka"
    login = {"mechanism": "SCRAM-SHA-512", "user": "agent", "password_file": str(path)}
    given = {"penstock_agent_config": {"security": {"tls": {}, "login": login}}}
    write_inventory(fleet, penstock_agent_secrets={"kafka": secret}, **given)
    said = fleet.play("agents", "--diff", "-vvv")
    assert said.code == 0, said.said.replace(secret, "(the secret)")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (f"{secret}\n", 0o640)
    assert secret not in said.said
    write_inventory(fleet, penstock_agent_secrets={"../kafka": secret}, **given)
    refused = fleet.play("agents", "-vvv")
    assert (refused.code != 0, secret in refused.said) == (True, False)


def test_a_roll_stops_after_too_many_failures(tmp_path: Path) -> None:
    with simulated_hosts(tmp_path, 3) as fleet:
        fleet.make_release("1.0.0", checks=False)
        write_inventory(fleet, penstock_agents_waves=[2, "100%"])
        (fleet.host(fleet.names[0]) / "opt").write_text("no directory")
        stopped = fleet.play("agents")
        assert stopped.code != 0
        assert "(1; penstock_agents_max_failures is 0): web-0001" in stopped.said, stopped.said
        # The other one of its wave is done, and none of the next.
        assert [fleet.starts(name) for name in fleet.names] == [0, 1, 0]
        allowed = fleet.play("agents", penstock_agents_max_failures=1)
        assert [fleet.starts(name) for name in fleet.names] == [0, 1, 1], allowed.said
        assert sum(allowed.failed.values()) == 1


def test_a_host_that_pulls_runs_the_role_for_itself_alone(tmp_path: Path) -> None:
    """ansible-pull, as the timer runs it, with an inventory from a git repository."""
    with simulated_hosts(tmp_path, 2) as fleet:
        fleet.make_release("1.0.0", checks=False)
        write_inventory(fleet)
        repository = tmp_path / "repository"
        repository.mkdir()
        shutil.copy(fleet.inventory, repository / "inventory.yml")
        (repository / "agents.yml").write_text(
            "- ansible.builtin.import_playbook: penstock.pipeline.agents_pulled\n"
        )
        git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "hosts"]):
            subprocess.run([*git, *words], check=True, capture_output=True)
        other, name = fleet.names
        common = ["--url", f"file://{repository}", "--directory", str(tmp_path / "checkout")]
        common += ["--inventory", "inventory.yml", "--limit", name]
        common += ["--extra-vars", json.dumps({"penstock_release_dir": str(fleet.release)})]
        none = ("--extra-vars", "penstock_agent_pull_percent=0")
        for percent, starts in ((none, 0), ((), 1)):
            said = fleet.run(
                "ansible-pull", *common, *percent, "agents.yml", cwd=tmp_path / "collections"
            )
            assert (said.code, fleet.starts(name)) == (0, starts), said.said
        assert fleet.starts(other) == 0


def test_the_gate_after_canaries_compares_with_the_state_before_them(
    tmp_path: Path, running_broker: BrokerProcess
) -> None:
    """And so does the next run, where the first stopped at that gate."""
    record = tmp_path / "roll/agents.json"
    with simulated_hosts(tmp_path, 2) as fleet:
        keeper, canary = fleet.names
        fleet.make_release("1.0.0")
        write_inventory(
            fleet,
            penstock_root=f"{tmp_path}/opt",
            penstock_brokers=[running_broker.bootstrap],
            penstock_gate_baseline=f"{record.parent}/baseline.json",
            penstock_gate_canary_file=f"{tmp_path}/canary/canary.log",
            penstock_gate_canary_inputs_dir="",
            penstock_gate_steady=0,
            penstock_gate_within=3,
        )
        inventory = yaml.safe_load(fleet.inventory.read_text())
        inventory["all"]["children"] = {
            group: {"hosts": {name: None}}
            for group, name in zip(GATED, (keeper, canary, canary), strict=True)
        }
        fleet.inventory.write_text(yaml.safe_dump(inventory))
        (tmp_path / "opt").mkdir()
        (tmp_path / "opt/bin").symlink_to(Path(sys.executable).parent)

        stopped = fleet.play("agents")  # the agent is none that ships a line
        assert f"The gate after {canary} failed" in stopped.said
        assert json.loads(record.read_text())["brokers"] == [1]
        said = fleet.play("agents", penstock_gate_canary=False)
        assert (said.code, record.exists()) == (0, False), said.said
        assert f"remove {record} on {keeper}" in said.said
        record.write_text('{"version": 1, "made": 1, "cluster": "x", "brokers": [], "topics": 0}')
        other = fleet.play("agents", penstock_gate_canary=False)
        assert "the baseline is of cluster x" in other.said
