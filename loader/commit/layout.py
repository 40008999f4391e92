"""The paths of a table's files below the root, and the small files beside an hour's rows. Pure.

    {table}/dt=2026-11-20/hour=07/part-{cluster}-{partition}-{from}-{to}-{run}.parquet
    {table}/dt=2026-11-20/hour=07/_SUCCESS              the hour is complete: the run that decided
                                                        so or last added to it, and counts
    {table}/dt=2026-11-20/hour=07/_DAMAGED              in place of `_SUCCESS`: which landed files
                                                        are gone, changed or foreign
    {table}/dt=2026-11-20/hour=07/_INCOMPLETE           the deadline has passed: what is missing, in
                                                        words and by name
    {table}/dt=2026-11-20/hour=07/_CERTIFICATE.json     the hour's certificate, signed by audit and
                                                        loader: ledger/hour_certificates.py
    {table}/dt=2026-11-20/hour=07/_LATE-{run}           what that run added after the hour was
                                                        complete
    {table}/_complete_hours.json                        the complete hours, with those without rows,
                                                        which have no folder: complete_hours.py
    _dead/{table}/dt=2026-11-20/hour=07/part-…          dead letters
    _penstock/{table}/manifest-{run}.json               the commit log
    _penstock/{table}/visible-{run}                     its files and markers are in place
    _penstock/{table}/published-{run}                   nothing is left to be done for it
    _penstock/{table}/newest_certificate.json           which certificate is the table's newest
    _penstock/{table}/staging/run-{run}-{token}/        what a run writes before it is committed
    _penstock/{table}/replaced/run-{run}/{table}/dt=…   files that a rebuild replaced, if rows of
                                                        theirs exist nowhere else: for 30 days

Offsets in names are the slice's: its first, and the one after its last. The run makes a name
unique, so a file is never written twice under one name, nor a name given to another file. A marker
is one JSON object. Spark and Hive skip files whose names begin with `_`.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from ledger import hour_certificates
from loader.store.store import PENSTOCK
from loader.values.manifests import HourState, Marker
from loader.values.tables import Hour, hour_folder

DEAD: Final = "_dead"
_MANIFEST: Final = re.compile(r"manifest-(\d{1,18})\.json")
_VISIBLE: Final = re.compile(r"visible-(\d{1,18})")
_PUBLISHED: Final = re.compile(r"published-(\d{1,18})")
_RUN: Final = re.compile(r"run-(\d{1,18})-([0-9A-Za-z]+)")
SUCCESS: Final = "_SUCCESS"
DAMAGED: Final = "_DAMAGED"  # in place of `_SUCCESS`: see checks/damage_markers.py
INCOMPLETE: Final = "_INCOMPLETE"
LATE: Final = "_LATE-"
CERTIFICATE: Final = hour_certificates.CERTIFICATE
STAGING: Final = "staging"
COMPLETE_HOURS: Final = "_complete_hours.json"


def table_state(table: str) -> str:
    return f"{PENSTOCK}/{table}"


def manifest_path(table: str, run: int) -> str:
    return f"{table_state(table)}/manifest-{run}.json"


def visible_path(table: str, run: int) -> str:
    return f"{table_state(table)}/visible-{run}"


def published_path(table: str, run: int) -> str:
    return f"{table_state(table)}/published-{run}"


def newest_certificate_path(table: str) -> str:
    return f"{table_state(table)}/{hour_certificates.NEWEST}"


def staging(table: str) -> str:
    """The folder of all files that are not committed yet."""
    return f"{table_state(table)}/{STAGING}"


def replaced(table: str) -> str:
    """The folder of files that were replaced and not deleted."""
    return f"{table_state(table)}/replaced"


def replaced_folder(table: str, run: int) -> str:
    return f"{replaced(table)}/run-{run}"


def run_folder(table: str, run: int, token: str) -> str:
    """The folder to which one loader writes in a run. The token, letters and digits, is unique."""
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
    """The path without the format's suffix. `folder` is that of the table, or of dead letters."""
    return f"{folder}/{hour_folder(hour)}/part-{cluster}-{partition}-{first}-{end}-{run}"


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return int(match[1]) if match else None


def hour_path(table: str, hour: Hour) -> str:
    """The hour's folder, relative to the root."""
    return f"{table}/{hour_folder(hour)}"


def success_marker(table: str, hour: Hour, state: HourState, run: int, by: str = "") -> Marker:
    """The marker of a complete hour. `by`: how completeness was decided; left out if a complete
    hour has only changed."""
    content = {
        "run": run,
        "complete_since_run": state.complete,
        "rows": state.rows,
        "late_rows": state.late_rows,
        "files": len(state.files) + state.unlisted,
        "bytes": state.bytes,
        **({"schema_number": state.schema_number} if state.schema_number else {}),
        **({"decided_by": by} if by else {}),
    }
    return _marker(table, hour, SUCCESS, content)


def incomplete_marker(
    table: str, hour: Hour, state: HourState, run: int, names: Sequence[str]
) -> Marker:
    """The marker of an incomplete hour. `names`: the agents for which it waits, or the first of
    them."""
    content = {"run": run, "missing": state.incomplete, "names": list(names), "rows": state.rows}
    return _marker(table, hour, INCOMPLETE, content)


def late_marker(table: str, hour: Hour, run: int, rows: int, files: Sequence[str]) -> Marker:
    """The marker for rows that a run added after the hour was complete."""
    content = {"run": run, "rows": rows, "files": list(files)}
    return _marker(table, hour, f"{LATE}{run}", content)


def no_marker(table: str, hour: Hour, name: str) -> Marker:
    return Marker(path=f"{hour_path(table, hour)}/{name}")


def _marker(table: str, hour: Hour, name: str, content: dict[str, object]) -> Marker:
    return Marker(path=f"{hour_path(table, hour)}/{name}", content=json.dumps(content) + "\n")
