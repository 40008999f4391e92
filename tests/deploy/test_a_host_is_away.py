"""What playbooks do where a host does not answer: nothing, and say so; or as much as they can."""

import os
import shutil
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from audit.configuration.inventory import read
from harness.hosts.ansible_tools import ansible_tool
from harness.hosts.simulated_hosts import SimulatedHosts, simulated_hosts

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

AWAY = "web-away"
STOPS = """
- hosts: penstock_agent
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - block:
        - ansible.builtin.fail: {msg: it broke}
      rescue:
        - ansible.builtin.include_role: {name: penstock.pipeline.gate, tasks_from: stopped.yml}
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SimulatedHosts]:
    """One that answers, and one whose port of ssh is closed; both are brokers."""
    with simulated_hosts(tmp_path, 1) as hosts, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hosts.write_inventory()
        inventory = yaml.safe_load(hosts.inventory.read_text())
        away = {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": nobody.getsockname()[1],
            "ansible_ssh_retries": 0,
        }
        inventory["all"]["children"]["penstock_broker"] = {
            "hosts": {
                hosts.names[0]: {"penstock_broker_id": 1},
                AWAY: {**away, "penstock_broker_id": 2},
            }
        }
        hosts.inventory.write_text(yaml.safe_dump(inventory))
        yield hosts


def test_brokers_go_on_while_one_is_away_with_its_topics(
    hosts: SimulatedHosts, tmp_path: Path
) -> None:
    (tmp_path / "zookeeper.json").touch()
    said = hosts.play("restore", penstock_restore_from=str(tmp_path))
    assert said.code != 0
    assert f"{AWAY} does not answer, and nothing was changed" in said.said
    assert "Stop all brokers" not in said.said


def test_who_is_stopped_is_told_also_where_the_lock_is_out_of_reach(
    hosts: SimulatedHosts, tmp_path: Path
) -> None:
    playbook = tmp_path / "stops.yml"
    playbook.write_text(STOPS)
    said = hosts.play(playbook, penstock_gate_lock_host=AWAY)
    assert said.code != 0
    assert f"Stopped at {hosts.names[0]}: it broke" in said.said


def test_the_audit_expects_an_agent_that_is_installed_alone(hosts: SimulatedHosts) -> None:
    """A run with --limit writes the whole list for the audit that answers, and names the other."""
    (name,) = hosts.names
    inventory = yaml.safe_load(hosts.inventory.read_text())
    children = inventory["all"]["children"]
    away = children.pop("penstock_broker")["hosts"][AWAY]
    children["penstock_audit"] = {
        "hosts": {"audit-1": None, AWAY: away},
        "vars": {"penstock_audit_expected_more": [{"host": "web-9", "topics": ["clicks"]}]},
    }
    children["penstock_agent"]["hosts"]["web-0002"] = None
    hosts.inventory.write_text(yaml.safe_dump(inventory))
    config = hosts.host("audit-1") / "etc"
    config.mkdir(parents=True)
    (config / "audit.yaml").touch()
    shutil.copytree(hosts.host(name), hosts.host("audit-1"), dirs_exist_ok=True)
    hosts.make_release("1.0.0", checks=False)
    said = hosts.play("agents", "--limit", name, penstock_audit_user="root")
    assert [each.host for each in read(config / "audit-hosts.yaml")] == [
        "web-0001",
        "web-0002",
        "web-9",
    ]
    assert f"WARNING: {AWAY} does not answer" in said.said
    assert said.code == 0, said.said


def test_a_bundle_for_support_has_those_that_answer(hosts: SimulatedHosts) -> None:
    said = hosts.play("support_bundle")
    assert said.failed[AWAY] == 1
    archive = hosts.inventory.with_name("support.tar.gz")
    with tarfile.open(archive) as tar:
        names = [Path(each.name).name for each in tar.getmembers() if each.isfile()]
    assert names == [f"{hosts.names[0]}.txt"]
    assert not archive.with_name("support").exists()
