"""The database's file: opened, checked after an unclean end, moved aside if it is damaged.

A file beside it, `audit.open`, says that somebody has it open. If it is there when it is opened,
the last one did not close it, and SQLite is asked whether all is well; it repairs by itself what a
kill leaves behind. A database of another version is damaged in our eyes: it is built anew.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from audit.store.errors import StoreDamaged, StoreError, TooMuch
from audit.store.tables import TABLES, VERSION

FILE: Final = "audit.db"
MARK: Final = "audit.open"
_BESIDE: Final = ("", "-wal", "-shm")
_CACHE_KB: Final = 65_536
_READER_CACHE_KB: Final = 8_192
_WAL_PAGES: Final = 12_000  # pages that change with every chunk are written back seldom
_MOST_WAL_BYTES: Final = 128 * 1024 * 1024
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TOO_MUCH: Final = {
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}


def open_for_writing(directory: Path) -> sqlite3.Connection:
    """Raises StoreDamaged, StoreError."""
    path, mark = directory / FILE, directory / MARK
    with damage_said(path):
        directory.mkdir(parents=True, exist_ok=True)
        unclean = mark.exists()
        mark.touch()
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path, check=unclean)
        except BaseException:
            connection.close()
            raise
        return connection


def closed(directory: Path) -> None:
    """All connections are closed, and all is well."""
    (directory / MARK).unlink(missing_ok=True)


def open_for_reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KB}")
    connection.execute("PRAGMA query_only = 1")
    return connection


def moved_aside(directory: Path) -> Path | None:
    """Where the damaged database is now; the one that was moved before is gone."""
    path = directory / FILE
    aside = path.with_name(f"{FILE}.damaged")
    if not path.exists():
        return None
    for suffix in _BESIDE:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    (directory / MARK).unlink(missing_ok=True)
    return aside


@contextlib.contextmanager
def damage_said(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGE:
            raise StoreDamaged(f"{path} is damaged ({error}): it must be built anew") from None
        if code in _TOO_MUCH:
            raise TooMuch(f"{path}: {error}") from error
        raise StoreError(f"{path}: {error}") from error


def _prepare(connection: sqlite3.Connection, path: Path, *, check: bool) -> None:
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if not version:
        connection.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, TABLES.split(";\n")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    elif version != VERSION:
        raise StoreDamaged(f"{path} is of version {version}, not {VERSION}: it must be built anew")
    elif check:
        found = connection.execute("PRAGMA quick_check(1)").fetchall()
        if found != [("ok",)]:
            raise StoreDamaged(f"{path} is damaged ({found[0][0]}): it must be built anew")
