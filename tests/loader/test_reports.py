"""What reports say is held against what a run may have."""

import pytest

from loader.errors import TooManyHours
from loader.reports import MOST_HOURS_OF_RUN, check_hours
from loader.tables import HOUR_MILLIS, Hour
from tests.loader.commit.made_up import HOUR, piece, report


def hours(first: int, count: int) -> dict[Hour, int]:
    return {Hour(HOUR + at * HOUR_MILLIS): 1 for at in range(first, first + count)}


def test_hours_of_several_slices_are_counted_once() -> None:
    reports = [report(piece(n, 0, 10), hours(n, MOST_HOURS_OF_RUN - 1)) for n in range(2)]
    check_hours(reports)


def test_too_many_hours_in_all() -> None:
    half = MOST_HOURS_OF_RUN // 2
    reports = [
        report(piece(n, n * 10, n * 10 + 10), hours(n * half, half + n // 2)) for n in range(3)
    ]
    check_hours(reports[:2])
    with pytest.raises(TooManyHours, match=r"^t-0, offsets 20 to 29: .* more than 20,000 hours"):
        check_hours(reports)
