"""The collection's roles, played on this machine by Ansible as a user has it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from harness.hosts.ansible_tools import VARIABLE, Played, ansible_tool, play

AWAY: Final = {"ansible_host": "127.0.0.1", "ansible_port": 1, "penstock_address": "192.0.2.1"}
HERE: Final = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}

Steps = Callable[..., list[Played]]


@pytest.fixture(scope="session")
def ansible() -> None:
    if ansible_tool("ansible-playbook") is None:
        pytest.skip(f"no ansible-playbook: pip install ansible-core, or {VARIABLE}=DIR")


@pytest.fixture
def played(ansible: None, tmp_path: Path) -> Steps:
    """Plays a role on this machine several times, in one run of Ansible, with the variables of
    each step beside those of all. Also of a step:

        check     true: shows what would be done
        before    a command for the shell
    """

    def run(role: str, *steps: Mapping[str, Any], **variables: Any) -> list[Played]:
        document = []
        for number, step in enumerate(steps):
            own = dict(step)
            check, before = own.pop("check", False), own.pop("before", "true")
            document.append(
                {
                    "name": f"Step {number}",
                    "hosts": "penstock_broker",
                    "gather_facts": False,
                    "check_mode": check,
                    "ignore_errors": True,
                    "vars": own,
                    "pre_tasks": [{"ansible.builtin.raw": before, "changed_when": False}],
                    "roles": [{"role": f"penstock.pipeline.{role}"}],
                }
            )
        inventory = {"penstock_broker": {"hosts": {"here": HERE}}}
        found = play(tmp_path, document, inventory, "--diff", "-vvv", variables=variables).plays()
        assert len(found) == len(steps), found[-1].said
        return found

    return run
