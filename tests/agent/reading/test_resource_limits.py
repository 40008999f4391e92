"""The limits of an agent, held against what a process would do that keeps to their word."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reading.resource_limits import CpuAllowance, memory_allowance

MIB = 1024 * 1024


@given(
    cores=st.floats(0.05, 2.0),
    turns=st.lists(st.tuples(st.floats(0.0, 0.2), st.floats(0.0, 3.0)), max_size=100),
)
def test_what_is_used_stays_within_the_limit(
    cores: float, turns: list[tuple[float, float]]
) -> None:
    """Each turn takes some time and computes on up to three cores; then it pauses as told."""
    now, used = 100.0, 7.0
    allowance = CpuAllowance(cores, now, used)
    for seconds, busy in turns:
        now, used = now + seconds, used + seconds * busy
        while pause := allowance.pause(now, used):
            now += pause
        assert used - 7.0 <= (now - 100.0) * cores + 0.501 * cores + 1e-6


def test_who_stays_below_never_pauses() -> None:
    allowance = CpuAllowance(0.5, 0.0, 0.0)
    for turn in range(1, 1000):
        assert allowance.pause(turn * 0.01, turn * 0.004) == 0.0


def test_a_pause_is_no_longer_than_needed() -> None:
    allowance = CpuAllowance(0.5, 0.0, 0.0)
    assert allowance.pause(1.0, 1.0) == pytest.approx(0.5)  # 1 s used, 0.75 s allowed
    assert allowance.pause(1.5, 1.0) == 0.0


def test_without_a_limit_nothing_pauses() -> None:
    assert CpuAllowance(0.0, 0.0, 0.0).pause(1.0, 1000.0) == 0.0


def test_memory_in_flight_shrinks_as_the_limit_comes_near() -> None:
    def allowed(resident: int) -> int:
        return memory_allowance(
            resident * MIB, 100 * MIB, in_flight_limit=16 * MIB, batch_bytes=MIB
        ).in_flight

    assert allowed(50) == allowed(90) == 16 * MIB
    assert allowed(95) == 8 * MIB
    assert allowed(99) == allowed(100) == allowed(500) == 2 * MIB
    falling = [allowed(resident) for resident in range(50, 120)]
    assert falling == sorted(falling, reverse=True)


def test_above_the_limit_is_said() -> None:
    def exceeded(resident: int, limit: int) -> bool:
        return memory_allowance(resident, limit, in_flight_limit=16 * MIB, batch_bytes=MIB).exceeded

    assert not exceeded(100, 100)
    assert exceeded(101, 100)
    assert not exceeded(10**12, 0)


def test_a_small_limit_in_flight_is_never_raised() -> None:
    allowance = memory_allowance(101, 100, in_flight_limit=1024, batch_bytes=MIB)
    assert allowance.in_flight == 1024


MEASURING = """
from agent.reading.resource_limits import cpu_seconds, resident_bytes

before, began = resident_bytes(), cpu_seconds()
kept = bytearray(64 * 1024 * 1024)
kept[::4096] = b"x" * len(kept[::4096])
assert 63 * 1024 * 1024 < resident_bytes() - before < 80 * 1024 * 1024
while cpu_seconds() - began < 0.01:
    sum(range(1000))
"""


def test_what_is_measured_moves() -> None:
    """In a process of its own: what other tests have left is given back at any moment."""
    subprocess.run([sys.executable, "-c", MEASURING], check=True, timeout=60)
