"""The file of operators, who may accept faults and retire hosts: one name per line.

A name is that of a user, of a token, or from the proxy's header. The file is read again when it
changes, like those of users and tokens. An invalid file is logged, and changes nothing.
"""

from pathlib import Path

from ground.files.reloaded_files import Exchanged
from ground.logins.login_files import check_name, lines_of


class BadOperatorsFile(Exception):
    """The file of operators is invalid; the message names the file and line."""


class OperatorsFile:
    """The names in the file, for any thread."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises BadOperatorsFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_operators(path),
            unusable=BadOperatorsFile,
            what="operators",
        )
        _ = self._file.current

    def has(self, name: str) -> bool:
        return name in self._file.current


def read_operators(path: Path) -> frozenset[str]:
    """Reads the names. Raises BadOperatorsFile."""
    names = set()
    for number, name, rest in lines_of(path, BadOperatorsFile):
        try:
            check_name(name.strip())
        except ValueError:
            raise BadOperatorsFile(f"{path}, line {number}: not a valid name") from None
        if rest:
            raise BadOperatorsFile(f"{path}, line {number}: unexpected text after the name")
        names.add(name.strip())
    return frozenset(names)
