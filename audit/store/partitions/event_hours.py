"""At which hours of event time the offsets of a partition lie. This is kept for as long as windows:
spans are gone once all tiers have passed, and damage or a gap may be found any time later.

A row is of an hour of event time and the hour in which it was said, so that one late event does not
make an hour reach over all that came in between.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import replace

from audit.picture import AlteredBatch, PartitionPicture, Placed, Tier, TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import hours_of
from audit.store.folding.keyed_intervals import grouped
from audit.store.partitions.generations import STRIDE, Generations
from audit.store.partitions.offsets import PassagePlaces
from ground.intervals import intersection, minus, upto

_FOR_EVER: Final = 1 << 60
_UP_TO_THE_LOG: Final = {TierKind.AGENT, TierKind.BROKER}
_ORDER: Final = list(TierKind)
_KEEP: Final = """
INSERT INTO placed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = min(first, excluded.first),
    next_offset = max(next_offset, excluded.next_offset), to_time = max(to_time, excluded.to_time),
    time = min(time, excluded.time)
"""


def keep(chunk: Chunk, places: PassagePlaces) -> None:
    """Agents' and brokers' say so best: a loader's passages reach over all that it has read."""
    at = np.flatnonzero((places.count > 0) & chunk.passages_of("agent", "broker"))
    said = chunk.entries.time[chunk.passages.entry[at]]
    together = grouped(
        chunk.topic[at],
        chunk.passages.partition[at],
        hours_of(places.from_time[at]),
        hours_of(said),
        chunk.passages.epoch[at],
    )
    chunk.connection.executemany(
        _KEEP,
        zip(
            *(key.tolist() for key in together.keys),
            together.least(places.first[at]).tolist(),
            together.most(places.next_offset[at]).tolist(),
            together.most(places.to_time[at]).tolist(),
            together.least(said).tolist(),
            strict=True,
        ),
    )


def of(
    connection: sqlite3.Connection,
    topic: int,
    numbers: Iterable[int],
    generations: Generations,
) -> list[Placed]:
    """Of these generations of partitions."""
    wanted = set(numbers)
    return sorted(
        Placed(*part, hour, to_time, time)
        for partition in {number % STRIDE for number in wanted}
        for epoch, first, after, hour, to_time, time in connection.execute(
            "SELECT epoch, first, next_offset, hour, to_time, time FROM placed"
            " WHERE topic = ? AND partition = ?",
            (topic, partition),
        )
        for part in generations.parts(partition, epoch, first, after)
        if part.number in wanted
    )


def lacking(partitions: Iterable[PartitionPicture]) -> set[int]:
    """Where some tier has not spoken of what an earlier one has, although it has gone on; or what
    was cut off, and nobody had taken it from the brokers."""
    found = set()
    for each in partitions:
        if each.is_cut_off and all(tier.kind in _UP_TO_THE_LOG for tier in each.claimed):
            found.add(each.number)
        claimed = [each.claimed[tier] for tier in sorted(each.claimed, key=_place)]
        for number, theirs in enumerate(claimed):
            whole = ((0, _FOR_EVER if each.is_cut_off else upto(theirs)),)
            before = (mine for mine in claimed[:number] if mine != theirs)
            if any(intersection(minus(mine, theirs), whole) for mine in before):
                found.add(each.number)
    return found


def _place(tier: Tier) -> tuple[int, str]:
    return _ORDER.index(tier.kind), tier.destination


def dated(damaged: Iterable[AlteredBatch], hours: Iterable[Placed]) -> list[AlteredBatch]:
    """With the hours of these offsets, where anybody has spoken of them."""
    rows = np.array(list(hours), np.int64).reshape(-1, 6)
    found = []
    for each in damaged:
        here = rows[
            (rows[:, 0] == each.partition)
            & (rows[:, 1] < each.first + each.count)
            & (rows[:, 2] > each.first)
        ]
        if len(here):
            from_time, to_time = int(here[:, 3].min()), int(here[:, 4].max())
            found.append(replace(each, from_time=from_time, to_time=to_time))
        else:
            found.append(each)
    return found
