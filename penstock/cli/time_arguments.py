"""Times, days and hours as arguments of commands; UTC unless they carry an offset."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import click

HOUR_MILLIS: Final = 3_600_000
DAY_MILLIS: Final = 24 * HOUR_MILLIS

_SECOND_MILLIS: Final = 1000
_DURATION: Final = re.compile(
    r"P?(?:(\d{1,6})D)?T?(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?", re.ASCII | re.IGNORECASE
)
_DAY_SECONDS: Final = 86_400
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": _DAY_SECONDS}
_EVERY: Final = re.compile(r"([1-9][0-9]{0,8})([smhd]?)")


class TimeRange(NamedTuple):
    """A range of milliseconds; the end is exclusive."""

    begin: int
    end: int


class TimeType(click.ParamType[int]):
    """A time, in milliseconds since 1970."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return time_millis(value)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-11-20T07:00:00Z")


class DayType(click.ParamType[TimeRange]):
    """A date, `today` or `yesterday`."""

    name = "day"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TimeRange:
        try:
            return day(value, datetime.now(UTC))
        except ValueError:
            self.fail(f"{value!r} is not a day such as 2026-11-20, today or yesterday")


class HourType(click.ParamType[TimeRange]):
    """An hour, given as a time or as the folder of the hour."""

    name = "hour"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TimeRange:
        try:
            return hour(value)
        except ValueError:
            self.fail(f"{value!r} is not an hour such as 2026-11-20T07 or dt=2026-11-20/hour=07")


class DurationType(click.ParamType[int]):
    """A duration, in milliseconds."""

    name = "duration"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return duration_millis(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 2h, 7d or P1DT6H")


class EveryType(click.ParamType[int]):
    """An interval in seconds that divides a day or is a whole number of days."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_every(value)
        except ValueError as error:
            self.fail(str(error))


def time_millis(text: str) -> int:
    """Parses a time. Raises ValueError if it is invalid, or before 1970."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    millis = round(time.timestamp() * _SECOND_MILLIS)
    if millis < 0:
        raise ValueError(text)
    return millis


def duration_millis(text: str) -> int:
    """Parses a duration such as 2h or P1DT6H. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(text)
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    total_seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return total_seconds * _SECOND_MILLIS


def parse_every(text: str) -> int:
    """Parses `1h`, `30m`, `1d`, `90s`, or plain seconds. Raises ValueError."""
    match = _EVERY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not an interval such as 30m, 1h, 1d, or 900 for seconds")
    seconds = int(match[1]) * _UNITS[match[2]]
    if _DAY_SECONDS % seconds and seconds % _DAY_SECONDS:
        raise ValueError(f"{text!r} neither divides a day nor is a whole number of days")
    return seconds


def day(text: str, now: datetime) -> TimeRange:
    days_ago = {"today": 0, "yesterday": 1}.get(text)
    if days_ago is not None:
        text = (now - timedelta(days=days_ago)).strftime("%Y-%m-%d")
    time = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    begin = time_millis(time.isoformat())
    return TimeRange(begin, begin + DAY_MILLIS)


def hour(text: str) -> TimeRange:
    folder = text.strip("/")
    if folder.startswith("dt="):
        time = datetime.strptime(folder, "dt=%Y-%m-%d/hour=%H")
    else:
        time = datetime.fromisoformat(text)
    begin = time_millis(time.isoformat())
    if begin % HOUR_MILLIS:
        raise ValueError(text)
    return TimeRange(begin, begin + HOUR_MILLIS)


def time_text(millis: int) -> str:
    """Formats a time, without seconds if they are 0. Accepts any number, since an audit may return
    any."""
    try:
        time = datetime.fromtimestamp(millis / _SECOND_MILLIS, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis:,} ms since 1970"
    return time.strftime("%Y-%m-%d %H:%M:%S" if millis % 60_000 else "%Y-%m-%d %H:%M")
