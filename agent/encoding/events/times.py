"""Reads the time of an event from its line: milliseconds since 1970 UTC.

Times of nearby lines mostly share their text down to the second, so results are cached. Times are
truncated to milliseconds. A time without zone is in the configured one.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from agent.configuration.lines import Time
from agent.encoding.lines.faults import LineFault, shown

try:
    from agent.encoding.events._iso_times import moments
except ImportError:
    NATIVE = False
else:
    NATIVE = True

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400_000
_MOST_REMEMBERED: Final = 10_000
_LONGEST: Final = 100  # characters of a time
_MILLIS: Final = {f"{millis:03}": millis for millis in range(1000)}

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_RFC3164: Final = re.compile(
    r"([A-Za-z]{3}) {1,2}([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,9}))?"
)
_EPOCHS: Final = {"epoch": 0, "epoch_ms": 3, "epoch_us": 6, "epoch_ns": 9}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?")

Millis = Callable[[Any, int], int]
"""A field's value, and now in milliseconds; raises `LineFault`."""


def time_reader(time: Time) -> Millis:
    """The reader for a configured format. Raises ValueError for a pattern without a day."""
    zone = zone_of(time)
    if time.format == "iso8601":
        return Iso8601(zone)
    if time.format == "rfc3164":
        return Rfc3164(zone)
    if time.format in _EPOCHS:
        return _epoch(_EPOCHS[time.format])
    return Pattern(time.format, zone)


def zone_of(time: Time) -> tzinfo:
    """The time zone. UTC needs no time zone database."""
    return UTC if time.zone == "UTC" else ZoneInfo(time.zone)


def times_of(read: Millis, values: list[Any], now: int, *, native: bool = NATIVE) -> list[int]:
    """The times of a column. Raises `LineFault` if one cannot be read."""
    if not native or not isinstance(read, Iso8601):
        return [read(value, now) for value in values]
    times = moments(values)
    if None not in times:
        return cast("list[int]", times)
    return [
        read(value, now) if millis is None else millis
        for value, millis in zip(values, times, strict=True)
    ]


class Iso8601:
    """Reads `2026-11-20T14:37:00.123Z`, and other formats of `datetime.fromisoformat`."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._seconds: dict[str, int] = {}

    def __call__(self, value: Any, now: int) -> int:
        if value.__class__ is not str:
            raise _no(value, "ISO 8601 time")
        # Most times differ from the last one only in the fraction.
        without_fraction = value[:20] + value[23:].lstrip("0123456789")
        millis = _MILLIS.get(value[20:23])
        second_millis = self._seconds.get(without_fraction)
        if millis is not None and second_millis is not None and len(value) <= _LONGEST:
            return second_millis + millis
        at = self._read(value)
        if millis is not None and value[19] in ".," and len(value) <= _LONGEST:
            if len(self._seconds) >= _MOST_REMEMBERED:
                self._seconds.clear()
            self._seconds[without_fraction] = at - millis
        return at

    def _read(self, value: str) -> int:
        text = value.strip()
        if len(text) > _LONGEST:
            raise _no(value, "ISO 8601 time")
        is_leap_second = text[17:19] == "60"
        try:
            time_read = datetime.fromisoformat(
                f"{text[:17]}59{text[19:]}" if is_leap_second else text
            )
            return millis_of(time_read, self._zone) + (1000 if is_leap_second else 0)
        except (ValueError, OverflowError):
            raise _no(value, "ISO 8601 time") from None


class Rfc3164:
    """Reads `Nov 20 14:37:00`. The year is the latest for which the time is at most a day ahead."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._remembered = _Remembered()

    def __call__(self, value: Any, now: int) -> int:
        remembered_millis = self._remembered.get(value, now)
        if remembered_millis is not None:
            return remembered_millis
        millis = self._read(value, now)
        self._remembered.put(value, millis)
        return millis

    def _read(self, value: Any, now: int) -> int:
        match = _RFC3164.fullmatch(value.strip()) if isinstance(value, str) else None
        month = _MONTHS.get(match[1].lower()) if match else None
        if match is None or month is None:
            raise _no(value, "time such as Nov 20 14:37:00")
        day, hour, minute, second = (int(match[group]) for group in (2, 3, 4, 5))
        micros = int((match[6] or "0")[:6].ljust(6, "0"))
        is_leap_second = second == 60

        def in_year(year: int) -> datetime:
            return datetime(
                year, month, day, hour, minute, 59 if is_leap_second else second, micros
            )

        millis = latest(in_year, now, self._zone)
        if millis is None:
            raise _no(value, "time such as Nov 20 14:37:00")
        return millis + (1000 if is_leap_second else 0)


