"""Reads suspect files with the places of missing events: files that were flagged when they were
reported, and the files of missing stretches."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from audit.reconciling.picture import BatchPart, LandedFile, LostBytes, Source, Tier, Twice
from audit.store.files import reshipments
from audit.store.files.shipped_stretches import AGAIN, MISSING, inside, stretches_of
from audit.store.folding.keyed_intervals import pairs_of
from audit.store.folding.stretches import Stretches
from audit.store.partitions import origins
from audit.store.partitions.commit_logs import OF_SOURCES
from audit.store.partitions.generations import Generations, broker_gaps, damaged_offsets
from ground.intervals import Intervals

MOST_SOURCES: Final = 2_000  # of one picture
MOST_STRETCHES: Final = 20_000

_SOURCES: Final = """
SELECT sources.id, source, journal, hosts.text, paths.text, shipped, (
        SELECT events FROM finished WHERE finished.source = sources.source AND name = ?1), (
        SELECT newest FROM finished WHERE finished.source = sources.source AND name = ?1)
    FROM sources LEFT JOIN journals ON journals.id = agent
    LEFT JOIN names AS hosts ON hosts.id = sources.host
    LEFT JOIN names AS paths ON paths.id = sources.path
    WHERE sources.id IN (SELECT value FROM json_each(?2)) ORDER BY source
"""


def suspects(
    connection: sqlite3.Connection,
    topic: int,
    name: int,
    tiers: dict[int, Tier],
    begin: int,
    *,
    generations: Generations,
    copy: int = 0,
) -> list[Source]:
    """Returns suspect files. `begin`: the time from which the ledger is known; 0 if it is complete.
    With `copy`, landed rows are those that landed from that copy of the topic."""
    stretches = _missing(connection, topic, generations, copy)
    ids = set(np.unique(stretches["source"]).tolist())
    ids.update(
        number
        for (number,) in connection.execute(
            "SELECT id FROM sources WHERE topic = ? AND suspect = 1 LIMIT ?", (topic, MOST_SOURCES)
        )
    )
    ids.update(number for (number,) in connection.execute(_OF_COPY, (topic, copy, MOST_SOURCES)))
    if not ids:
        return _unshipped(connection, topic, copy, tiers) if copy else []
    chosen_ids = sorted(ids)[:MOST_SOURCES]
    ids_text = str(chosen_ids)
    copy_numbers = _there(connection, ids_text, copy)
    landed_ids = str([number for number, _ in copy_numbers])
    landed_by_source = _renumbered(_landed(connection, landed_ids, tiers), copy_numbers)
    stretches_by_source = _by_source(connection, stretches, chosen_ids)
    lost_bytes = defaultdict(list)
    sources = []
    rows = connection.execute(_SOURCES, (name, ids_text)).fetchall()
    names = {row[0]: row[1] for row in rows}
    for number, *values in connection.execute(
        "SELECT * FROM lost WHERE source IN (SELECT value FROM json_each(?))", (ids_text,)
    ):
        lost_bytes[number].append(LostBytes(names[number], *values))
    twice_by_source = defaultdict(list)
    for number, *seq_values in connection.execute(
        "SELECT * FROM twice WHERE source IN (SELECT value FROM json_each(?))", (ids_text,)
    ):
        twice_by_source[number].append(Twice(*seq_values))
    landed_twice = _renumbered(_landed_twice(connection, landed_ids, tiers), copy_numbers)
    reshipped_runs = reshipments.of(connection, ids_text)
    for number, source, agent, host, path, packed_seqs, events, newest_time in rows:
        shipped_seqs = pairs_of(packed_seqs)
        known_landings = _known_part(landed_by_source[number], shipped_seqs, begin)
        if known_landings is None:
            continue
        sources.append(
            Source(
                source,
                agent or "",
                host or "",
                path or "",
                shipped_seqs,
                known_landings,
                tuple(stretches_by_source.get(number, ())),
                tuple(lost_bytes.get(number, ())),
                -1 if events is None else events,
                tuple(twice_by_source.get(number, ())),
                landed_twice.get(number, {}),
                tuple(reshipped_runs.get(number, ())),
                {tier: landing for tier, (_, landing) in landed_by_source[number].items()},
                -1 if newest_time is None else newest_time,
            )
        )
    return sources + (_unshipped(connection, topic, copy, tiers) if copy else [])


_OF_COPY: Final = """
SELECT mine.id FROM sources AS theirs
    JOIN sources AS mine ON mine.source = theirs.source AND mine.topic = ?1
    WHERE theirs.topic = ?2 AND theirs.suspect = 1 LIMIT ?3
"""
_THERE: Final = """
SELECT theirs.id, mine.id FROM sources AS mine
    JOIN sources AS theirs ON theirs.source = mine.source AND theirs.topic = ?2
    WHERE mine.id IN (SELECT value FROM json_each(?1))
"""
_UNSHIPPED: Final = """
SELECT id, source FROM sources WHERE topic = ?1 AND suspect = 1 AND NOT EXISTS (
    SELECT 1 FROM sources AS mine WHERE mine.source = sources.source AND mine.topic = ?2)
    ORDER BY source LIMIT ?3
