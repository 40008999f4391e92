"""Who may accept faults and retire hosts: a file with a name on each line.

A name is a user's, a token's, or one that the proxy vouches for. The file is looked at with every
request, as those of users and tokens are: who is taken out may only read from then on. One that
cannot be used changes nothing, and is said in the log.
"""

from pathlib import Path

from ground.files.reloaded_files import Exchanged
from ground.logins.login_files import check_name, lines_of


class BadOperatorsFile(Exception):
    """It cannot be used; names file and line."""


class OperatorsFile:
    """Any thread may ask."""

    def __init__(self, path: Path) -> None:
        """Raises BadOperatorsFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_operators(path),
            unusable=BadOperatorsFile,
            what="operators were changed",
        )
        _ = self._file.current

    def has(self, name: str) -> bool:
        return name in self._file.current


def read_operators(path: Path) -> frozenset[str]:
    """Raises BadOperatorsFile."""
    found = set()
    for number, name, rest in lines_of(path, BadOperatorsFile):
        try:
            check_name(name.strip())
        except ValueError:
            raise BadOperatorsFile(f"{path}, line {number}: not a name") from None
        if rest:
            raise BadOperatorsFile(f"{path}, line {number}: a name, and nothing behind it")
        found.add(name.strip())
    return frozenset(found)
