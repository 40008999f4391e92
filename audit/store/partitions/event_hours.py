"""Stores the hours of event time of a partition's offsets for as long as windows are stored: spans
are dropped once all tiers have passed them, but damage or gaps may be found later.

Rows are by hour of event time and hour of the report, so that one late event does not stretch an
hour over everything in between.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from audit.reconciling.picture import (
    AlteredBatch,
    PartitionPicture,
    Placed,
    Tier,
    TierKind,
    UncomparedOffsets,
)
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import hours_of
from audit.store.folding.keyed_intervals import grouped, pairs_of
from audit.store.partitions.generations import STRIDE, Generations
from audit.store.partitions.offsets import PassagePlaces
from ground.intervals import Interval, intersection, merged, minus, upto

_FOR_EVER: Final = 1 << 60
_UP_TO_THE_LOG: Final = {TierKind.AGENT, TierKind.BROKER}
_ORDER: Final = list(TierKind)
_KEEP: Final = """
INSERT INTO placed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = min(first, excluded.first),
    next_offset = max(next_offset, excluded.next_offset), to_time = max(to_time, excluded.to_time),
    time = min(time, excluded.time)
"""

# Offsets of an hour, with what each loader has claimed of their partition: the whole partition of
# a topic that was never loaded.
_AWAITED: Final = """
SELECT placed.first, placed.next_offset, placed.time, loaders.tier, claimed.intervals
FROM (SELECT DISTINCT partition FROM claimed WHERE topic = ?1) AS partitions
CROSS JOIN placed ON placed.topic = ?1 AND placed.partition = partitions.partition
    AND placed.hour = ?2
LEFT JOIN (SELECT tier FROM topic_tiers JOIN tiers ON tiers.id = tier WHERE topic = ?1
    AND kind = 'hdfs' AND (topic, tier) NOT IN replaced) AS loaders
LEFT JOIN claimed ON claimed.topic = ?1 AND claimed.partition = placed.partition
    AND claimed.tier = loaders.tier
"""


def keep(chunk: Chunk, places: PassagePlaces) -> None:
    """Stores the hours of agents' and brokers' passages. Loaders' passages are too coarse, because
    they span everything that a run has read."""
    rows = np.flatnonzero((places.count > 0) & chunk.passages_of("agent", "broker"))
    reported_times = chunk.entries.time[chunk.passages.entry[rows]]
    grouping = grouped(
        chunk.topic[rows],
        chunk.passages.partition[rows],
        hours_of(places.from_time[rows]),
        hours_of(reported_times),
        chunk.passages.epoch[rows],
    )
    chunk.connection.executemany(
        _KEEP,
        zip(
            *(key.tolist() for key in grouping.keys),
            grouping.least(places.first[rows]).tolist(),
            grouping.most(places.next_offset[rows]).tolist(),
            grouping.most(places.to_time[rows]).tolist(),
            grouping.least(reported_times).tolist(),
            strict=True,
        ),
    )


def of(
    connection: sqlite3.Connection,
    topic: int,
    numbers: Iterable[int],
    generations: Generations,
) -> list[Placed]:
    """Returns the hours of these generations."""
    wanted_numbers = set(numbers)
    return sorted(
        Placed(*part, hour, to_time, time)
        for partition in {number % STRIDE for number in wanted_numbers}
        for epoch, first, end, hour, to_time, time in connection.execute(
            "SELECT epoch, first, next_offset, hour, to_time, time FROM placed"
            " WHERE topic = ? AND partition = ?",
            (topic, partition),
        )
        for part in generations.parts(partition, epoch, first, end)
        if part.number in wanted_numbers
    )


def first_awaited(connection: sqlite3.Connection, topic: int, hour: int) -> int:
    """Returns when offsets of an hour that a loader has not claimed were first reported; -1 if
    there are none."""
    claims_by_span: dict[tuple[int, int, int, int], list[Interval]] = defaultdict(list)
    for first, end, time, tier, intervals in connection.execute(_AWAITED, (topic, hour)):
        claims_by_span[time, first, end, tier or -1] += pairs_of(intervals or b"")
    return min(
        (
            time
            for (time, first, end, _), claimed_offsets in claims_by_span.items()
            if minus(((first, end),), merged(claimed_offsets))
        ),
        default=-1,
    )


def lacking(partitions: Iterable[PartitionPicture]) -> set[int]:
    """Returns the partitions in which a tier has skipped offsets that an earlier tier has claimed,
    and the ends of logs that were cut off before a later tier had read them."""
    numbers = set()
    for partition in partitions:
        if partition.is_cut_off and all(tier.kind in _UP_TO_THE_LOG for tier in partition.claimed):
            numbers.add(partition.number)
        claims_in_order = [
            partition.claimed[tier] for tier in sorted(partition.claimed, key=_place)
        ]
        for number, later_claims in enumerate(claims_in_order):
            whole_log = ((0, _FOR_EVER if partition.is_cut_off else upto(later_claims)),)
            earlier_claims = (
                claims for claims in claims_in_order[:number] if claims != later_claims
            )
            if any(
                intersection(minus(claims, later_claims), whole_log) for claims in earlier_claims
            ):
                numbers.add(partition.number)
    return numbers


def _place(tier: Tier) -> tuple[int, str]:
    return _ORDER.index(tier.kind), tier.destination


def dated(damaged: Iterable[AlteredBatch], hours: Iterable[Placed]) -> list[AlteredBatch]:
    """Dates damaged batches by the hours of their offsets, where these are known."""
    rows = _rows(hours)
    batches = []
    for batch in damaged:
        times = _times(rows, batch.partition, batch.first, batch.first + batch.count)
        batches.append(replace(batch, from_time=times[0], to_time=times[1]) if times else batch)
    return batches


def dated_uncompared(
    uncompared: Iterable[UncomparedOffsets], hours: Iterable[Placed]
) -> list[UncomparedOffsets]:
    """Dates uncompared offsets likewise."""
    rows = _rows(hours)
    dated_parts = []
    for part in uncompared:
        times = _times(rows, part.number, part.first, part.next_offset)
        dated_parts.append(part._replace(from_time=times[0], to_time=times[1]) if times else part)
    return dated_parts


def _rows(hours: Iterable[Placed]) -> NDArray[np.int64]:
    return np.array(list(hours), np.int64).reshape(-1, 6)


def _times(rows: NDArray[np.int64], number: int, first: int, end: int) -> Interval | None:
    """Returns the span of the hours of these offsets, if any are known."""
    overlapping_rows = rows[(rows[:, 0] == number) & (rows[:, 1] < end) & (rows[:, 2] > first)]
    if not len(overlapping_rows):
        return None
    return int(overlapping_rows[:, 3].min()), int(overlapping_rows[:, 4].max())
