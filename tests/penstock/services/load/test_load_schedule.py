"""When a load that is repeated runs, on values."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.time_arguments import parse_every
from penstock.services.load.program import missed, next_run

DAY = 86_400
DIVISORS = [each for each in range(1, DAY + 1) if DAY % each == 0]
EVERY = st.sampled_from(DIVISORS) | st.integers(1, 400).map(lambda days: days * DAY)
TIMES = st.floats(0, 4e9)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h", 3600), ("30m", 1800), ("1d", DAY), ("7d", 7 * DAY), ("90s", 90), ("900", 900)],
)
def test_what_can_be_said(text: str, seconds: int) -> None:
    assert parse_every(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0", "-1h", "1.5h", "1 h", "1w", "7h", "36h", "1h30m"])
def test_what_cannot(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an interval such as|neither divides a day"):
        parse_every(text)


def test_runs_are_at_multiples_since_midnight() -> None:
    assert next_run(at("2026-11-20T07:10"), 3600) == at("2026-11-20T08:00")
    assert next_run(at("2026-11-20T08:00"), 3600) == at("2026-11-20T09:00")
    assert next_run(at("2026-11-20T23:59"), 6 * 3600) == at("2026-11-21T00:00")
    assert next_run(at("2026-11-20T00:01"), DAY) == at("2026-11-21T00:00")


@given(TIMES, TIMES, EVERY)
def test_every_time_is_run_or_missed(began: float, length: float, every: int) -> None:
    ended = began + length / 1e4
    following = next_run(ended, every)
    assert ended < following <= ended + every
    assert following == next_run(began, every) + missed(began, ended, every) * every