class Pattern:
    """Reads times by a pattern of `strptime`."""

    def __init__(self, pattern: str, zone: tzinfo) -> None:
        self._pattern = pattern
        self._zone = zone
        directives = set(re.findall(r"%(.)", pattern.replace("%%", "")))
        self._has_year = bool(directives & set("yYGcx"))
        if not directives & set("djcxV"):
            raise ValueError(f"`format: {pattern}` has no day")
        self._remembered = _Remembered()
        try:
            datetime.strptime("", pattern if self._has_year else f"%Y {pattern}")
        except ValueError as error:
            if "does not match format" not in str(error):
                raise ValueError(f"`format: {pattern}`: {error}") from None
        except re.error as error:
            raise ValueError(f"`format: {pattern}`: {error}") from None

    def __call__(self, value: Any, now: int) -> int:
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise _no(value, f"time in the format {self._pattern}")
        remembered_millis = self._remembered.get(value, now)
        if remembered_millis is not None:
            return remembered_millis
        millis = self._read(value.strip(), now)
        if millis is None:
            raise _no(value, f"time in the format {self._pattern}")
        self._remembered.put(value, millis)
        return millis

    def _read(self, text: str, now: int) -> int | None:
        def in_year(year: int) -> datetime:
            # The year is read with the rest: otherwise 29 February would be invalid.
            return datetime.strptime(f"{year} {text}", f"%Y {self._pattern}")

        if not self._has_year:
            return latest(in_year, now, self._zone)
        try:
            return millis_of(datetime.strptime(text, self._pattern), self._zone)
        except (ValueError, OverflowError):
            return None


class _Remembered:
    """Caches the times read from texts, for one current time, which decides their year."""

    def __init__(self) -> None:
        self._now = 0
        self._times: dict[Any, int] = {}

    def get(self, value: Any, now: int) -> int | None:
        if now != self._now:
            self._now = now
            self._times.clear()
        return self._times.get(value) if value.__class__ is str else None

    def put(self, value: str, at: int) -> None:
        if len(value) > _LONGEST:
            return
        if len(self._times) >= _MOST_REMEMBERED:
            self._times.clear()
        self._times[value] = at


def latest(in_year: Callable[[int], datetime], now: int, zone: tzinfo) -> int | None:
    """The latest instant of a time without year that is at most a day ahead. Tries several years,
    since 29 February may be eight years ago."""
    this_year = (_EPOCH + timedelta(milliseconds=now)).year
    for year in range(this_year + 1, this_year - 9, -1):
        try:
            millis = millis_of(in_year(year), zone)
        except (ValueError, OverflowError):
            continue
        if millis <= now + _DAY:
            return millis
    return None


def millis_of(at: datetime, zone: tzinfo) -> int:
    elapsed = (at if at.tzinfo else at.replace(tzinfo=zone)) - _EPOCH
    return elapsed.days * _DAY + elapsed.seconds * 1000 + elapsed.microseconds // 1000


def _epoch(digits: int) -> Millis:
    to_micros = 10 ** (6 - digits) if digits <= 6 else 1
    divisor = 10 ** (digits - 6) if digits > 6 else 1

    def read(value: Any, now: int) -> int:
        if isinstance(value, str) and _NUMBER.fullmatch(text := value.strip()):
            whole_digits, _, fraction = text.partition(".")
            value = (
                int(whole_digits)
                if not fraction.strip("0")
                else _exact(whole_digits, fraction, digits)
            )
            if fraction.strip("0"):
                return int(value)
        if isinstance(value, float) and math.isfinite(value) and abs(value) < 1e30:
            return round(value * to_micros) // divisor // 1000
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**30:
            return int(value) * to_micros // divisor // 1000
        raise _no(value, "number of seconds" if not digits else "number")

    return read


def _exact(whole: str, fraction: str, digits: int) -> int:
    """Milliseconds of a decimal number given as text, without rounding."""
    number = int(whole.lstrip("+-") + fraction[:30])
    if whole.startswith("-"):
        number = -number
    return int(number * 1000 // 10 ** (digits + len(fraction[:30])))


def _no(value: Any, what: str) -> LineFault:
    article = "an" if what.startswith("ISO") else "a"
    return LineFault("time", f"{shown(value)} is not {article} {what}")
