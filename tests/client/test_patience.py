"""Pauses that double, with jitter, until the time is over."""

import pytest

from client.errors import ConnectionLost, NotKafka
from client.patience import FIRST_PAUSE, LONGEST_PAUSE, Patience


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def patience(clock: Clock, seconds: float, chance: float) -> Patience:
    return Patience(seconds, clock=lambda: clock.now, sleep=clock.sleep, chance=lambda: chance)


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_pauses_double_up_to_the_longest(chance: float, share: float) -> None:
    clock = Clock()
    waiting = patience(clock, 100, chance)
    for _ in range(8):
        waiting.wait(ConnectionLost("gone"))
    doubled = [FIRST_PAUSE * 2**attempt for attempt in range(8)]
    assert clock.pauses == pytest.approx([share * min(each, LONGEST_PAUSE) for each in doubled])


def test_when_the_time_is_over_the_error_is_raised() -> None:
    clock = Clock()
    waiting = patience(clock, 1, 1.0)
    with pytest.raises(ConnectionLost, match="gone"):
        while True:
            waiting.wait(ConnectionLost("gone"))
    assert clock.now == pytest.approx(1.0)


def test_a_final_error_is_raised_at_once() -> None:
    clock = Clock()
    with pytest.raises(NotKafka):
        patience(clock, 100, 0.5).wait(NotKafka("http"))
    assert clock.pauses == []


def test_success_gives_new_patience() -> None:
    clock = Clock()
    waiting = patience(clock, 1, 1.0)
    for _ in range(20):
        waiting.wait(ConnectionLost("gone"))
        waiting.reset()
    assert clock.pauses == pytest.approx([FIRST_PAUSE] * 20)
