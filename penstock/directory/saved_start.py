"""`up.json`: the options of the last `penstock up`, for the next start and other commands.

    {"version": 1, "ports": {"zookeeper": 2181, "broker": 9092, …}, "secure": true,
     "mirror": {"offline_broker": 9192, …}}

The file is replaced as a whole. If it is deleted, the next start has the usual ports. A secure
pipeline stays secure: without the file, a directory with keys is secure, and one with a mirror's
data has two clusters.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ground.files.durable_files import replace_file
from ground.known_types import known_type
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.locks import Locks
from penstock.directory.places import MirrorPorts, Places, Ports

VERSION: Final = 1
_LONGEST: Final = 64 * 1024


class SavedStart(NamedTuple):
    """The options of the last start; the default options if there was no start."""

    ports: Ports = Ports()
    secure: bool = False
    there_was_one: bool = True
    mirror: MirrorPorts | None = None  # of the second cluster, into which the first is copied


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `up.json`."""

    version: int
    ports: dict[str, int]
    secure: bool | None = None
    mirror: dict[str, int] | None = None


def load_start(directory: Path) -> SavedStart:
    """Reads the options of the last start. Raises DirectoryUnusable."""
    path = Places(directory).saved_start
    try:
        has_keys = Locks.of(Places(directory)).ca.exists()
        mirror = MirrorPorts() if Places(directory).data("mirror").exists() else None
        with path.open("rb") as file:
            text = file.read(_LONGEST)
    except (FileNotFoundError, NotADirectoryError):  # reported later, with its reason
        return SavedStart(secure=has_keys, there_was_one=False, mirror=mirror)
    except OSError as error:
        raise DirectoryUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        content = msgspec.json.decode(text, type=known_type(_Content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DirectoryUnusable(
            f"{path}: {error}: delete it to start with the usual ports"
        ) from None
    if content.version != VERSION:
        raise DirectoryUnusable(
            f"{path} has version {content.version}, and this release reads version {VERSION}: "
            "use the newer release, or delete the file to start with the usual ports"
        )
    ports = Ports(**_known(content.ports, Ports._fields))
    if content.mirror is not None:
        mirror = MirrorPorts(**_known(content.mirror, MirrorPorts._fields))
    all_ports = [*ports, *(mirror or ())]
    if len(set(all_ports)) < len(all_ports):
        raise DirectoryUnusable(
            f"{path} names a port twice: delete it to start with the usual ports"
        )
    is_secure = has_keys if content.secure is None else content.secure
    return SavedStart(ports, is_secure, mirror=mirror)


def _known(ports: Mapping[str, int], names: Collection[str]) -> dict[str, Any]:
    return {name: port for name, port in ports.items() if name in names and 0 < port < 65_536}


def save_start(places: Places, start: SavedStart) -> None:
    """Saves the options of this start. Raises OSError."""
    content = _Content(
        version=VERSION,
        ports=start.ports._asdict(),
        secure=start.secure,
        mirror=start.mirror and start.mirror._asdict(),
    )
    replace_file(places.saved_start, msgspec.json.encode(content) + b"\n")
