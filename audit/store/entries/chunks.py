"""A chunk's new entries with the numbers of all that they name: what the writers of tables get.

Numbers of texts are given by the one thread that writes, and remembered for as long as its
transactions succeed. After one that did not, everything must be forgotten: `forget`.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from audit.picture import TierKind
from audit.store.folding.columns import Entries, Numbers, Offsets, Passages, Runs, Windows
from audit.store.folding.keyed_intervals import Mask, grouped

_MOST: Final = 1_000_000  # remembered, of each table
_CHUNK: Final = 20_000  # asked for at once
_HALF: Final = 32  # bits: no table has more rows

Within = tuple[int | str, ...]


class NameNumbering:
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
        self.names = NameNumbering(connection, "names", "text")
        self.topic_names = NameNumbering(connection, "topic_names", "cluster", "topic")
        self.topics = NameNumbering(connection, "topics", "name", "topic_id")
        self.tiers = NameNumbering(connection, "tiers", "kind", "destination", "history")
        self.journals = NameNumbering(connection, "journals", "cluster", "journal")
        self.sources = NameNumbering(connection, "sources", "topic", "source")
        self.lag_series = NameNumbering(
            connection, "lag_series", "kind", "cluster", "topic", "name"
        )
        self.journal_topics = Pairs()

    def forget(self) -> None:
        for each in vars(self).values():
            each.forget()


KINDS: Final = tuple(each.value for each in TierKind)  # that have passages


class Chunk(msgspec.Struct, frozen=True):
    """`journal`, `host` and `tier` are by entry, `topic` by passage."""

    connection: sqlite3.Connection
    numbers: AllNumbers
    cluster: str
    entries: Entries
    journal: Numbers
    host: Numbers
    tier: Numbers
    topic: Numbers
    passages: Passages
    offsets: Offsets
    windows: Windows
    runs: Runs
    touched: set[tuple[int, int]] = set()  # topics and hours
    cut_topics: set[int] = set()  # topics with a log that was cut
    damaged_topics: set[int] = set()  # topics with a damaged batch
    replaced: set[int] = set()  # topics whose table is another than before

    @classmethod
    def of(
        cls,
        connection: sqlite3.Connection,
        numbers: AllNumbers,
        cluster: str,
        entries: Entries,
        journal: Numbers,
    ) -> "Chunk":
        passages = Passages.of(entries)
        topic = _topics(connection, numbers, cluster, entries, passages)
        return cls(
            connection,
            numbers,
            cluster,
            entries,
            journal,
            np.array(numbers.names.of(entries.host.values), np.int64)[entries.host.codes],
            _tiers(numbers, entries),
            topic,
            passages,
            Offsets.of(passages),
            Windows.of(entries, passages),
            Runs.of(passages),
        )

    def passages_of(self, *tiers: str) -> Mask:
        """Those of entries of these tiers."""
        mine = np.zeros(len(self.entries), np.bool_)
        for tier in tiers:
            mine |= self.entries.of_tier(tier)
        return np.asarray(mine[self.passages.entry])

    def touch(self, topic: Numbers, hour: Numbers) -> None:
        """These hours may be judged otherwise now."""
        together = grouped(topic, hour)
        self.touched.update(zip(*(each.tolist() for each in together.keys), strict=True))

    def topic_names(self, topics: list[str]) -> list[int]:
        """Numbers of topics whose ids are not said."""
        numbers, new = self.numbers.topic_names.given(topics, self.cluster)
        for each in new:
            self.numbers.topics.of([""], each)
        return numbers


def _tiers(numbers: AllNumbers, entries: Entries) -> Numbers:
    """Each commit log of a loader is one; what is said besides runs is of the destination."""
    found = np.zeros(len(entries), np.int64)
    committed = entries.of_tier(TierKind.HDFS) & (entries.run >= 0)
    history = np.where(committed, entries.journal.codes, -1)
    together = grouped(entries.tier.codes, entries.destination.codes, history)
    rows = together.order[together.begins]
    names = zip(
        entries.tier.take(rows),
        entries.destination.take(rows),
        entries.journal.take(rows),
        committed[rows].tolist(),
        strict=True,
    )
    of_group = [
        numbers.tiers.of(
            [journal if of_run else ""], kind, destination if kind == TierKind.HDFS else ""
        )[0]
        if kind in KINDS
        else 0
        for kind, destination, journal, of_run in names
    ]
    sizes = together.ends - together.begins
    found[together.order] = np.repeat(np.array(of_group, np.int64), sizes)
    return found


def _topics(
    connection: sqlite3.Connection,
    numbers: AllNumbers,
    cluster: str,
    entries: Entries,
    passages: Passages,
) -> Numbers:
    """And when they were last spoken of."""
    together = grouped(passages.topic.codes, passages.topic_id.codes)
    rows = together.order[together.begins]
    names = numbers.topic_names.of(passages.topic.take(rows), cluster)
    ids = passages.topic_id.take(rows)
    topics = [
        numbers.topics.of([topic_id], name)[0] for name, topic_id in zip(names, ids, strict=True)
    ]
    last = together.most(entries.time[passages.entry])
    connection.executemany(
        "UPDATE topics SET last = max(last, ?) WHERE id = ?",
        zip(last.tolist(), topics, strict=True),
    )
    found = np.zeros(len(passages), np.int64)
    sizes = together.ends - together.begins
    found[together.order] = np.repeat(np.array(topics, np.int64), sizes)
    return found
