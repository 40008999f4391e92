"""A chunk's new entries with the numbers of all that they name: what the writers of tables get."""

import sqlite3
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from audit.folding.columns import (
    Entries,
    Numbers,
    Offsets,
    Passages,
    Runs,
    Windows,
)
from audit.folding.grouping import grouped
from audit.folding.keyed import Mask
from audit.picture import TierKind
from audit.store.numbers import AllNumbers

KINDS: Final = tuple(each.value for each in TierKind)  # that have passages


@dataclass(frozen=True, slots=True)
class Chunk:
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
    touched: set[tuple[int, int]] = field(default_factory=set)  # topics and hours
    cut_topics: set[int] = field(default_factory=set)  # of which a log was found to be cut
    replaced: set[int] = field(default_factory=set)  # topics whose table is another than before

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
