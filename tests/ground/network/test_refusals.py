"""How much of what is refused stands in the log."""

import logging

import pytest

from ground.network.refusals import MOST, PERIOD_S, Refusals


def test_one_line_a_minute_for_each_address_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            refusals.say("no token", "10.0.0.1", "", "GET /metrics", 0)
        refusals.say("no token", "10.0.0.2", "", "GET /metrics", 0)
        refusals.say("no token", "10.0.0.1", "alice", "GET /\n\x1b", PERIOD_S)
    assert len(caplog.messages) == 3
    assert "before=999" in caplog.messages[2]
    assert "user=alice asked='GET /\\n\\x1b'" in caplog.messages[2]
    assert refusals.counts == {"no token": 1_002}


def test_a_crowd_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for each in range(10 * MOST):
            refusals.say("no token", f"a{each}", "", "GET /", 0)
    assert len(caplog.messages) == MOST + 1
    assert refusals.counts.total() == 10 * MOST
