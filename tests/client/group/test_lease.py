"""How long a member relies on its claims."""

import time

import pytest

from client.group.lease import Lease, boottime
from harness.processes.hand_clock import HandClock


def test_it_does_not_hold_before_anybody_has_answered() -> None:
    clock = HandClock()
    lease = Lease(clock)
    assert not lease.holds
    assert lease.is_due
    lease.question_time()
    assert not lease.holds


@pytest.mark.parametrize("timeout_s", [1.0, 4.0, 18.0])
def test_it_holds_for_half_a_timeout_from_the_question_on(timeout_s: float) -> None:
    clock = HandClock()
    lease = Lease(clock)
    asked = lease.question_time()
    clock.now += timeout_s / 4  # the answer takes its time
    lease.renew(asked, timeout_s)
    assert lease.holds
    clock.now = asked + timeout_s * 0.499
    assert lease.holds
    clock.now = asked + timeout_s / 2
    assert not lease.holds


def test_an_answer_that_comes_late_renews_nothing() -> None:
    clock = HandClock()
    lease = Lease(clock)
    asked = lease.question_time()
    clock.now += 10
    lease.renew(asked, 18)
    assert not lease.holds


def test_it_is_asked_for_four_times_before_it_ends() -> None:
    clock = HandClock()
    lease = Lease(clock)
    lease.renew(lease.question_time(), 8)
    assert not lease.is_due
    clock.now += 1
    assert lease.is_due
    assert lease.holds


def test_the_clock_goes_on() -> None:
    before = boottime()
    time.sleep(0.01)
    assert boottime() > before
    assert boottime() >= time.monotonic() - 1  # and does not stop while the machine sleeps
