"""Makes the command that moves an extra file (one that no load has written) out of its table. Pure.

It goes to the root, where no reader and no check sees it: some readers take names that begin with
`_` for rows. Nothing is deleted. Names come from outside: only a file below the root gets a
command, and none whose name has a control character, or a character that `hdfs dfs` takes for a
pattern however it is quoted.
"""

import re
import shlex
from typing import Final

_EXTRA: Final = "_extra-"
_LONGEST_NAME: Final = 255  # bytes
_ROOT: Final = re.compile(r"file:///.*|(?!file:)[a-z][a-z0-9]*:/.*")  # never read as an option
_PATTERN: Final = re.compile(r"[`*?\[\]{}\\]")


def move_command(root: str, path: str) -> str:
    """Returns the command that moves an extra file out of its table; empty if a command cannot
    contain its name."""
    name = f"{_EXTRA}{path.replace('/', '.')}"
    if not f"{root}{path}".isprintable() or _PATTERN.search(f"{root}{path}"):
        return ""
    if not _ROOT.fullmatch(root) or not {"", ".", ".."}.isdisjoint(path.split("/")):
        return ""
    if len(name.encode()) > _LONGEST_NAME:
        return ""
    is_local = root.startswith("file://")
    folder, program = (
        (root.removeprefix("file://"), ("mv", "-n")) if is_local else (root, ("hdfs", "dfs", "-mv"))
    )
    return shlex.join((*program, f"{folder}/{path}", f"{folder}/{name}"))
