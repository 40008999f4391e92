"""How many rows a statement has inserted, changed or deleted.

A cursor's own count is not asked: Python tells by the letters of a statement whether it changes
anything, and in a locale whose small letter for I is another one, as in Turkish, it takes INSERT
for something else.
"""

import sqlite3
from collections.abc import Iterable, Sequence

_Value = int | str | bytes | None


def changed(connection: sqlite3.Connection, statement: str, values: Sequence[_Value] = ()) -> int:
    before = connection.total_changes
    connection.execute(statement, values)
    return connection.total_changes - before


def all_changed(
    connection: sqlite3.Connection, statement: str, rows: Iterable[Sequence[_Value]]
) -> int:
    before = connection.total_changes
    connection.executemany(statement, rows)
    return connection.total_changes - before
