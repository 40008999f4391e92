"""The commands that repair damaged hours: extra files are moved away, the other hours are rebuilt.
Pure.

Rule 1: a rebuild replaces only what runs have written, so it never mends an extra file.
Rule 2: an extra file is moved out of the table, to the root, where no reader and no check sees it:
        some readers take names that begin with `_` for rows. Nothing is deleted.
Rule 3: names come from outside. One with a control character, or with a character that `hdfs dfs`
        takes for a pattern however it is quoted, gets no command.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from loader.checks.comparison import FaultyFile, FileFaultKind
from loader.commit.layout import hour_path
from loader.errors import FilesDiffer
from loader.tables import Hour, hour_folder

MOST_MOVES: Final = 10  # that a text names
_EXTRA: Final = "_extra-"
_LONGEST_NAME: Final = 255  # bytes
_PATTERN: Final = re.compile(r"[`*?\[\]{}\\]")


def move_command(root: str, path: str) -> str:
    """Moves an extra file out of its table. Empty if its name does not fit into a command."""
    name = f"{_EXTRA}{path.replace('/', '.')}"
    if not f"{root}{path}".isprintable() or _PATTERN.search(f"{root}{path}"):
        return ""
    if len(name.encode()) > _LONGEST_NAME:
        return ""
    is_local = root.startswith("file://")
    folder, program = (
        (root.removeprefix("file://"), ("mv", "-n")) if is_local else (root, ("hdfs", "dfs", "-mv"))
    )
    return shlex.join((*program, f"{folder}/{path}", f"{folder}/{name}"))


def files_differ(
    text: str, root: str, table: str, hours: Iterable[tuple[Hour, Sequence[FaultyFile]]]
) -> FilesDiffer:
    """The error for these faults, with what repairs them."""
    extra: list[str] = []
    rebuild, moved = [], []
    for hour, faults in hours:
        paths = [fault.path for fault in faults if is_extra_file(fault, table, hour)]
        extra += paths
        if paths:
            moved.append(hour_folder(hour))
        if len(paths) < len(faults):
            rebuild.append(hour_folder(hour))
    moves = tuple(filter(None, (move_command(root, path) for path in extra[:MOST_MOVES])))
    return FilesDiffer(
        text,
        rebuild=tuple(rebuild),
        moves=moves,
        moved=tuple(moved),
        more_moves=len(extra) - len(moves),
    )


def is_extra_file(fault: FaultyFile, table: str, hour: Hour) -> bool:
    """Whether one file is extra. If only the hour's totals are known, a rebuild makes its files
    known by name."""
    return fault.fault is FileFaultKind.EXTRA and fault.path != hour_path(table, hour)
