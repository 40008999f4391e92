"""Seconds of a test on a machine that others use, too."""

import subprocess
import sys
import time

import pytest

from harness.processes.crowding import Crowding, Patience, wanting
from harness.processes.hand_clock import HandClock


def test_a_moment_says_less_than_the_last_seconds() -> None:
    clock = HandClock(0.0)
    wants = 2
    crowding = Crowding(lambda: wants, clock, processors=2)
    assert crowding.mean == 1
    wants = 40
    clock.now = 0.1
    assert 1 < crowding.look() < 3
    clock.now = 60
    assert crowding.look() == 20


@pytest.mark.parametrize(("wants", "lasted"), [(0, 30), (2, 30), (4, 15), (40, 1.5)])
def test_seconds_are_shorter_where_many_want_a_processor(wants: int, lasted: float) -> None:
    clock = HandClock(0.0)
    crowding = Crowding(lambda: wants, clock, processors=2)
    patience, longer = (
        Patience(seconds, crowding=crowding, clock=clock)
        for seconds in (lasted - 0.1, lasted + 0.1)
    )
    for clock.now in (10, 20, 30):
        patience.is_over()
        longer.is_over()
    assert patience.is_over()
    assert not longer.is_over()


def test_who_wants_a_processor_is_seen() -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        deadline = time.monotonic() + 60
        while (seen := wanting()) < 6:
            assert time.monotonic() < deadline, seen
            time.sleep(0.02)
    finally:
        for each in busy:
            each.kill()
        for each in busy:
            each.wait()