"""


def _there(connection: sqlite3.Connection, ids_text: str, copy: int) -> list[tuple[int, int]]:
    """Returns pairs of ids, in the copy and here, of the same files; equal ones without a copy."""
    if not copy:
        return [(number, number) for number in json.loads(ids_text)]
    return connection.execute(_THERE, (ids_text, copy)).fetchall()


_Some = TypeVar("_Some")


def _renumbered(
    by_number: dict[int, dict[Tier, _Some]], numbers: Sequence[tuple[int, int]]
) -> dict[int, dict[Tier, _Some]]:
    return defaultdict(
        dict, {own_number: by_number.get(number, {}) for number, own_number in numbers}
    )


def _unshipped(
    connection: sqlite3.Connection, topic: int, copy: int, tiers: dict[int, Tier]
) -> list[Source]:
    """Returns files that landed from a copy, and are unknown at its origin."""
    rows = connection.execute(_UNSHIPPED, (copy, topic, MOST_SOURCES)).fetchall()
    ids_text = str([number for number, _ in rows])
    landed_by_source, landed_twice = (
        _landed(connection, ids_text, tiers),
        _landed_twice(connection, ids_text, tiers),
    )
    return [
        Source(
            source,
            "",
            "",
            "",
            (),
            {tier: intervals for tier, (intervals, _) in landed_by_source[number].items()},
            landed_twice=landed_twice.get(number, {}),
            landings={tier: landing for tier, (_, landing) in landed_by_source[number].items()},
        )
        for number, source in rows
    ]


_Landed = dict[Tier, tuple[Intervals, LandedFile]]


def _landed(
    connection: sqlite3.Connection, ids_text: str, tiers: dict[int, Tier]
) -> dict[int, _Landed]:
    landed_by_source: dict[int, _Landed] = defaultdict(dict)
    for number, tier, intervals, *times in connection.execute(
        "SELECT source, tier, intervals, first_time, from_time, to_time FROM landed"  # noqa: S608
        f" WHERE source IN (SELECT value FROM json_each(?)){OF_SOURCES}",
        (ids_text,),
    ):
        landed_by_source[number][tiers[tier]] = pairs_of(intervals), LandedFile(*times)
    return landed_by_source


def _landed_twice(
    connection: sqlite3.Connection, ids_text: str, tiers: dict[int, Tier]
) -> dict[int, dict[Tier, list[Twice]]]:
    repeated_seqs: dict[int, dict[Tier, list[Twice]]] = defaultdict(lambda: defaultdict(list))
    for number, tier, *values in connection.execute(
        "SELECT source, tier, seq, end_seq, from_time, to_time FROM landed_twice"  # noqa: S608
        f" WHERE source IN (SELECT value FROM json_each(?)){OF_SOURCES}",
        (ids_text,),
    ):
        repeated_seqs[number][tiers[tier]].append(Twice(*values))
    return repeated_seqs


def _known_part(landed: _Landed, shipped: Intervals, begin: int) -> dict[Tier, Intervals] | None:
    """Returns what landed, without what was shipped before the ledger's known beginning; None if
    nothing else is left."""
    if not begin:
        return {tier: intervals for tier, (intervals, _) in landed.items()}
    if not shipped:
        return None
    first_seq = shipped[0][0]
    return {
        tier: tuple((max(first, first_seq), end) for first, end in intervals if end > first_seq)
        for tier, (intervals, _) in landed.items()
    }


def _missing(
    connection: sqlite3.Connection, topic: int, generations: Generations, copy: int
) -> Stretches:
    """Returns stretches that loaders or brokers skipped, that a log lost, or in damaged batches."""
    rows = connection.execute(
        "SELECT stretches FROM details WHERE topic = ? AND kind IN (?, ?)", (topic, MISSING, AGAIN)
    ).fetchall()
    missing_stretches = stretches_of(rows)
    gaps = broker_gaps(connection, topic, generations)
    if copy:
        gaps = gaps.and_(origins.gaps(connection, [copy]))
    lost_offsets = gaps.and_(damaged_offsets(connection, topic, generations)).united()
    if len(lost_offsets.key):
        other_stretches = stretches_of(
            connection.execute(
                "SELECT stretches FROM details WHERE topic = ? AND kind NOT IN (?, ?)",
                (topic, MISSING, AGAIN),
            )
        )
        missing_stretches = np.concatenate(
            (missing_stretches, other_stretches[inside(lost_offsets, other_stretches, generations)])
        )
    missing_stretches = generations.of_stretches(missing_stretches)
    return missing_stretches[
        np.lexsort((missing_stretches["first"], missing_stretches["partition"]))
    ][:MOST_STRETCHES]


def _by_source(
    connection: sqlite3.Connection, stretches: Stretches, chosen: list[int]
) -> dict[int, list[BatchPart]]:
    names = dict(
        connection.execute(
            "SELECT id, source FROM sources WHERE id IN (SELECT value FROM json_each(?))",
            (str(chosen),),
        ).fetchall()
    )
    parts_by_source: dict[int, list[BatchPart]] = defaultdict(list)
    chosen_stretches = stretches[np.isin(stretches["source"], np.array(chosen, np.int64))]
    for number, *values in chosen_stretches.tolist():
        parts_by_source[number].append(BatchPart(names[number], *values))
    return parts_by_source
