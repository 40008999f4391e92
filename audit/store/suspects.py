"""Files of which something is not as it should be, with where it lies: those that were found to be
suspect when they were spoken of, and those of stretches that are missing.
"""

import sqlite3
from collections import defaultdict
from typing import Final

import numpy as np

from audit.folding.keyed import Keyed
from audit.folding.stretches import Stretches
from audit.picture import BatchPart, LandedFile, LostBytes, Source, Tier, Twice
from audit.store import copies
from audit.store.details import MISSING, inside, stretches_of
from audit.store.generations import Generations, broker_gaps, damage_of
from audit.store.histories import OF_SOURCES
from ground.intervals import Intervals

MOST_SOURCES: Final = 2_000  # of one picture
MOST_STRETCHES: Final = 20_000

_SOURCES: Final = """
SELECT sources.id, source, journal, hosts.text, paths.text, shipped, (
        SELECT events FROM finished WHERE finished.source = sources.source AND name = ?1)
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
) -> list[Source]:
    """`begin` is from when on the ledger is known; 0 from the beginning."""
    stretches = _missing(connection, topic, generations)
    ids = set(np.unique(stretches["source"]).tolist())
    ids.update(
        number
        for (number,) in connection.execute(
            "SELECT id FROM sources WHERE topic = ? AND suspect = 1 LIMIT ?", (topic, MOST_SOURCES)
        )
    )
    if not ids:
        return []
    chosen = sorted(ids)[:MOST_SOURCES]
    asked = str(chosen)
    landed = _landed(connection, asked, tiers)
    by_source = _by_source(connection, stretches, chosen)
    lost = defaultdict(list)
    found = []
    rows = connection.execute(_SOURCES, (name, asked)).fetchall()
    names = {row[0]: row[1] for row in rows}
    for number, *rest in connection.execute(
        "SELECT * FROM lost WHERE source IN (SELECT value FROM json_each(?))", (asked,)
    ):
        lost[number].append(LostBytes(names[number], *rest))
    twice = defaultdict(list)
    for number, *again in connection.execute(
        "SELECT * FROM twice WHERE source IN (SELECT value FROM json_each(?))", (asked,)
    ):
        twice[number].append(Twice(*again))
    doubled = _landed_twice(connection, asked, tiers)
    copied = copies.of(connection, asked)
    for number, source, agent, host, path, shipped, events in rows:
        mine = pairs_of(shipped)
        there = _spoken_of(landed[number], mine, begin)
        if there is None:
            continue
        found.append(
            Source(
                source,
                agent or "",
                host or "",
                path or "",
                mine,
                there,
                tuple(by_source.get(number, ())),
                tuple(lost.get(number, ())),
                -1 if events is None else events,
                tuple(twice.get(number, ())),
                doubled.get(number, {}),
                tuple(copied.get(number, ())),
                {tier: landing for tier, (_, landing) in landed[number].items()},
            )
        )
    return found


def pairs_of(packed: bytes) -> Intervals:
    return tuple(
        (first, end) for first, end in np.frombuffer(packed, "<i8").reshape(-1, 2).tolist()
    )


_Landed = dict[Tier, tuple[Intervals, LandedFile]]


def _landed(
    connection: sqlite3.Connection, asked: str, tiers: dict[int, Tier]
) -> dict[int, _Landed]:
    found: dict[int, _Landed] = defaultdict(dict)
    for number, tier, intervals, *times in connection.execute(
        "SELECT source, tier, intervals, first_time, from_time, to_time FROM landed"  # noqa: S608
        f" WHERE source IN (SELECT value FROM json_each(?)){OF_SOURCES}",
        (asked,),
    ):
        found[number][tiers[tier]] = pairs_of(intervals), LandedFile(*times)
    return found


def _landed_twice(
    connection: sqlite3.Connection, asked: str, tiers: dict[int, Tier]
) -> dict[int, dict[Tier, list[Twice]]]:
    found: dict[int, dict[Tier, list[Twice]]] = defaultdict(lambda: defaultdict(list))
    for number, tier, *again in connection.execute(
        "SELECT source, tier, seq, end_seq, from_time, to_time FROM landed_twice"  # noqa: S608
        f" WHERE source IN (SELECT value FROM json_each(?)){OF_SOURCES}",
        (asked,),
    ):
        found[number][tiers[tier]].append(Twice(*again))
    return found


def _spoken_of(landed: _Landed, shipped: Intervals, begin: int) -> dict[Tier, Intervals] | None:
    """Without what was shipped before the ledger's known beginning; None if that is all of it."""
    if not begin:
        return {tier: intervals for tier, (intervals, _) in landed.items()}
    if not shipped:
        return None
    least = shipped[0][0]
    return {
        tier: tuple((max(first, least), end) for first, end in intervals if end > least)
        for tier, (intervals, _) in landed.items()
    }


def _missing(connection: sqlite3.Connection, topic: int, generations: Generations) -> Stretches:
    """That loaders or brokers have passed over, and those of damaged batches."""
    rows = connection.execute(
        "SELECT stretches FROM details WHERE topic = ? AND kind = ?", (topic, MISSING)
    ).fetchall()
    found = stretches_of(rows)
    gaps = broker_gaps(connection, topic, generations)
    odd = gaps.and_(_damaged(connection, topic, generations)).united()
    if len(odd.key):
        others = stretches_of(
            connection.execute(
                "SELECT stretches FROM details WHERE topic = ? AND kind <> ?", (topic, MISSING)
            )
        )
        found = np.concatenate((found, others[inside(odd, others, generations)]))
    found = generations.of_stretches(found)
    return found[np.lexsort((found["first"], found["partition"]))][:MOST_STRETCHES]


def _damaged(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    rows = [
        (each.partition, each.first, each.first + each.count)
        for each in damage_of(connection, topic, generations)
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Keyed(columns[:, 0], columns[:, 1], columns[:, 2])


def _by_source(
    connection: sqlite3.Connection, stretches: Stretches, chosen: list[int]
) -> dict[int, list[BatchPart]]:
    names = dict(
        connection.execute(
            "SELECT id, source FROM sources WHERE id IN (SELECT value FROM json_each(?))",
            (str(chosen),),
        ).fetchall()
    )
    found: dict[int, list[BatchPart]] = defaultdict(list)
    mine = stretches[np.isin(stretches["source"], np.array(chosen, np.int64))]
    for number, *rest in mine.tolist():
        found[number].append(BatchPart(names[number], *rest))
    return found
