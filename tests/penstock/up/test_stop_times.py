"""Ctrl-C stops everything within ten seconds: what programs may take that wait for each other.

Of the times themselves, not of a clock: on a machine that is busy nobody can promise any.
"""

from functools import cache
from pathlib import Path

import pytest

from penstock.directory.entrance import Entrance
from penstock.directory.places import MirrorPorts, Places, Ports
from penstock.up.programs import programs

PROMISED_SECONDS = 10.0  # docs/up.md
TURN_SECONDS = 0.1  # until it is seen that one has ended


@pytest.mark.parametrize("mirror", [None, MirrorPorts()])
def test_all_that_wait_for_each_other_have_ended_in_ten_seconds(mirror: MirrorPorts | None) -> None:
    places, ports = Places(Path("/any")), Ports()
    made = programs(
        places, ports, Entrance(), None, mirror=mirror, loads_every="1m", log_format="text"
    )
    named = {each.name: each for each in made}

    @cache
    def begun(name: str) -> float:
        """When it is told to stop at the latest."""
        before = [each.name for each in made if name in each.needs | each.uses]
        return max(map(ended, before), default=0.0)

    def ended(name: str) -> float:
        return begun(name) + named[name].stop_seconds + TURN_SECONDS

    assert max(map(ended, named)) < PROMISED_SECONDS
