"""The dates, zones and locales in which the suite is run again, and what of it is not. Pure.

In most of them, clocks are ahead by the same time all along. Where it is the last seconds of
something that count, each test begins two seconds before its end: what lasts longer sees it pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

LAST: Final = timedelta(seconds=2)

End = Callable[[datetime], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Either clocks are ahead, or each test begins just before an end, or it is now."""

    name: str
    says: str
    ahead: timedelta = timedelta()
    end: End | None = None
    variables: tuple[tuple[str, str], ...] = ()
    with_jvms: bool = False


def _of_an_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def _of_a_year(now: datetime) -> datetime:
    return datetime(now.year + 1, 1, 1, tzinfo=UTC)


def _of_a_leap_day(now: datetime) -> datetime:
    return datetime(2028, 3, 1, tzinfo=UTC)


MOMENTS: Final = (
    Moment(name="tomorrow", says="a day on", ahead=timedelta(days=1)),
    Moment(name="in-40-days", says="40 days on", ahead=timedelta(days=40)),
    Moment(name="in-3-years", says="3 years on", ahead=timedelta(days=3 * 365 + 1)),
    Moment(name="end-of-hour", says="the last seconds of an hour", end=_of_an_hour),
    Moment(name="end-of-year", says="the last seconds of this year, UTC", end=_of_a_year),
    Moment(name="leap-day", says="the last seconds of 29 February 2028, UTC", end=_of_a_leap_day),
    Moment(name="kathmandu", says="5:45 ahead of UTC", variables=(("TZ", "Asia/Kathmandu"),)),
    Moment(
        name="st-johns",
        says="3:30 behind UTC, with summer time",
        variables=(("TZ", "America/St_Johns"),),
    ),
    Moment(
        name="turkish",
        says="a locale in which I is not what i becomes",
        variables=(("LC_ALL", "tr_TR.UTF-8"),),
        with_jvms=True,
    ),
)

SLOW: Final = "marked as slow: each takes longer than all of a folder's others, at any date"

# What decides by a date or writes one, and is through in two minutes: hours of tables and what of
# them is committed; windows and verdicts; files' times and lines' times; what the report is asked.
ABOUT_DATES: Final = (
    "tests/loader/hours",
    "tests/loader/commit",
    "tests/loader/planning/test_plan.py",
    "tests/audit/service/test_service.py",
    "tests/audit/service/test_judge.py",
    "tests/audit/alerting",
    "tests/audit/reconciling",
    "tests/audit/store",
    "tests/agent/files",
    "tests/agent/encoding/events",
    "tests/agent/shipping/ledger",
    "tests/penstock/report/test_audit_end_to_end.py",
    "tests/penstock/report/test_report.py",
    "tests/penstock/report/test_report_page.py",
    "tests/penstock/report/test_report_table.py",
    "tests/penstock/cli/test_time_arguments.py",
    "tests/penstock/services/load/test_load_schedule.py",
)
