"""The numbers of texts: given by the one thread that writes, and remembered for as long as its
transactions succeed. After one that did not, everything must be forgotten: `forget`.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

_MOST: Final = 1_000_000  # remembered, of each table
_CHUNK: Final = 20_000  # asked for at once
_HALF: Final = 32  # bits: no table has more rows

Within = tuple[int | str, ...]


class Numbers:
    """Of one table, whose rows are named by a text and what the text is within."""

    def __init__(self, connection: sqlite3.Connection, table: str, *columns: str) -> None:
        """The last column is the text."""
        self._connection = connection
        *within, text = columns
        conditions = "".join(f" AND {column} = ?" for column in within)
        self._select = (
            f"SELECT id, {text} FROM {table}"  # noqa: S608
            f" WHERE {text} IN (SELECT value FROM json_each(?)){conditions}"
        )
        marks = ", ".join("?" * (len(columns) + 1))
        names = ", ".join((*columns, "id"))
        self._insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
        self._greatest = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608
        self._known: dict[Within, dict[str, int]] = {}
        self._count = 0  # of those that are known
        self._next = 0

    def forget(self) -> None:
        self._known.clear()
        self._count = self._next = 0

    def of(self, texts: Sequence[str], *within: int | str) -> list[int]:
        """Those that have none are given one."""
        return self.given(texts, *within)[0]

    def given(self, texts: Sequence[str], *within: int | str) -> tuple[list[int], list[int]]:
        """The numbers, and which of them are new."""
        known = self._known.setdefault(within, {})
        unknown = {text: None for text in texts if text not in known}
        new: list[int] = []
        if unknown:
            if self._count > _MOST:
                self._known, known, self._count = {}, {}, 0
                self._known[within] = known
                unknown = dict.fromkeys(texts)
            before = len(known)
            self._look_up(known, list(unknown), within)
            new = self._add(known, [text for text in unknown if text not in known], within)
            self._count += len(known) - before
        return [known[text] for text in texts], new

    def _look_up(self, known: dict[str, int], texts: Sequence[str], within: Within) -> None:
        for at in range(0, len(texts), _CHUNK):
            asked = msgspec.json.encode(texts[at : at + _CHUNK]).decode()
            rows = self._connection.execute(self._select, (asked, *within))
            known.update({text: number for number, text in rows})

    def _add(self, known: dict[str, int], texts: Sequence[str], within: Within) -> list[int]:
        if not texts:
            return []
        if not self._next:
            ((self._next,),) = self._connection.execute(self._greatest).fetchall()
        numbers = list(range(self._next + 1, self._next + 1 + len(texts)))
        self._next += len(texts)
        rows = ((*within, text, at) for text, at in zip(texts, numbers, strict=True))
        self._connection.executemany(self._insert, rows)
        known.update(zip(texts, numbers, strict=True))
        return numbers


class Pairs:
    """Of two numbers each, that are known to be in a table."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._known = np.empty(0, np.int64)

    def added(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of them were not known; from now on they are."""
        pairs = (one << _HALF) | other
        place = np.searchsorted(self._known, pairs)
        new = np.ones(len(pairs), np.bool_)
        there = place < len(self._known)
        new[there] = self._known[place[there]] != pairs[there]
        if new.any():
            known = self._known if len(self._known) < _MOST else self._known[:0]
            self._known = np.union1d(known, pairs)
        return new


class AllNumbers:
    """Of everything that has some."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.names = Numbers(connection, "names", "text")
        self.topic_names = Numbers(connection, "topic_names", "cluster", "topic")
        self.topics = Numbers(connection, "topics", "name", "topic_id")
        self.tiers = Numbers(connection, "tiers", "kind", "destination", "history")
        self.journals = Numbers(connection, "journals", "cluster", "journal")
        self.sources = Numbers(connection, "sources", "topic", "source")
        self.journal_topics = Pairs()

    def forget(self) -> None:
        for each in vars(self).values():
            each.forget()
