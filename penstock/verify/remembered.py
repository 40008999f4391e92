"""The newest certificates that earlier runs have seen, in a file of the verifier.

    {"version": 1, "tables": {"clicks": {"number": 31, "sha256": "…"}}}

So an older state of a table, put back as a whole, is recognized. The file belongs where the owner
of the tables cannot write. It only moves forward: a table with a fault in its chain keeps its
entry. It is replaced atomically, after the check.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ground.files.durable_files import replace_file
from ground.known_types import known_type
from ground.printable import error_words
from ledger.hour_certificates import Reference

_VERSION: Final = 1
_MOST_BYTES: Final = 16 * 1024 * 1024


class BadMemory(Exception):
    """The file is not usable; the message says why."""


class _File(msgspec.Struct, frozen=True):
    version: int
    tables: dict[str, Reference]


def remembered_in(path: Path) -> dict[str, Reference]:
    """Returns the newest certificates by table; none if the file does not exist."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadMemory(f"{path} is longer than {_MOST_BYTES:,} bytes")
        content = msgspec.json.decode(path.read_bytes(), type=known_type(_File))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadMemory(f"{path}: {error_words(error)}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadMemory(f"{path} was not written by --remember: {error}") from None
    if content.version != _VERSION:
        raise BadMemory(f"{path} has the version {content.version}; this program knows {_VERSION}")
    return content.tables


def remember(path: Path, tables: Mapping[str, Reference]) -> None:
    """Replaces the file."""
    content = msgspec.json.encode(_File(_VERSION, dict(sorted(tables.items()))))
    try:
        replace_file(path, content + b"\n")
    except OSError as error:
        raise BadMemory(f"{path}: {error_words(error)}") from None
