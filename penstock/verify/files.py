"""Checks one file against its digest: reads it once, and counts its rows if its footer has them.

A footer is parsed only after the digest was right, so nothing that a stranger has written is
parsed.
"""

import hashlib
from io import RawIOBase
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from ground.printable import error_words
from penstock.verify.faults import Fault, Kind
from penstock.verify.store import Store, Unreadable

_PIECE_BYTES: Final = 1024 * 1024
_PARQUET: Final = ".parquet"
_ORC: Final = ".orc"


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file."""

    bytes: int = 0
    rows: int | None = None  # None if its format does not count them
    fault: Fault | None = None


def check_file(store: Store, path: str, sha256: str) -> CheckedFile:
    """Reads a file and compares its digest."""
    try:
        file = store.open(path)
        if file is None:
            return _faulty(Kind.MISSING_FILE, path, "is certified, and is missing")
        with file:
            digest, size = _digest(file)
            if digest != sha256:
                words = f"is not the file that was certified: it has {size:,} bytes, and the digest"
                return _faulty(Kind.CHANGED_FILE, path, f"{words} {digest}")
            try:
                rows = _rows(file, path)
            except (pa.ArrowException, ValueError, OSError) as error:
                words = f"has the right digest, and no readable footer: {error_words(error)}"
                return _faulty(Kind.WRONG_ROWS, path, words)
            return CheckedFile(bytes=size, rows=rows)
    except Unreadable as error:
        return _faulty(Kind.UNREADABLE, path, str(error))
    except OSError as error:
        return _faulty(Kind.UNREADABLE, path, error_words(error))


def _digest(file: RawIOBase) -> tuple[str, int]:
    digest = hashlib.sha256()
    piece = memoryview(bytearray(_PIECE_BYTES))
    size = 0
    while count := file.readinto(piece):
        digest.update(piece[:count])
        size += count
    return digest.hexdigest(), size


def _rows(file: RawIOBase, path: str) -> int | None:
    file.seek(0)
    if path.endswith(_PARQUET):
        return int(parquet.read_metadata(file).num_rows)
    if path.endswith(_ORC):
        # Not every build of pyarrow has it.
        from pyarrow import orc  # noqa: PLC0415

        return int(orc.ORCFile(file).nrows)
    return None


def _faulty(kind: Kind, path: str, words: str) -> CheckedFile:
    return CheckedFile(fault=Fault(kind=kind, path=path, words=words))
