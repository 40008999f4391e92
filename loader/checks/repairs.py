"""The commands that repair damaged hours: extra files are moved away, the other hours are rebuilt.
Pure.

A rebuild replaces only what runs have written, so it never mends an extra file.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ledger.extra_files import move_command
from loader.checks.comparison import FaultyFile, FileFaultKind
from loader.commit.layout import hour_path
from loader.errors import FilesDiffer
from loader.values.tables import Hour, hour_folder

MOST_MOVES: Final = 10  # that a text names


def files_differ(
    text: str, root: str, table: str, hours: Iterable[tuple[Hour, Sequence[FaultyFile]]]
) -> FilesDiffer:
    """Returns the error that reports these faults, with the commands that repair them."""
    extra_paths: list[str] = []
    rebuild, moved_hours = [], []
    for hour, faults in hours:
        paths = [fault.path for fault in faults if is_extra_file(fault, table, hour)]
        extra_paths += paths
        if paths:
            moved_hours.append(hour_folder(hour))
        if len(paths) < len(faults):
            rebuild.append(hour_folder(hour))
    moves = tuple(filter(None, (move_command(root, path) for path in extra_paths[:MOST_MOVES])))
    return FilesDiffer(
        text,
        rebuild=tuple(rebuild),
        moves=moves,
        moved=tuple(moved_hours),
        more_moves=len(extra_paths) - len(moves),
    )


def is_extra_file(fault: FaultyFile, table: str, hour: Hour) -> bool:
    """Whether one file is extra. If only the hour's totals are known, a rebuild makes its files
    known by name."""
    return fault.fault is FileFaultKind.EXTRA and fault.path != hour_path(table, hour)
