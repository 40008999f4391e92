"""The small files beside an hour's rows that say what is known of it. Pure.

    _SUCCESS        the hour is complete: the run that called it so or last added to it, and counts
    _INCOMPLETE     the deadline has passed: what is missing, in words and by name
    _LATE-{run}     what that run added after the hour had been called complete

Each is one object of JSON. Spark and Hive pass over files whose names begin with `_`.
"""

import json
from collections.abc import Sequence
from typing import Final

from loader.manifests import HourState, Marker
from loader.tables import Hour, hour_folder

SUCCESS: Final = "_SUCCESS"
INCOMPLETE: Final = "_INCOMPLETE"
LATE: Final = "_LATE-"


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
