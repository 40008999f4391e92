"""What importing the wire format brings with it: each program does, at each start."""

import subprocess
import sys

SCRIPT = """
import sys
import wire.framing.codec, wire.consumer_protocol, wire.errors, wire.framing.requests
assert "kio" in sys.modules
print("hypothesis" in sys.modules)
import hypothesis.strategies
"""


def test_nothing_of_the_tests_tools() -> None:
    """And whoever wants them afterwards has them."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True
    )
    assert (found.stdout, found.stderr) == ("False\n", "")
