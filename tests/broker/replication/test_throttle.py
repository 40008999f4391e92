"""A rate for replicas that are moved: exact over any time, by a clock that is handed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replication.throttle import Throttle


@given(
    st.integers(10_000, 10**9),
    st.lists(st.tuples(st.integers(1, 16 * 2**20), st.floats(0, 0.5)), min_size=1, max_size=60),
)
def test_who_waits_as_told_gets_the_rate_and_no_more(
    rate: int, answers: list[tuple[int, float]]
) -> None:
    """Each answer brings what was asked for or less, after a while."""
    throttle, now = Throttle(), 0.0
    throttle.follow(rate, now)
    assert throttle.rate == rate
    taken = last = waited = 0.0
    for amount, lasts in answers:
        while (wait := throttle.wait_s(now)) > 0:
            waited += wait
            now += wait
        assert taken <= rate * (now + 1.0011)
        portion = throttle.portion(16 * 2**20)
        last = min(amount, portion)
        now += lasts
        throttle.used(int(last), now)
        taken += int(last)
    assert taken <= rate * (now + 1.0011) + last
    assert waited <= taken / rate + 1e-6  # it is not slower than it must be, either
    assert throttle.bytes_used == taken
    assert throttle.seconds_waited == pytest.approx(waited)


def test_without_a_rate_nobody_waits() -> None:
    throttle = Throttle()
    throttle.used(10**12, 0)
    assert throttle.wait_s(0) == 0
    assert throttle.portion(1000) == 1000
    assert (throttle.rate, throttle.bytes_used, throttle.seconds_waited) == (None, 0, 0)


def test_who_waits_at_the_same_time_is_counted_once() -> None:
    throttle = Throttle()
    throttle.follow(100, 0)
    throttle.used(600, 0)
    for now in (0.0, 0.0, 0.25, 0.5):
        assert throttle.wait_s(now) == 1
    assert throttle.seconds_waited == 1.5
    assert throttle.wait_s(3) == 1
    assert throttle.seconds_waited == 2.5
    throttle.follow(None, 3)
    assert throttle.wait_s(3) == 0
    assert (throttle.bytes_used, throttle.seconds_waited) == (600, 2.5)


def test_a_quarter_of_a_second_is_asked_for_at_once() -> None:
    throttle = Throttle()
    throttle.follow(20_000_000, 0)
    assert throttle.portion(16 * 2**20) == 5_000_000
    assert throttle.portion(1_000_000) == 1_000_000
    throttle.follow(10, 0)
    assert throttle.portion(16 * 2**20) == 16 * 1024


def test_another_rate_counts_at_once_and_the_same_one_forgets_nothing() -> None:
    throttle = Throttle()
    throttle.follow(100, 0)
    throttle.used(1_000, 0)
    assert throttle.wait_s(0) == 1  # it looks again by then
    throttle.follow(100, 0)
    assert throttle.wait_s(8) == 1
    assert throttle.wait_s(9) == 0
    throttle.follow(200, 9)
    assert throttle.wait_s(9) == 0
    throttle.used(1_000, 9)
    assert throttle.wait_s(9) == 1
    throttle.follow(None, 9)
    assert throttle.wait_s(9) == 0
