"""What `penstock load` can be told beside its configuration, as click reads it."""

from typing import Final

import click

from loader.tables import HOUR_MILLIS, Hour, hour_folder, hour_in_folder
from penstock.load_schedule import parse_every

_HOURS_OF_A_DAY: Final = 24


class EveryType(click.ParamType[int]):
    """A time that runs are repeated after, in seconds."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_every(value)
        except ValueError as error:
            self.fail(str(error))


class HoursType(click.ParamType[tuple[Hour, ...]]):
    """An hour's folder, or a day's."""

    name = "hours"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Hour, ...]:
        hours = _hours(value.strip("/"))
        if not hours:
            self.fail(f"{value!r} is no folder such as dt=2026-11-20/hour=07, or dt=2026-11-20")
        return hours


class CheckedHoursType(click.ParamType[tuple[Hour, ...]]):
    """The same, or all hours: those are none in particular."""

    name = "hours"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Hour, ...]:
        return () if value == "all" else HoursType().convert(value, param, ctx)


class NamesType(click.ParamType[tuple[str, ...]]):
    """Names or patterns, with commas between them."""

    name = "names"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = tuple(each.strip() for each in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name")
        return names


def _hours(folder: str) -> tuple[Hour, ...]:
    """Of a folder as it is written, and only so; none if it is not."""
    first = folder if "/" in folder else f"{folder}/hour=00"
    try:
        begins = hour_in_folder(first)
    except ValueError:
        return ()
    if hour_folder(begins) != first:
        return ()
    count = 1 if first is folder else _HOURS_OF_A_DAY
    return tuple(Hour(begins + each * HOUR_MILLIS) for each in range(count))


def sorted_once(given: tuple[tuple[Hour, ...], ...]) -> tuple[Hour, ...]:
    """The hours of all options together."""
    return tuple(sorted({hour for hours in given for hour in hours}))
