"""Signing keys are made, enrolled and copied to the audit before programs start, on simulated
hosts; the keys, the commands and the folders are real."""

import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from audit.configuration.enrolled_keys import EnrolledKeys, read
from ground.signatures.keys import PublicKey, permissions_problem
from harness.hosts.ansible_tools import ansible_tool
from harness.hosts.simulated_hosts import Played, SimulatedHosts, simulated_hosts, tree
from tests.penstock.running import penstock

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv"),
]

AUDIT = "audit-1"
REVOKE = """
- hosts: penstock_agent
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: penstock.pipeline.signing_keys, tasks_from: revoke.yml}
      vars:
        penstock_signing_keys_name: agent
        penstock_signing_keys_host: "{{ inventory_hostname }}"
        penstock_signing_keys_reason: retired
"""
COMMAND = str(Path(sys.executable).with_name("penstock"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SimulatedHosts]:
    """Two agents and an audit, of which only the folder is there."""
    with simulated_hosts(tmp_path, 2) as fleet:
        fleet.make_release("1.0.0", checks=True)
        shutil.copytree(fleet.host(fleet.names[0]), fleet.host(AUDIT))
        write_inventory(fleet)
        yield fleet


def write_inventory(
    fleet: SimulatedHosts, hosts: dict[str, Any] | None = None, **more: object
) -> None:
    data_dir = str(fleet.directory / "hosts/{{ inventory_hostname }}/data")
    fleet.write_inventory(
        penstock_agent_inputs=[{"paths": ["/var/log/syslog"], "topic": "syslog"}],
        penstock_agent_config={"data_dir": data_dir},
        penstock_certificates_penstock=[COMMAND],
        penstock_audit_user="root",
        **{"penstock_signatures": "require", **more},
    )
    inventory = yaml.safe_load(fleet.inventory.read_text())
    children = inventory["all"]["children"]
    children["penstock_audit"] = {"hosts": {AUDIT: None}}
    for group in children.values():
        group["hosts"] = {name: (hosts or {}).get(name) for name in group["hosts"]}
    fleet.inventory.write_text(yaml.safe_dump(inventory))


@pytest.fixture
def nobody() -> Iterator[dict[str, Any]]:
    """The variables of a host that does not answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": closed.getsockname()[1],
            "ansible_ssh_retries": 0,
        }


def own_key(fleet: SimulatedHosts, name: str) -> PublicKey:
    path = fleet.host(name) / "data/signing-key"
    assert permissions_problem(path) == ""
    return PublicKey.of_file(path.with_name("signing-key.pub"))


def at_the_audit(fleet: SimulatedHosts) -> EnrolledKeys:
    return read(fleet.host(AUDIT) / "etc/keys")


def files(fleet: SimulatedHosts) -> dict[str, tuple[int, bytes]]:
    own = tree(fleet.directory, ["keys"])
    hosts = {
        f"{name}/{path}": entry
        for name in (*fleet.names, AUDIT)
        for path, entry in tree(fleet.host(name), ["etc", "data", "opt", "units"]).items()
    }
    return own | hosts


def played(fleet: SimulatedHosts, *options: str, **extra: Any) -> Played:
    said = fleet.play("agents", *options, **extra)
    assert "PRIVATE KEY" not in said.said
    return said


def test_keys_are_enrolled_before_agents_start(fleet: SimulatedHosts) -> None:
    before = files(fleet)
    checked = played(fleet, "--check", "--diff")
    assert (checked.code, files(fleet)) == (0, before), checked.said

    said = played(fleet, "--diff")
    assert said.code == 0, said.said
    keys = at_the_audit(fleet)
    for name in fleet.names:
        key = own_key(fleet, name)
        assert list(keys.enrolled(name)) == [key.raw]
        (file,) = (fleet.host(AUDIT) / "etc/keys" / name).iterdir()
        started = (fleet.host(name) / "starts").stat().st_mtime_ns
        assert file.stat().st_mtime_ns < started, "the agent was started first"
        assert file.read_bytes() == key.pem
    assert tree(fleet.directory, ["keys"]).keys() >= {f"keys/{name}" for name in fleet.names}

    there = files(fleet)
    for options in ((), ("--check",)):
        again = played(fleet, *options)
        assert (again.code, set(again.changed.values())) == (0, {0}), again.said
        assert files(fleet) == there


def test_a_reinstalled_host_gets_another_key_and_one_that_is_away_keeps_its_own(
    fleet: SimulatedHosts, nobody: dict[str, Any]
) -> None:
    assert played(fleet).code == 0
    first, second = fleet.names
    former, other = own_key(fleet, first), own_key(fleet, second)
    begin = time.time_ns() // 1_000_000
    fleet.close()
    shutil.rmtree(fleet.host(first) / "data")
    write_inventory(fleet, {second: nobody})
    said = played(fleet, penstock_agents_max_failures=1)
    assert said.failed[second] == 1, said.said
    newer = own_key(fleet, first)
    keys = at_the_audit(fleet)
    assert (newer != former, {*keys.revoked}) == (True, {former.raw})
    assert keys.accepts(newer.raw, first, begin)
    assert keys.accepts(former.raw, first, begin)
    assert not keys.accepts(former.raw, first, begin + 600_000)
    assert keys.accepts(other.raw, second, begin + 600_000)


def test_nothing_starts_with_a_key_that_the_audit_cannot_get(
    fleet: SimulatedHosts, nobody: dict[str, Any]
) -> None:
    write_inventory(fleet, {AUDIT: nobody})
    said = played(fleet)
    assert said.code != 0
    assert f"{AUDIT} does not answer, so its audit cannot learn the keys of" in said.said
    assert [fleet.starts(name) for name in fleet.names] == [0, 0]
    assert not list(fleet.directory.glob("keys/*/*"))
    write_inventory(fleet)
    said = played(fleet)
    assert (said.code, [fleet.starts(name) for name in fleet.names]) == (0, [1, 1]), said.said
    # Later it may be away: nothing is new.
    write_inventory(fleet, {AUDIT: nobody})
    said = played(fleet)
    assert said.code == 0, said.said
    assert f"WARNING: {AUDIT} does not answer, so its audit does not learn" in said.said


def test_a_revoked_key_starts_nothing(fleet: SimulatedHosts) -> None:
    assert played(fleet).code == 0
    first, second = fleet.names
    playbook = fleet.directory / "revoke.yml"
    playbook.write_text(REVOKE)
    revoked = fleet.play(playbook, "--limit", first)
    assert (revoked.code, revoked.changed) == (0, {first: 2}), revoked.said
    assert own_key(fleet, first).raw in at_the_audit(fleet).revoked
    config = {"data_dir": f"{fleet.directory}/hosts/{{{{ inventory_hostname }}}}/data"}
    changed = {
        "penstock_agent_config": {**config, "scan_interval": 2},
        "penstock_agents_waves": [2],
    }
    said = played(fleet, penstock_agents_max_failures=1, **changed)
    assert (said.failed[first], said.failed[second]) == (1, 0), said.said
    assert f"agent on {first} was not started: its key" in said.said
    assert [fleet.starts(name) for name in fleet.names] == [1, 2]
    key = own_key(fleet, first).raw
    assert key in at_the_audit(fleet).revoked


def test_agents_that_run_are_enrolled_before_the_audit_requires_it(
    fleet: SimulatedHosts, nobody: dict[str, Any]
) -> None:
    """From the first use of keys to enrolled ones: `site` begins with this playbook."""
    first, second = fleet.names
    write_inventory(fleet, penstock_signatures="first_use")
    assert played(fleet).code == 0
    assert not (fleet.directory / "keys").exists()
    for name in fleet.names:
        make = ("signing-keys", "make", "agent", str(fleet.host(name) / "data"))
        assert penstock(*make).returncode == 0
    write_inventory(fleet, {second: nobody})
    said = fleet.play("enrol")
    assert said.code != 0
    assert f"Nothing was changed: {second} do not answer" in said.said
    assert not (fleet.directory / "keys").exists()

    write_inventory(fleet)
    said = fleet.play("enrol")
    assert said.code == 0, said.said
    keys = at_the_audit(fleet)
    assert {name: list(keys.enrolled(name)) for name in fleet.names} == {
        name: [own_key(fleet, name).raw] for name in fleet.names
    }
    # One that is enrolled may be away, and is not asked again.
    write_inventory(fleet, {second: nobody})
    said = fleet.play("enrol")
    assert (said.code, set(said.changed.values())) == (0, {0}), said.said
    assert first in said.ok


def test_a_release_that_signs_nothing_is_named(fleet: SimulatedHosts) -> None:
    first, second = fleet.names
    for name, text in ((first, "penstock: no such command: 'signing-keys'"), (second, "")):
        program = fleet.host(name) / "opt/bin/penstock"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\necho "{text}" >&2; exit 2\n')
        program.chmod(0o755)
    said = fleet.play("enrol")
    assert said.code != 0
    assert f"Nothing was changed: {first} run a release that signs nothing" in said.said
    assert not (fleet.directory / "keys").exists()
