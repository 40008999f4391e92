"""How often somebody has asked for an end."""

import signal
from collections.abc import Iterator

import pytest

from penstock.up.stop_requests import StopRequests


@pytest.fixture
def asked() -> Iterator[StopRequests]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even where the tests run with nohup
    try:
        with StopRequests() as asked:
            yield asked
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("came", "times"),
    [
        ([signal.SIGHUP, signal.SIGHUP], 1),
        ([signal.SIGHUP, signal.SIGINT], 2),
        ([signal.SIGINT, signal.SIGHUP], 1),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGINT], 3),
    ],
)
def test_a_terminal_that_is_closed_asks_once(
    asked: StopRequests, came: list[signal.Signals], times: int
) -> None:
    for each in came:
        signal.raise_signal(each)
    assert asked.times == times
    asked.wait(60)  # which nobody does: it has come


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequests() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert asked.times == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
