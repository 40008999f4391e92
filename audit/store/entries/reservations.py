"""Keeps which agents send no digests of their passages, and tells on how many journals without
signatures or digests a topic's verdict rests.

An agent sends none with `proof: off`, and neither does an earlier release; then no loader can
compare what it read with what the agent sent. Only these are stored, by topic, with the time of
their first and last passage without a digest.
"""

import sqlite3
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from audit.reconciling.picture import TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import numbers
from audit.store.folding.keyed_intervals import grouped

_KEEP: Final = """
INSERT INTO undigested VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET first = min(first, excluded.first), last = max(last, excluded.last)
"""
# A journal that got its key later was unsigned before.
_WRITERS: Final = """
SELECT coalesce(journal_keys.tier, journals.tier), count(*),
    sum(key IS NULL OR (since > max(?2, first_time))),
    sum(undigested.journal IS NOT NULL AND undigested.last >= ?2 AND undigested.first < ?3)
    FROM journal_topics JOIN journals ON journals.id = journal_topics.journal
    LEFT JOIN journal_keys ON journal_keys.cluster = journals.cluster
        AND journal_keys.journal = journals.journal
    LEFT JOIN undigested ON undigested.name = journal_topics.name
        AND undigested.journal = journals.id
    WHERE journal_topics.name = ?1 AND last_time >= ?2 AND first_time < ?3 GROUP BY 1
"""


class Writers(NamedTuple):
    """The journals of one tier that are about a topic, and how many of them are unsigned or, of
    agents, without digests."""

    tier: str
    journals: int
    unsigned: int
    undigested: int


def keep(chunk: Chunk) -> None:
    """Keeps the agents' passages without a digest."""
    passages = chunk.passages
    lengths = numbers(pc.fill_null(pc.binary_length(passages.struct.field("digest")), 0))
    has_offsets = numbers(pc.list_value_length(passages.struct.field("offsets"))) > 0
    rows = np.flatnonzero(chunk.passages_of(TierKind.AGENT) & has_offsets & (lengths == 0))
    if not len(rows):
        return
    topics = passages.topic
    names = np.array(chunk.numbers.topic_names.of(topics.values, chunk.cluster), np.int64)
    entry = passages.entry[rows]
    grouping = grouped(names[topics.codes[rows]], chunk.journal[entry])
    times = chunk.entries.time[entry]
    columns = (*grouping.keys, grouping.least(times), grouping.most(times))
    chunk.connection.executemany(_KEEP, zip(*(column.tolist() for column in columns), strict=True))


def writers(
    connection: sqlite3.Connection, name: int, from_time: int, to_time: int
) -> list[Writers]:
    """Returns the journals about a topic, given by the id of its name, in a period."""
    rows = connection.execute(_WRITERS, (name, from_time, to_time))
    return [Writers(*row) for row in rows]
