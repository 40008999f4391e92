"""Where everything of a table lies below the root, and the small files beside an hour's rows. Pure.

    {table}/dt=2026-11-20/hour=07/part-{cluster}-{partition}-{from}-{to}-{run}.parquet
    {table}/dt=2026-11-20/hour=07/_SUCCESS              the hour is complete: the run that called it
                                                        so or last added to it, and counts
    {table}/dt=2026-11-20/hour=07/_INCOMPLETE           the deadline has passed: what is missing, in
                                                        words and by name
    {table}/dt=2026-11-20/hour=07/_LATE-{run}           what that run added after the hour had been
                                                        called complete
    _dead/{table}/dt=2026-11-20/hour=07/part-…          what could not be decoded
    _penstock/{table}/manifest-{run}.json               the commit log
    _penstock/{table}/visible-{run}                     its files and markers are where they belong
    _penstock/{table}/published-{run}                   nothing at all is left to be done for it
    _penstock/{table}/staging/run-{run}-{token}/        what a run writes until it is committed

Offsets in names are the slice's: from its first to behind its last. The run makes a name unique,
so that a file is never written twice under one name, nor a name given to another file. Markers are
each one object of JSON. Spark and Hive pass over files whose names begin with `_`.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from loader.manifests import HourState, Marker
from loader.store.store import PENSTOCK
from loader.tables import Hour, hour_folder

DEAD: Final = "_dead"
_MANIFEST: Final = re.compile(r"manifest-(\d{1,18})\.json")
_VISIBLE: Final = re.compile(r"visible-(\d{1,18})")
_PUBLISHED: Final = re.compile(r"published-(\d{1,18})")
_RUN: Final = re.compile(r"run-(\d{1,18})-([0-9A-Za-z]+)")
SUCCESS: Final = "_SUCCESS"
INCOMPLETE: Final = "_INCOMPLETE"
LATE: Final = "_LATE-"


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


def hour_path(table: str, hour: Hour) -> str:
    """The hour's folder, relative to the root."""
    return f"{table}/{hour_folder(hour)}"


def success_marker(table: str, hour: Hour, state: HourState, run: int, by: str = "") -> Marker:
    """`by` says how it was decided; it stays away where a complete hour only changed."""
    content = {
        "run": run,
        "complete_since_run": state.complete,
        "rows": state.rows,
        "late_rows": state.late_rows,
        "files": len(state.files) + state.unlisted,
        "bytes": state.bytes,
        **({"decided_by": by} if by else {}),
    }
    return _marker(table, hour, SUCCESS, content)


def incomplete_marker(
    table: str, hour: Hour, state: HourState, run: int, names: Sequence[str]
) -> Marker:
    """`names` are those who are waited for, as many as are worth naming."""
    content = {"run": run, "missing": state.incomplete, "names": list(names), "rows": state.rows}
    return _marker(table, hour, INCOMPLETE, content)


def late_marker(table: str, hour: Hour, run: int, rows: int, files: Sequence[str]) -> Marker:
    """So many rows in these files came after the hour had been called complete."""
    content = {"run": run, "rows": rows, "files": list(files)}
    return _marker(table, hour, f"{LATE}{run}", content)


def no_marker(table: str, hour: Hour, name: str) -> Marker:
    """The marker of that name is taken away, if it is there."""
    return Marker(path=f"{hour_path(table, hour)}/{name}")


def _marker(table: str, hour: Hour, name: str, content: dict[str, object]) -> Marker:
    return Marker(path=f"{hour_path(table, hour)}/{name}", content=json.dumps(content) + "\n")
