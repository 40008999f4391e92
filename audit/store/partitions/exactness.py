"""Stores offsets for which a tier reported different numbers of events and of offsets.

A passage of a hundred offsets and a hundred events (or rows, duplicates and dead letters) proves
that each offset became exactly one of these, in whichever window: a producer's time may differ from
the record's. If all passages are exact, sums of windows may differ, and still nothing is missing or
duplicated unless an offset is. Inexact passages are kept here:

Rule 1: A passage whose windows do not add up to its offsets: events without a record, records
        without an event, batches thinned out by compaction.
Rule 2: A loader's passage of offsets that it had claimed before: they may have landed twice.
Rebuilt hours are not reported by offset. They prove as much as the rows that they replace, if they
account for as many events in each window (`rebuilt`).
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow.compute as pc

from audit.reconciling.picture import Inexact, Placed, Rebuilt, Tier
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

# Windows in which a rebuild accounts for another number of events than the runs before it.
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
    """Stores inexact passages among those in `counted`. `over` marks passages that claim offsets
    again."""
    passages, windows = chunk.passages, chunk.windows
    events = np.zeros(len(passages), np.int64)
    np.add.at(events, windows.passage, windows.events + windows.duplicates + windows.dead)
    is_rebuilt = numbers(pc.list_value_length(chunk.entries.body.field("rebuilt"))) > 0
    is_inexact = counted & ((events != places.count) | over) & ~is_rebuilt[passages.entry]
    rows = np.flatnonzero(is_inexact & (chunk.tier[passages.entry] > 0))
    if not len(rows):
        return
    entry = passages.entry[rows]
    reported_hours = hours_of(chunk.entries.time[entry])
    grouping = grouped(
        chunk.topic[rows],
        chunk.tier[entry],
        passages.partition[rows],
        passages.epoch[rows],
        reported_hours,
    )
    columns: list[Numbers] = [
        grouping.least(places.first[rows]),
        grouping.most(places.next_offset[rows]),
        grouping.least(places.from_time[rows]),
        grouping.most(places.to_time[rows]),
    ]
    chunk.connection.executemany(
        _KEEP,
        zip(*(column.tolist() for column in (*grouping.keys, *columns)), strict=True),
    )


def of(
    connection: sqlite3.Connection, topic: int, tiers: dict[int, Tier], hours: Iterable[Placed]
) -> list[Inexact]:
    """Returns inexact spans, with all possible times of the events at these offsets."""
    places = np.array([hour[:5] for hour in hours], np.int64).reshape(-1, 5)
    spans = []
    for tier, partition, first, end, from_time, to_time in connection.execute(
        "SELECT tier, partition, first, next_offset, from_time, to_time FROM inexact"
        " WHERE topic = ? AND (topic, tier) NOT IN replaced ORDER BY tier, partition, first",
        (topic,),
    ):
        overlapping_hours = places[
            (places[:, 0] == partition) & (places[:, 1] < end) & (places[:, 2] > first)
        ]
        lowest_time = min(from_time, int(overlapping_hours[:, 3].min(initial=from_time)))
        highest_time = max(to_time, int(overlapping_hours[:, 4].max(initial=to_time)))
        spans.append(Inexact(tiers[tier], lowest_time, highest_time))
    return spans


def rebuilt_times(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> list[Rebuilt]:
    """Returns the rebuilt hours of this period."""
    rows = connection.execute(
        "SELECT DISTINCT tier, from_time, to_time FROM voided"
        " WHERE topic = ? AND from_time < ? AND to_time > ? AND (topic, tier) NOT IN replaced",
        (topic, to_time, from_time),
    )
    return [Rebuilt(tiers[tier], *times) for tier, *times in rows]


def rebuilt(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    from_time: int,
    to_time: int,
) -> list[Inexact]:
    """Returns windows of this period that were rebuilt with different sums."""
    rows = connection.execute(_REBUILT, (topic, from_time, to_time))
    return [Inexact(tiers[tier], *times) for tier, *times in rows]


def partitions(connection: sqlite3.Connection, topic: int) -> set[int]:
    rows = connection.execute("SELECT DISTINCT partition FROM inexact WHERE topic = ?", (topic,))
    return {partition for (partition,) in rows}
