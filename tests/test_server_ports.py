"""Ports of servers that tests start: two runs beside each other do not have the same."""

import subprocess
import sys

from harness.server_process import free_ports, lease

_ASK = "import sys; from harness.server_process import lease; print(lease(int(sys.argv[1])))"


def test_a_port_is_given_to_one_process() -> None:
    """Before anybody listens on it."""
    (port,) = free_ports(1)
    asked = subprocess.run(
        [sys.executable, "-c", _ASK, str(port)], capture_output=True, text=True, check=True
    )
    assert asked.stdout.strip() == "False"
    assert not lease(port)
