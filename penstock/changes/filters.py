"""Filters entries, and formats them as rows of a table. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

import click
import msgspec

from ground.administration.entries import OK, Entry
from penstock.cli.time_arguments import day, time_millis

COLUMNS: Final = ("time", "who", "address", "what", "name", "change", "result")

_AGO: Final = re.compile(r"([0-9]{1,5})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class SinceType(click.ParamType[int]):
    """A time, a day, or an age, as milliseconds since 1970."""

    name = "since"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return since_millis(value, datetime.now(UTC))
        except ValueError:
            self.fail(
                f"{value!r} is not a time like 2026-11-20T07:00:00Z, a day like yesterday, or an "
                "age like 2h or 7d"
            )


def since_millis(text: str, now: datetime) -> int:
    """Parses a time, a day, or an age. Raises ValueError."""
    match = _AGO.fullmatch(text)
    if match is not None:
        start = now - timedelta(**{_UNITS[match[2]]: int(match[1])})
        return max(0, round(start.timestamp() * 1000))
    if text in {"today", "yesterday"}:
        return day(text, now).begin
    return time_millis(text)


class EntryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on entries; an empty condition matches every entry. Times have the format of those
    in entries."""

    since: str = ""
    until: str = ""
    who: str = ""
    kinds: tuple[str, ...] = ()
    name: str = ""
    refused: bool = False

    def takes(self, entry: Entry) -> bool:
        if entry.time < self.since or (self.until and entry.time >= self.until):
            return False
        if self.kinds and entry.kind not in self.kinds:
            return False
        if self.refused and entry.result == OK:
            return False
        if self.who and not any(_is(self.who, actor) for actor in (entry.principal, entry.address)):
            return False
        return not self.name or any(_is(self.name, name) for name in _names(entry))


def entry_time(millis: int) -> str:
    """Formats a time like those in entries, whose order as text is their order in time."""
    time = datetime.fromtimestamp(millis / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row(entry: Entry) -> Mapping[str, object]:
    suffix = f" ×{entry.times}" if entry.times > 1 else ""
    return {
        "time": entry.time.removesuffix("Z").replace("T", " ")[:19],
        "who": entry.principal or "-",
        "address": entry.address or "-",
        "what": f"{entry.action} {entry.kind.replace('_', ' ')}",
        "name": entry.name,
        "change": _change(entry),
        "result": f"{entry.result}{suffix}",
    }


def _change(entry: Entry) -> str:
    """The change in one line: `retention.ms: 86400000 → 3600000, partitions: 8`."""
    before, after = entry.before, entry.after
    changed_keys = []
    for key in dict.fromkeys((*before, *after)):
        match before.get(key), after.get(key):
            case None, new:
                changed_keys.append(f"{key}: {new}")
            case old, None:
                changed_keys.append(
                    f"{key}: {old} → -" if after or entry.action != "delete" else f"{key}: {old}"
                )
            case old, new:
                changed_keys.append(f"{key}: {old} → {new}")
    return ", ".join(changed_keys) or entry.message or "-"


def _names(entry: Entry) -> list[str]:
    """The name and its parts: also page_views for `topic:page_views`, alice for `user=alice`."""
    parts = (part.partition("=")[2] for part in entry.name.split(",") if "=" in part)
    return [entry.name, entry.name.partition(":")[2], *parts]


def _is(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern) if "*" in pattern else text == pattern
