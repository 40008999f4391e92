"""The folders of tables, as a loader makes them and as Spark reads them.

    {table}/dt=2026-11-20/hour=07/part-….parquet       rows
    {table}/dt=2026-11-20/hour=07/_CERTIFICATE.json    what is verified here
    {table}/dt=2026-11-20/hour=07/_SUCCESS             the hour is complete
    {table}/dt=2026-11-20/hour=07/_DAMAGED             instead, if landed files are gone or changed
    {table}/_complete_hours.json                       complete hours, also without rows; not signed
    _penstock/{table}/newest_certificate.json          the newest certificate of the table
    _penstock/~heads/{time}-{digest}.json              agents' signed heads, of all tables

Spark reads every file below a table whose name, and whose folders' names, do not begin with `.`, or
with `_` unless they also contain `=`. So such files count as rows, wherever they are. Files that
readers skip are not certified.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ground.intervals import Intervals, merged
from ground.known_types import known_type
from ledger.hour_certificates import CERTIFICATE, NEWEST
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder, hour_in_folder
from penstock.verify.store import Entry, Store, Unreadable, read

SUCCESS: Final = "_SUCCESS"
DAMAGED: Final = "_DAMAGED"
COMPLETE_HOURS: Final = "_complete_hours.json"
STATE: Final = "_penstock"

_MOST_BYTES: Final = 64 * 1024 * 1024
_TABLE: Final = re.compile(r"[\w.-]+", re.ASCII)
_DAY: Final = re.compile(r"dt=\d{4}-\d\d-\d\d", re.ASCII)


class HourFolder(msgspec.Struct, frozen=True, kw_only=True):
    """An hour's folder."""

    table: str
    hour: Hour

    @property
    def name(self) -> str:
        """The path below the table's folder."""
        return hour_folder(self.hour)

    @property
    def path(self) -> str:
        return f"{self.table}/{self.name}"

    @property
    def certificate(self) -> str:
        return f"{self.path}/{CERTIFICATE}"


class TableFolders(msgspec.Struct, frozen=True):
    """The folders of a table."""

    hours: Sequence[HourFolder]  # in the order of time
    foreign: Sequence[str]  # the paths of rows and folders that belong to no hour


def newest_path(table: str) -> str:
    return f"{STATE}/{table}/{NEWEST}"


def is_table(store: Store, path: str) -> bool:
    """Whether the folder has folders of days."""
    return any(_is_day(entry) for entry in store.list(path))


def table_names(store: Store) -> list[str]:
    """Returns the tables of a root, also those of which only the state is left, and folders that
    are unreadable and could be tables."""
    folders = {entry.name for entry in store.list("") if entry.is_folder and is_read(entry.name)}
    tables = {name for name in folders if _could_be_table(store, name)}
    states = {entry.name for entry in store.list(STATE) if entry.is_folder}
    return sorted(tables | {name for name in states - tables if _has_newest(store, name)})


def table_folders(store: Store, table: str) -> TableFolders:
    """Lists the hours of a table. Raises Unreadable."""
    hours: list[HourFolder] = []
    foreign: list[str] = []
    for day in _read_entries(store, table):
        if not _is_day(day):
            foreign.append(f"{table}/{day.name}")
            continue
        for entry in _read_entries(store, f"{table}/{day.name}"):
            hour = _hour_of(f"{day.name}/{entry.name}") if entry.is_folder else None
            if hour is None:
                foreign.append(f"{table}/{day.name}/{entry.name}")
            else:
                hours.append(HourFolder(table=table, hour=hour))
    return TableFolders(sorted(hours, key=lambda folder: folder.hour), foreign)


def is_read(name: str) -> bool:
    """Whether Spark reads a file or folder of this name."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def complete_hours(store: Store, table: str) -> Intervals:
    """Returns the complete hours according to the loader's unsigned file; none if it is missing or
    unreadable."""
    try:
        content = read(store, f"{table}/{COMPLETE_HOURS}", _MOST_BYTES)
        if content is None:
            return ()
        ranges = msgspec.json.decode(content, type=known_type(_CompleteHours)).complete
        return merged(
            (hour_in_folder(first), hour_in_folder(last) + HOUR_MILLIS) for first, last in ranges
        )
    except (Unreadable, msgspec.DecodeError, ValueError, RecursionError):
        return ()


class _CompleteHours(msgspec.Struct, frozen=True):
    complete: tuple[tuple[str, str], ...]


def _read_entries(store: Store, path: str) -> Iterator[Entry]:
    return (entry for entry in store.list(path) if is_read(entry.name))


def _is_day(entry: Entry) -> bool:
    return entry.is_folder and _DAY.fullmatch(entry.name) is not None


def _hour_of(folder: str) -> Hour | None:
    """The hour, if the loader would name its folder so."""
    try:
        hour = hour_in_folder(folder)
    except ValueError:
        return None
    return hour if hour_folder(hour) == folder else None


def _could_be_table(store: Store, name: str) -> bool:
    try:
        return is_table(store, name)
    except Unreadable:
        return _TABLE.fullmatch(name) is not None  # `lost+found` is not


def _has_newest(store: Store, table: str) -> bool:
    return any(entry.name == NEWEST for entry in store.list(f"{STATE}/{table}"))
