"""Times, days and hours as they are typed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.time_arguments import DAY_MILLIS, HOUR_MILLIS, day, hour, time_millis, time_text

SEVEN = 1_795_158_000_000  # 2026-11-20, 07:00 UTC
MIDNIGHT = SEVEN - 7 * HOUR_MILLIS


@pytest.mark.parametrize(
    "text", ["2026-11-20T07", "2026-11-20T07:00", "2026-11-20 07:00:00Z", "2026-11-20T08:00+01:00"]
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str) -> None:
    assert time_millis(text) == SEVEN


@pytest.mark.parametrize("text", ["", "soon", "7", "1969-12-31", "2026-13-01", "2026-11-20T25"])
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        time_millis(text)


@given(st.integers(0, 253_402_300_799_000).map(lambda millis: millis // 1000 * 1000))
def test_a_time_that_is_shown_can_be_typed(millis: int) -> None:
    assert time_millis(time_text(millis)) == millis


def test_a_time_that_no_calendar_has() -> None:
    assert time_text(2**62) == "4,611,686,018,427,387,904 ms since 1970"


def test_days() -> None:
    now = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
    assert day("2026-11-20", now) == day("today", now) == (MIDNIGHT, MIDNIGHT + DAY_MILLIS)
    assert day("yesterday", now) == (MIDNIGHT - DAY_MILLIS, MIDNIGHT)
    for wrong in ("", "tomorrow", "2026-11", "2026-02-30", "2026-11-20T07", "1969-12-31"):
        with pytest.raises(ValueError):
            day(wrong, now)


@pytest.mark.parametrize(
    "text", ["2026-11-20T07", "2026-11-20 07:00", "dt=2026-11-20/hour=07", "dt=2026-11-20/hour=07/"]
)
def test_hours(text: str) -> None:
    assert hour(text) == (SEVEN, SEVEN + HOUR_MILLIS)


@pytest.mark.parametrize(
    "text", ["", "07", "2026-11-20T07:30", "dt=2026-11-20", "dt=2026-11-20/hour=24", "hour=07"]
)
def test_no_hour(text: str) -> None:
    with pytest.raises(ValueError):
        hour(text)
