"""What a play on real hosts says of itself: tests of the collection count by it."""

from collections.abc import Iterator

import pytest

from harness.hosts.hosts import Host, HostFailed
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts

PLAYBOOK = """
- name: One file
  hosts: written
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.copy:
        content: "{{ said }}"
        dest: /etc/written
        mode: "0600"
    - name: Not for anybody
      ansible.builtin.command: "false"
      when: false
    - name: What is refused
      ansible.builtin.fail:
        msg: it is refused here
      when: inventory_hostname == refused | default('')
"""
GROUPS = {"written": ["one", "two"]}


pytestmark = plays_on_hosts(900)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), {"one": Host(), "two": Host()}) as fleet:
        (fleet.directory / "written.yml").write_text(PLAYBOOK)
        yield fleet


def test_a_play_says_what_it_changed_what_it_left_out_and_who_was_not_there(fleet: Fleet) -> None:
    playbook = str(fleet.directory / "written.yml")
    shown = fleet.play(playbook, GROUPS, {"said": "first"}, check=True).must_succeed()
    assert shown.by_host("changed") == {"one": 1, "two": 1}
    assert "+first" in shown.output
    assert fleet.ask("one", "ls /etc/written").exit_code != 0

    played = fleet.play(playbook, GROUPS, {"said": "first"}).must_succeed()
    assert sorted(played.changed) == ["one: Write it", "two: Write it"]
    assert played.by_task("skipped") == {"Not for anybody": 2, "What is refused": 2}
    # By sudo: it is root's.
    assert fleet.ssh("one", "stat -c %U:%a /etc/written; cat /etc/written") == "root:600\nfirst"
    assert fleet.play(playbook, GROUPS, {"said": "first"}).must_succeed().changed == []

    fleet.cut("two")
    partly = fleet.play(playbook, GROUPS, {"said": "second", "refused": "one"})
    assert partly.exit_code != 0
    assert partly.unreachable == {"two"}
    assert partly.failed == ["one: What is refused: it is refused here"]
    fleet.heal("two")
    with pytest.raises(HostFailed, match="it is refused here"):
        partly.must_succeed()
