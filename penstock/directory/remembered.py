"""`up.json`: what the next start goes on with, and where others find the programs.

    {"version": 1, "ports": {"zookeeper": 2181, "broker": 9092, …}}

It is replaced as a whole. Who deletes it gets the usual ports again.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from ground.durable_files import replace_file
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.places import Places, Ports

VERSION: Final = 1
_LONGEST: Final = 64 * 1024


class RememberedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content."""

    version: int
    ports: dict[str, int]


def remembered_ports(directory: Path) -> Ports:
    """Those of the last start; the usual ones, if there was none. Raises DirectoryUnusable."""
    path = Places(directory).remembered
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST)
    except (FileNotFoundError, NotADirectoryError):  # others say what is wrong with the directory
        return Ports()
    except OSError as error:
        raise DirectoryUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        remembered = msgspec.json.decode(text, type=RememberedStart)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DirectoryUnusable(f"{path}: {error}: delete it to have the usual ports") from None
    if remembered.version != VERSION:
        raise DirectoryUnusable(
            f"{path} is of version {remembered.version}, and this Penstock knows {VERSION}: "
            "use the newer one, or delete the file to have the usual ports"
        )
    known: dict[str, Any] = {
        name: port
        for name, port in remembered.ports.items()
        if name in Ports._fields and 0 < port < 65_536
    }
    ports = Ports(**known)
    if len(set(ports)) < len(ports):
        raise DirectoryUnusable(f"{path} has one port twice: delete it to have the usual ports")
    return ports


def remember(places: Places, ports: Ports) -> None:
    """Raises OSError."""
    content = RememberedStart(version=VERSION, ports=ports._asdict())
    replace_file(places.remembered, msgspec.json.encode(content) + b"\n")
