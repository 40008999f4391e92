"""A host that had an agent's bundle gets a server's packages, on a simulated host."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hosts.ansible_tools import ansible_tool
from harness.hosts.simulated_hosts import Played, SimulatedHosts, simulated_hosts, tree
from tests.bundle.made_wheels import made_wheel, made_wheelhouse

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

_RELEASES = """
- hosts: penstock_agent
  gather_facts: false
  tasks:
    - penstock.pipeline.bundle:
        version: "{{ penstock_release }}"
        source: "{{ penstock_release_dir }}"
        root: "{{ penstock_root }}"
        command: "{{ penstock_command }}"
    - penstock.pipeline.release:
        version: "{{ penstock_release }}"
        source: "{{ penstock_release_dir }}"
        root: "{{ penstock_root }}"
        command: "{{ penstock_command }}"
        python: "{{ ansible_python_interpreter }}"
        extras: [registry]
      when: is_server | bool
"""


VERSION = "1.0.0+g0123456789"
LONG_NAME = "one_whose_path_in_a_wheelhouse_has_over_a_hundred_characters"
# What its wheel's command is: it says which interpreter it runs on.
_MAIN = """
def main():
    import sys
    print("penstock of", sys.prefix)
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SimulatedHosts]:
    with simulated_hosts(tmp_path, 1) as made:
        made.write_inventory()
        (tmp_path / "releases.yml").write_text(_RELEASES)
        made.make_release(VERSION)
        yield made


def play(hosts: SimulatedHosts, *, is_server: bool) -> Played:
    given = {"penstock_release": VERSION, "penstock_release_dir": str(hosts.release)}
    return hosts.play(hosts.directory / "releases.yml", is_server=is_server, **given)


def make_wheelhouse(hosts: SimulatedHosts, shelf: Path) -> Path:
    file = made_wheelhouse(
        *(hosts.release, VERSION),
        made_wheel(shelf, "penstock", VERSION, LONG_NAME, module=_MAIN, command="penstock:main"),
        made_wheel(shelf, LONG_NAME, "1"),
    )
    hosts.write_sums(VERSION)
    return file


def test_a_server_comes_beside_an_agent_that_runs(hosts: SimulatedHosts, tmp_path: Path) -> None:
    house = make_wheelhouse(hosts, tmp_path / "shelf")
    (name,) = hosts.names
    release = hosts.host(name) / "opt/releases" / VERSION
    said = play(hosts, is_server=False)
    assert (said.code, said.changed) == (0, {name: 1}), said.said
    agents = (release / "bin/penstock").read_bytes()
    there = tree(hosts.host(name), ["opt"])

    # A release with another file, or without its sums, is refused before anything is sent.
    whole, sums = house.read_bytes(), hosts.release / f"penstock-{VERSION}.SHA256SUMS"
    house.write_bytes(whole + bytes(512))
    said = play(hosts, is_server=True)
    assert (said.code != 0, f"does not match {sums.name}" in said.said) == (True, True), said.said
    sums.unlink()
    said = play(hosts, is_server=True)
    assert (said.code != 0, f"has no {sums.name}" in said.said) == (True, True), said.said
    assert tree(hosts.host(name), ["opt"]) == there

    # A wheel that does not fit leaves the agent's command as it was, and is made up for.
    listed = f"{LONG_NAME.replace('_', '-')}==1 --hash=sha256:".encode()
    at = whole.index(listed) + len(listed)
    house.write_bytes(whole[:at] + (b"1" if whole[at] == ord("0") else b"0") + whole[at + 1 :])
    hosts.write_sums(VERSION)
    said = play(hosts, is_server=True)
    assert (said.code != 0, "cannot install the packages" in said.said) == (True, True), said.said
    assert (release / "bin/penstock").read_bytes() == agents
    house.write_bytes(whole)
    hosts.write_sums(VERSION)

    # An agent that runs from the bundle finds there whatever it has not loaded yet.
    (release / "lib").mkdir()
    (release / "lib/later.py").write_text("LATER = 1")
    said = play(hosts, is_server=True)
    assert (said.code, said.changed) == (0, {name: 1}), said.said
    assert (release / "lib/later.py").read_text() == "LATER = 1"
    link = hosts.host(name) / "sbin/penstock"
    assert link.readlink() == hosts.host(name) / "opt/current/bin/penstock"
    command = [str(release / "bin/penstock")]
    ran = subprocess.check_output(command, text=True, env={"PATH": os.environ["PATH"]})
    assert ran == f"penstock of {release}/server\n"
    known = json.loads((release / "release.json").read_text())
    assert (known["extras"], known["bundle"]) == (["agent", "registry"], True)

    said = play(hosts, is_server=True)
    assert (said.code, said.changed) == (0, {name: 0}), said.said

    # A link to another place of Penstock's is turned, and what somebody else put there stays.
    elsewhere, file = hosts.host(name) / "opt/bin/penstock", tmp_path / "other"
    for target, became, changed in ((elsewhere, link.readlink(), 1), (file, file, 0)):
        link.unlink()
        link.symlink_to(target)
        said = play(hosts, is_server=True)
        assert (said.code, said.changed) == (0, {name: changed}), said.said
        assert link.readlink() == became
    assert "is not a link into" in said.said
