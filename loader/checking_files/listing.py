"""What a plain reader sees in the folders of hours.

As Spark and Hive do, it passes over names that begin with `_` or `.`, and over what is still being
copied by Hadoop's tools.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from loader.markers import hour_path
from loader.store.store import Entry, Store
from loader.tables import Hour, hour_folder, hour_in_folder

COPYING: Final = "._COPYING_"
_FEW: Final = 4  # hours of a day that are listed one by one
_DEPTH: Final = 2  # folders between a table and its files

Entries = dict[str, Entry]  # by path


def listed(store: Store, table: str, hours: Collection[Hour] | None) -> dict[Hour, Entries]:
    """The files of these hours, or of all that are there. Raises StoreError."""
    if hours is None:
        return _by_hour(table, store.list_recursively(table))
    found: dict[Hour, Entries] = {hour: {} for hour in hours}
    for folder in _folders(table, hours):
        for hour, entries in _by_hour(table, store.list_recursively(folder)).items():
            if hour in found:
                found[hour] |= entries
    return found


def _folders(table: str, hours: Collection[Hour]) -> list[str]:
    """Few: a folder of a day, where many of its hours are wanted."""
    days = Counter(_day(hour) for hour in hours)
    return sorted(
        {f"{table}/{day}" for day, count in days.items() if count > _FEW}
        | {hour_path(table, hour) for hour in hours if days[_day(hour)] <= _FEW}
    )


def _day(hour: Hour) -> str:
    return hour_folder(hour).partition("/")[0]


def _by_hour(table: str, entries: Iterable[Entry]) -> dict[Hour, Entries]:
    found: dict[Hour, Entries] = defaultdict(dict)
    for entry in entries:
        parts = entry.path.removeprefix(f"{table}/").split("/")
        hour = _hour("/".join(parts[:_DEPTH]))
        if hour is not None and parts[_DEPTH:] and all(map(_is_seen, parts[_DEPTH:])):
            found[hour][entry.path] = entry
    return dict(found)


def _is_seen(name: str) -> bool:
    return not name.startswith(("_", ".")) and not name.endswith(COPYING)


def _hour(folder: str) -> Hour | None:
    """Of a folder as runs name it, and only so."""
    try:
        hour = hour_in_folder(folder)
    except ValueError:
        return None
    return hour if hour_folder(hour) == folder else None
