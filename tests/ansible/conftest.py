"""The collection's roles, played on this machine by Ansible as a user has it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.ansible_tools import VARIABLE, Played, ansible_tool, play

Play = Callable[..., Played]


@pytest.fixture(scope="session")
def ansible() -> None:
    if ansible_tool("ansible-playbook") is None:
        pytest.skip(f"no ansible-playbook: pip install ansible-core, or {VARIABLE}=DIR")


@pytest.fixture
def played(ansible: None, tmp_path: Path) -> Play:
    """Plays one role on this machine, which is the only host of the groups."""

    def run(role: str, *options: str, **variables: Any) -> Played:
        document = [
            {
                "name": "One role",
                "hosts": "penstock_broker",
                "gather_facts": False,
                "roles": [{"role": f"penstock.pipeline.{role}"}],
            }
        ]
        host = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        inventory = {"penstock_broker": {"hosts": {"here": host}}}
        return play(tmp_path, document, inventory, *options, variables=variables)

    return run
