"""A wall clock that jumps must not make retention delete what is young."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.retention import JUMP_MS, LONG_STOP_MS, SETTLING_MS, RetentionClock

NOW = 1_790_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE


class Clocks:
    """Both clocks of a machine, moved by hand, and a retention clock that is shown them."""

    def __init__(self, last_alive_ms: int | None = None) -> None:
        self.wall, self.monotonic = NOW, 5_000
        self.retention = RetentionClock(self.wall, self.monotonic, last_alive_ms)

    def run(self, milliseconds: int, *, jump: int = 0) -> str | None:
        self.wall += milliseconds + jump
        self.monotonic += milliseconds
        return self.retention.hold(self.wall, self.monotonic)


@given(st.lists(st.integers(0, 10 * HOUR)), st.integers(-JUMP_MS, JUMP_MS))
def test_a_steady_clock_is_trusted(steps: list[int], drift: int) -> None:
    clocks = Clocks(last_alive_ms=NOW - HOUR)
    assert all(clocks.run(step, jump=drift) is None for step in steps)


@pytest.mark.parametrize(
    "jump", [JUMP_MS + 1, 30 * 365 * 24 * HOUR, -JUMP_MS - 1, -(365 * 24 * HOUR)]
)
def test_a_jump_holds_for_an_hour_of_steady_clock(jump: int) -> None:
    clocks = Clocks()
    assert clocks.run(MINUTE) is None
    reason = clocks.run(MINUTE, jump=jump)
    assert reason is not None
    assert ("ahead" in reason) == (jump > 0)
    for _ in range(59):
        assert clocks.run(MINUTE) == reason
    assert clocks.run(MINUTE) is None
    assert clocks.run(MINUTE) is None


def test_a_jump_back_begins_the_hour_again() -> None:
    clocks = Clocks()
    clocks.run(MINUTE, jump=9000 * HOUR)
    assert clocks.run(50 * MINUTE) is not None
    assert clocks.run(MINUTE, jump=-9000 * HOUR) is not None
    assert clocks.run(59 * MINUTE) is not None
    assert clocks.run(MINUTE) is None


@pytest.mark.parametrize(
    ("last_alive", "held"),
    [
        (None, False),
        (NOW, False),
        (NOW - LONG_STOP_MS, False),
        (NOW - LONG_STOP_MS - 1, True),
        (NOW + JUMP_MS, False),
        (NOW + JUMP_MS + 1, True),
    ],
)
def test_a_clock_that_woke_up_wrong_holds(last_alive: int | None, held: bool) -> None:
    clocks = Clocks(last_alive)
    assert (clocks.run(0) is not None) == held
    assert (clocks.run(SETTLING_MS - 1) is not None) == held
    assert clocks.run(1) is None


def test_the_hold_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clocks = Clocks()
    clocks.run(MINUTE, jump=HOUR)
    for _ in range(90):
        clocks.run(MINUTE)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "60 minutes ahead" in caplog.text
