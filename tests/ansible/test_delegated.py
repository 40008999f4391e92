"""What one host does for another is still about that other one."""

from pathlib import Path

import pytest

from harness.hosts.ansible_tools import play
from tests.ansible.conftest import HERE

pytestmark = pytest.mark.not_quick("starts Ansible")


def test_a_gate_asks_the_broker_that_was_changed(ansible: None, tmp_path: Path) -> None:
    """From the host of an agent elsewhere, whose line is the canary; of hosts that are reached by
    their names, and of one that is reached by an address."""
    asked = {
        "name": "Asked",
        "ansible.builtin.copy": {
            "content": "{{ penstock_gate_pages }} {{ penstock_gate_at }}",
            "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}",
            "mode": "0600",
        },
        "delegate_to": "{{ penstock_gate_at }}",
    }
    document = [
        {
            "name": "Brokers",
            "hosts": "penstock_broker",
            "gather_facts": False,
            "roles": [{"role": "penstock.pipeline.gate", "when": False}],
            "post_tasks": [asked],
        }
    ]
    inventory = {
        "penstock_broker": {"hosts": {"named": {}, "addressed": {"ansible_host": "10.0.0.2"}}},
        "penstock_agent": {"hosts": {"web": {"ansible_host": "10.0.0.9"}}},
    }
    played = play(tmp_path, document, inventory, variables=HERE)
    assert played.code == 0, played.said
    assert (tmp_path / "named").read_text() == "http://named:9095 web"
    assert (tmp_path / "addressed").read_text() == "http://10.0.0.2:9095 web"
