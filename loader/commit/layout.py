"""Where everything of a table lies below the root. Pure.

    {table}/dt=2026-11-20/hour=07/part-{cluster}-{partition}-{from}-{to}-{run}.parquet
    _dead/{table}/dt=2026-11-20/hour=07/part-…          what could not be decoded
    _penstock/{table}/manifest-{run}.json               the commit log
    _penstock/{table}/visible-{run}                     its files and markers are where they belong
    _penstock/{table}/published-{run}                   nothing at all is left to be done for it
    _penstock/{table}/staging/run-{run}-{token}/        what a run writes until it is committed

Offsets in names are the slice's: from its first to behind its last. The run makes a name unique,
so that a file is never written twice under one name, nor a name given to another file.
"""

import re
from typing import Final

from loader.store.store import PENSTOCK
from loader.tables import Hour, hour_folder

DEAD: Final = "_dead"

_MANIFEST: Final = re.compile(r"manifest-(\d{1,18})\.json")
_VISIBLE: Final = re.compile(r"visible-(\d{1,18})")
_PUBLISHED: Final = re.compile(r"published-(\d{1,18})")
_RUN: Final = re.compile(r"run-(\d{1,18})-([0-9A-Za-z]+)")


def table_state(table: str) -> str:
    """The folder of what is known about a table."""
    return f"{PENSTOCK}/{table}"


def manifest_path(table: str, run: int) -> str:
    return f"{table_state(table)}/manifest-{run}.json"


def visible_path(table: str, run: int) -> str:
    return f"{table_state(table)}/visible-{run}"


def published_path(table: str, run: int) -> str:
    return f"{table_state(table)}/published-{run}"


def staging(table: str) -> str:
    """The folder of all that runs have not committed yet."""
    return f"{table_state(table)}/staging"


def run_folder(table: str, run: int, token: str) -> str:
    """What one loader writes for a run. The token, letters and digits, is nobody else's."""
    return f"{staging(table)}/run-{run}-{token}"


def run_folder_of(staged: str) -> str:
    """The folder of the run that a staged file belongs to."""
    return "/".join(staged.split("/")[:4])


def run_of_manifest(name: str) -> int | None:
    return _number(_MANIFEST, name)


def run_of_visible(name: str) -> int | None:
    return _number(_VISIBLE, name)


def run_of_published(name: str) -> int | None:
    return _number(_PUBLISHED, name)


def run_of_folder(name: str) -> int | None:
    return _number(_RUN, name)


def part_path(
    folder: str, hour: Hour, *, cluster: str, partition: int, first: int, end: int, run: int
) -> str:
    """Without what tells the format. `folder` is the table's, or that of its dead letters."""
    return f"{folder}/{hour_folder(hour)}/part-{cluster}-{partition}-{first}-{end}-{run}"


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.fullmatch(name)
    return int(found[1]) if found else None
