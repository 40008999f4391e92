"""Random sequences of what happens to a host: in the end each line is there once, in order.

A failure prints its sequence; HYPOTHESIS_PROFILE=fuzz tries thousands of them.
"""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.system.agent.operations import OPERATIONS, Host, Operation
from tests.system.agent.site import Site

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
SLOTS = 6

steps = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, SLOTS - 1))


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(0 if LONG else 300)
@settings(
    max_examples=settings().max_examples // 5 if LONG else 3,
    # What a sequence does depends on the moment: made smaller, it seldom fails again.
    phases=[Phase.explicit, Phase.generate],
)
@given(steps=st.lists(steps, min_size=15, max_size=60 if LONG else 20), seed=st.integers(0, 999))
def test_every_line_once_and_in_order(
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    steps: list[tuple[Operation, int]],
    seed: int,
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Site(running_broker, running_registry.url, Path(directory)) as site,
    ):
        host = Host(site, running_broker, random.Random(seed))
        for operation, slot in steps:
            print(operation.__name__, host.slots[slot].path.name)
            operation(host, host.slots[slot])
        host.judge()
