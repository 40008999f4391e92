"""A chunk of entries on its way into the tables: numbers first, then offsets, as these say what was
counted already, then all the rest. Within a transaction of whoever calls.
"""

import sqlite3

import numpy as np
import pyarrow as pa

from audit.folding.columns import Entries, Numbers, numbers
from audit.folding.grouping import grouped
from audit.picture import TopicKey
from audit.store import (
    agents,
    copies,
    details,
    exactness,
    generations,
    histories,
    journals,
    offsets,
    placed,
    sources,
    statements,
    sums,
)
from audit.store.chunks import Chunk
from audit.store.numbers import AllNumbers
from audit.store.rows import Touched
from ledger.names import VERSION


def fold(
    connection: sqlite3.Connection,
    numbers_: AllNumbers,
    cluster: str,
    body: pa.StructArray,
    now: int,
) -> Touched:
    """Of hosts whose clock is ahead nothing is taken for later than `now`."""
    if not len(body):
        return Touched(set())
    entries = Entries.of(body, now)
    seen = journals.take(connection, numbers_, cluster, entries)
    known = numbers(body.field("version")) <= VERSION
    known &= ~entries.of_tier("unknown")
    named = np.array([bool(text) for text in entries.journal.values])[entries.journal.codes]
    left_out = int((~named | (seen.new & ~known)).sum())
    mine = seen.new & known
    repeated = len(body) - left_out - int(mine.sum())
    if not mine.any():
        return Touched(set(), 0, repeated, left_out)
    journal = seen.journal
    if not mine.all():
        body = body.filter(pa.array(mine))
        entries, journal = Entries.of(body, now), journal[mine]
    chunk = Chunk.of(connection, numbers_, cluster, entries, journal)
    newest = _came(connection, cluster, entries)
    _fold(chunk, newest)
    details.drop(connection, cluster, newest)
    hours = _named(connection, chunk.touched)
    return Touched(hours, len(entries), repeated, left_out)


def _fold(chunk: Chunk, newest: int) -> None:
    agents.keep(chunk)
    statements.keep_withdrawn(chunk)
    places = offsets.Places.of(chunk)
    if len(chunk.passages):
        generations.keep(chunk, places.first, places.next_offset, places.count)
        claimed = offsets.claim(chunk, places)
        offsets.keep_spans(chunk, places, claimed, newest)
        placed.keep(chunk, places)
        sums.add(chunk, claimed.counted)
        sums.keep_uncounted(chunk, claimed.partly)
        exactness.keep(chunk, places, claimed.counted, claimed.over)
        histories.keep(chunk)
        _keep_writers(chunk)
    source = sources.keep(chunk, places)
    if len(chunk.passages):
        details.keep(chunk, places, source)
    copies.keep(chunk, source)
    statements.keep(chunk)
    details.look_again(chunk)


def _keep_writers(chunk: Chunk) -> None:
    """Who speaks of which topics: to these his missing entries matter."""
    name = chunk.numbers.topic_names
    codes = np.array(name.of(chunk.passages.topic.values, chunk.cluster), np.int64)
    journal: Numbers = chunk.journal[chunk.passages.entry]
    pairs = grouped(codes[chunk.passages.topic.codes], journal).keys
    new = chunk.numbers.journal_topics.added(*pairs)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO journal_topics VALUES (?, ?)",
        zip(*(each[new].tolist() for each in pairs), strict=True),
    )


def _came(connection: sqlite3.Connection, cluster: str, entries: Entries) -> int:
    """How far the cluster's ledger has come in time. Most clocks are right."""
    middle = (len(entries) - 1) // 2
    connection.execute(
        "INSERT INTO positions (cluster, positions, newest) VALUES (?, x'', ?)"
        " ON CONFLICT DO UPDATE SET newest = max(newest, excluded.newest)",
        (cluster, int(np.partition(entries.time, middle)[middle])),
    )
    ((newest,),) = connection.execute(
        "SELECT newest FROM positions WHERE cluster = ?", (cluster,)
    ).fetchall()
    return int(newest)


def _named(
    connection: sqlite3.Connection, touched: set[tuple[int, int]]
) -> set[tuple[TopicKey, int]]:
    topics = {topic for topic, _ in touched}
    keys = {
        topic: TopicKey(*rest)
        for topic, *rest in connection.execute(
            "SELECT topics.id, cluster, topic, topic_id FROM topics JOIN topic_names"
            " ON topic_names.id = name WHERE topics.id IN (SELECT value FROM json_each(?))"
            " AND topic NOT LIKE '\\_%' ESCAPE '\\'",
            (str(sorted(topics)),),
        )
    }
    return {(keys[topic], hour) for topic, hour in touched if topic in keys}
