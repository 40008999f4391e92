"""Offsets of which a tier has not said exactly as many events as there are.

A passage that speaks of a hundred offsets and of a hundred events (or rows, duplicates and dead
letters) proves that each of these became just one thing there, whatever windows they are counted
in: a producer's own time need not be the record's. Where all passages are so, windows need not have
equal sums, and nothing is missing or doubled where no offset is. What cannot prove it is kept here:

Rule 1: a passage whose windows do not make up its offsets: events without a record, records without
        an event, batches that compaction has thinned out.
Rule 2: a loader's passage of offsets that it has spoken of before: they may have landed twice.
Of hours that were rebuilt nothing is said by offset. What takes the place of others proves as much
as these did where it accounts for as many events, window by window (`rebuilt`).
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow.compute as pc

from audit.picture import Inexact, Placed, Tier
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Numbers, hours_of, numbers
from audit.store.folding.keyed_intervals import Mask, grouped
from audit.store.partitions.offsets import PassagePlaces

_KEEP: Final = """
INSERT INTO inexact VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = min(first, excluded.first),
    next_offset = max(next_offset, excluded.next_offset),
    from_time = min(from_time, excluded.from_time), to_time = max(to_time, excluded.to_time)
"""

# Windows in which a run that has rebuilt them accounts for other numbers than those before it.
_REBUILT: Final = """
SELECT DISTINCT sums.tier, start, start + length FROM voided
    JOIN sums ON sums.topic = voided.topic AND sums.tier = voided.tier AND sums.run <= voided.run
        AND start >= from_time AND start < to_time
    WHERE voided.topic = ?1 AND from_time < ?3 AND to_time > ?2
    AND start >= ?2 AND start < ?3 AND NOT EXISTS (
        SELECT 1 FROM voided AS later WHERE later.topic = sums.topic
        AND later.tier = sums.tier AND later.run > sums.run AND later.run < voided.run
        AND start >= later.from_time AND start < later.to_time)
    GROUP BY sums.tier, voided.run, start, length
    HAVING sum(CASE sums.run WHEN voided.run THEN 1 ELSE -1 END * (events + duplicates + dead))
        <> 0
"""


def keep(chunk: Chunk, places: PassagePlaces, counted: Mask, over: Mask) -> None:
    """Of passages that are `counted`; `over` are those that speak of something once more."""
    passages, windows = chunk.passages, chunk.windows
    events = np.zeros(len(passages), np.int64)
    np.add.at(events, windows.passage, windows.events + windows.duplicates + windows.dead)
    rebuilt = numbers(pc.list_value_length(chunk.entries.body.field("rebuilt"))) > 0
    odd = counted & ((events != places.count) | over) & ~rebuilt[passages.entry]
    at = np.flatnonzero(odd & (chunk.tier[passages.entry] > 0))
    if not len(at):
        return
    entry = passages.entry[at]
    said = hours_of(chunk.entries.time[entry])
    together = grouped(
        chunk.topic[at], chunk.tier[entry], passages.partition[at], passages.epoch[at], said
    )
    columns: list[Numbers] = [
        together.least(places.first[at]),
        together.most(places.next_offset[at]),
        together.least(places.from_time[at]),
        together.most(places.to_time[at]),
    ]
    chunk.connection.executemany(
        _KEEP,
        zip(*(each.tolist() for each in (*together.keys, *columns)), strict=True),
    )


def of(
    connection: sqlite3.Connection, topic: int, tiers: dict[int, Tier], hours: Iterable[Placed]
) -> list[Inexact]:
    """With all the times that events at these offsets may have."""
    places = np.array([each[:5] for each in hours], np.int64).reshape(-1, 5)
    found = []
    for tier, partition, first, after, from_time, to_time in connection.execute(
        "SELECT tier, partition, first, next_offset, from_time, to_time FROM inexact"
        " WHERE topic = ? AND (topic, tier) NOT IN replaced ORDER BY tier, partition, first",
        (topic,),
    ):
        here = places[(places[:, 0] == partition) & (places[:, 1] < after) & (places[:, 2] > first)]
        least = min(from_time, int(here[:, 3].min(initial=from_time)))
        most = max(to_time, int(here[:, 4].max(initial=to_time)))
        found.append(Inexact(tiers[tier], least, most))
    return found


def rebuilt(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> list[Inexact]:
    """Windows of this time that were rebuilt with other sums than they had."""
    rows = connection.execute(_REBUILT, (topic, from_time, to_time))
    return [Inexact(tiers[tier], *times) for tier, *times in rows]


def partitions(connection: sqlite3.Connection, topic: int) -> set[int]:
    rows = connection.execute("SELECT DISTINCT partition FROM inexact WHERE topic = ?", (topic,))
    return {partition for (partition,) in rows}
