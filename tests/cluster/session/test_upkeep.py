"""Upkeep: acts at the start, when poked, and again when it failed; stops when it is told."""

import threading
import time

import pytest

from cluster.errors import Unavailable
from cluster.session.upkeep import Upkeep
from harness.processes.waiting import wait_until


def test_it_acts_at_the_start_and_after_each_poke() -> None:
    acted: list[float] = []
    upkeep = Upkeep("test", lambda: acted.append(time.monotonic()))
    upkeep.start()
    for number in range(1, 4):
        wait_until(lambda number=number: len(acted) == number)
        upkeep.poke()
    upkeep.stop()
    assert 3 <= len(acted) <= 4


def test_pokes_while_it_acts_are_one_more_run() -> None:
    acted: list[int] = []
    go_on = threading.Event()

    def act() -> None:
        acted.append(1)
        go_on.wait(60)

    upkeep = Upkeep("test", act)
    upkeep.start()
    wait_until(lambda: acted)
    for _ in range(10):
        upkeep.poke()
    go_on.set()
    wait_until(lambda: len(acted) == 2)
    time.sleep(0.1)
    upkeep.stop()
    assert len(acted) == 2


@pytest.mark.parametrize("failure", [Unavailable("gone"), ValueError("a bug")])
def test_it_tries_again_after_a_failure_and_shows_the_trace_of_a_bug(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    acted: list[int] = []

    def act() -> None:
        acted.append(1)
        if len(acted) < 3:
            raise failure

    upkeep = Upkeep("the test's upkeep", act)
    upkeep.start()
    wait_until(lambda: len(acted) == 3)
    time.sleep(0.5)
    upkeep.stop()
    assert len(acted) == 3
    assert caplog.text.count("the test's upkeep failed, trying again") == 2
    assert str(failure) in caplog.text
    assert ("Traceback" in caplog.text) == isinstance(failure, ValueError)


def test_it_may_stop_itself() -> None:
    acted: list[int] = []

    def act() -> None:
        acted.append(1)
        upkeep.stop()

    upkeep = Upkeep("test", act)
    upkeep.start()
    wait_until(lambda: acted)
    upkeep.poke()
    upkeep.stop()
    assert acted == [1]


def test_stopping_waits_for_what_is_under_way_and_ends_a_pause() -> None:
    ended: list[int] = []

    def act() -> None:
        time.sleep(0.2)
        ended.append(1)
        raise Unavailable("gone")

    upkeep = Upkeep("test", act)
    upkeep.start()
    time.sleep(0.05)
    upkeep.stop()
    assert ended == [1]


def test_stopping_what_was_never_started_is_nothing() -> None:
    Upkeep("test", lambda: None).stop()
