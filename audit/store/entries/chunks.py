"""A chunk's new entries, with the ids of everything that they name, from which all tables are
written.

The writer thread assigns ids to texts and caches them while its transactions succeed. After a
failed one, the caches must be cleared: `forget`.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from audit.reconciling.picture import TierKind
from audit.store.folding.columns import Entries, Numbers, Offsets, Passages, Runs, Windows
from audit.store.folding.keyed_intervals import Mask, grouped

_MOST: Final = 1_000_000  # cached, of each table
_CHUNK: Final = 20_000  # looked up at once
_HALF: Final = 32  # bits: no table has more rows

Within = tuple[int | str, ...]


class NameNumbering:
    """The ids of one table whose rows are identified by a text and the columns that qualify it."""

    def __init__(self, connection: sqlite3.Connection, table: str, *columns: str) -> None:
        """The last column has the text."""
        self._connection = connection
        *qualifiers, text = columns
        conditions = "".join(f" AND {column} = ?" for column in qualifiers)
        self._select = (
            f"SELECT id, {text} FROM {table}"  # noqa: S608
            f" WHERE {text} IN (SELECT value FROM json_each(?)){conditions}"
        )
        marks = ", ".join("?" * (len(columns) + 1))
        column_names = ", ".join((*columns, "id"))
        self._insert = f"INSERT INTO {table} ({column_names}) VALUES ({marks})"  # noqa: S608
        self._greatest = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608
        self._known: dict[Within, dict[str, int]] = {}
        self._count = 0  # of cached ids
        self._next = 0

    def forget(self) -> None:
        self._known.clear()
        self._count = self._next = 0

    def of(self, texts: Sequence[str], *within: int | str) -> list[int]:
        """Returns the ids of texts, assigning new ones."""
        return self.given(texts, *within)[0]

    def given(self, texts: Sequence[str], *within: int | str) -> tuple[list[int], list[int]]:
        """Returns the ids of texts, and the mask of new texts."""
        known_ids = self._known.setdefault(within, {})
        unknown_texts = {text: None for text in texts if text not in known_ids}
        new_ids: list[int] = []
        if unknown_texts:
            if self._count > _MOST:
                self._known, known_ids, self._count = {}, {}, 0
                self._known[within] = known_ids
                unknown_texts = dict.fromkeys(texts)
            count_before = len(known_ids)
            self._look_up(known_ids, list(unknown_texts), within)
            new_ids = self._add(
                known_ids, [text for text in unknown_texts if text not in known_ids], within
            )
            self._count += len(known_ids) - count_before
        return [known_ids[text] for text in texts], new_ids

    def _look_up(self, known: dict[str, int], texts: Sequence[str], within: Within) -> None:
        for begin in range(0, len(texts), _CHUNK):
            names = msgspec.json.encode(texts[begin : begin + _CHUNK]).decode()
            rows = self._connection.execute(self._select, (names, *within))
            known.update({text: number for number, text in rows})

    def _add(self, known: dict[str, int], texts: Sequence[str], within: Within) -> list[int]:
        if not texts:
            return []
        if not self._next:
            ((self._next,),) = self._connection.execute(self._greatest).fetchall()
        numbers = list(range(self._next + 1, self._next + 1 + len(texts)))
        self._next += len(texts)
        rows = ((*within, text, number) for text, number in zip(texts, numbers, strict=True))
        self._connection.executemany(self._insert, rows)
        known.update(zip(texts, numbers, strict=True))
        return numbers


class Pairs:
    """Remembers pairs of ids that are in a table."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._known = np.empty(0, np.int64)

    def added(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Adds pairs, and returns the mask of new pairs."""
        pairs = (left << _HALF) | right
        places = np.searchsorted(self._known, pairs)
        is_new = np.ones(len(pairs), np.bool_)
        is_within = places < len(self._known)
        is_new[is_within] = self._known[places[is_within]] != pairs[is_within]
        if is_new.any():
            known_pairs = self._known if len(self._known) < _MOST else self._known[:0]
            self._known = np.union1d(known_pairs, pairs)
        return is_new


class AllNumbers:
    """The ids of all tables."""

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
        for table in vars(self).values():
            table.forget()


KINDS: Final = tuple(kind.value for kind in TierKind)  # that have passages


class Chunk(msgspec.Struct, frozen=True):
    """A chunk's entries, with ids: `journal`, `host` and `tier` by entry, `topic` by passage."""

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
    replaced: set[int] = set()  # topics that another table replaced

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
        """Returns the mask of passages in entries of these tiers."""
        is_of_tiers = np.zeros(len(self.entries), np.bool_)
        for tier in tiers:
            is_of_tiers |= self.entries.of_tier(tier)
        return np.asarray(is_of_tiers[self.passages.entry])

    def touch(self, topic: Numbers, hour: Numbers) -> None:
        """Marks these hours for judgement."""
        grouping = grouped(topic, hour)
        self.touched.update(zip(*(column.tolist() for column in grouping.keys), strict=True))

    def topic_names(self, topics: list[str]) -> list[int]:
        """Returns the ids of topics' names, for statements without topic ids."""
        numbers, new_names = self.numbers.topic_names.given(topics, self.cluster)
        for name_id in new_names:
            self.numbers.topics.of([""], name_id)
        return numbers


def _tiers(numbers: AllNumbers, entries: Entries) -> Numbers:
    """Returns the tier of each entry. Each commit log of a loader is a tier; entries without a run
    belong to the destination."""
    tiers = np.zeros(len(entries), np.int64)
    is_commit = entries.of_tier(TierKind.HDFS) & (entries.run >= 0)
    history = np.where(is_commit, entries.journal.codes, -1)
    grouping = grouped(entries.tier.codes, entries.destination.codes, history)
    rows = grouping.order[grouping.begins]
    group_keys = zip(
        entries.tier.take(rows),
        entries.destination.take(rows),
        entries.journal.take(rows),
        is_commit[rows].tolist(),
        strict=True,
    )
    group_tiers = [
        numbers.tiers.of(
            [journal if run else ""], kind, destination if kind == TierKind.HDFS else ""
        )[0]
        if kind in KINDS
        else 0
        for kind, destination, journal, run in group_keys
    ]
    lengths = grouping.ends - grouping.begins
    tiers[grouping.order] = np.repeat(np.array(group_tiers, np.int64), lengths)
    return tiers


def _topics(
    connection: sqlite3.Connection,
    numbers: AllNumbers,
    cluster: str,
    entries: Entries,
    passages: Passages,
) -> Numbers:
    """Returns the topic of each passage, and keeps when topics were last reported."""
    grouping = grouped(passages.topic.codes, passages.topic_id.codes)
    rows = grouping.order[grouping.begins]
    names = numbers.topic_names.of(passages.topic.take(rows), cluster)
    ids = passages.topic_id.take(rows)
    topics = [
        numbers.topics.of([topic_id], name)[0] for name, topic_id in zip(names, ids, strict=True)
    ]
    last_times = grouping.most(entries.time[passages.entry])
    connection.executemany(
        "UPDATE topics SET last = max(last, ?) WHERE id = ?",
        zip(last_times.tolist(), topics, strict=True),
    )
    topic_of_passage = np.zeros(len(passages), np.int64)
    lengths = grouping.ends - grouping.begins
    topic_of_passage[grouping.order] = np.repeat(np.array(topics, np.int64), lengths)
    return topic_of_passage
