"""`up.json`: what the next start goes on with, and where others find the programs.

    {"version": 1, "ports": {"zookeeper": 2181, "broker": 9092, …}, "secure": true}

It is replaced as a whole. Who deletes it gets the usual ports again. Locks are not taken off by
that: where it does not say, a pipeline that has keys is behind them.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ground.durable_files import replace_file
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.locks import Locks
from penstock.directory.places import Places, Ports

VERSION: Final = 1
_LONGEST: Final = 64 * 1024


class RememberedStart(NamedTuple):
    """The last one; the usual one, if there was none."""

    ports: Ports = Ports()
    secure: bool = False
    there_was_one: bool = True


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    """The file's."""

    version: int
    ports: dict[str, int]
    secure: bool | None = None


def remembered(directory: Path) -> RememberedStart:
    """Raises DirectoryUnusable."""
    path = Places(directory).remembered
    try:
        has_keys = Locks.of(Places(directory)).ca.exists()
        with path.open("rb") as file:
            text = file.read(_LONGEST)
    except (FileNotFoundError, NotADirectoryError):  # others say what is wrong with the directory
        return RememberedStart(secure=has_keys, there_was_one=False)
    except OSError as error:
        raise DirectoryUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        content = msgspec.json.decode(text, type=_Content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DirectoryUnusable(f"{path}: {error}: delete it to have the usual ports") from None
    if content.version != VERSION:
        raise DirectoryUnusable(
            f"{path} is of version {content.version}, and this Penstock knows {VERSION}: "
            "use the newer one, or delete the file to have the usual ports"
        )
    known: dict[str, Any] = {
        name: port
        for name, port in content.ports.items()
        if name in Ports._fields and 0 < port < 65_536
    }
    ports = Ports(**known)
    if len(set(ports)) < len(ports):
        raise DirectoryUnusable(f"{path} has one port twice: delete it to have the usual ports")
    return RememberedStart(ports, has_keys if content.secure is None else content.secure)


def remember(places: Places, start: RememberedStart) -> None:
    """Raises OSError."""
    content = _Content(version=VERSION, ports=start.ports._asdict(), secure=start.secure)
    replace_file(places.remembered, msgspec.json.encode(content) + b"\n")
