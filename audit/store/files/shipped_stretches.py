"""Keeps agents' stretches until all loaders have landed them, so that missing events have names.

The loaders of a topic include those of its copies (partitions/origins.py), where rows of the same
file have the same numbers. A copy without loaders has what its brokers have counted.

A stretch is open until all loaders have passed it; missing if one has passed it without landing it;
uncounted if it is between offsets that brokers have claimed; landed if all known loaders have it.
Landed ones are kept a little longer, as another loader may appear, and the order of entries must
not matter. If a log lost events, or a batch is damaged, landed stretches are kept like all others:
an agent may have shipped the lost events again, which explains the lost offsets, and damage remains
a finding for as long.

Rule 1: Missing stretches are always marked. This can change only when stretches are added or
        loaders advance: then they are checked again.
Rule 2: Without any loader, stretches are kept for some hours, and until counting brokers have
        passed them (a day at most); uncounted ones as long as everything else.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Numbers
from audit.store.folding.keyed_intervals import Keyed, Mask, grouped
from audit.store.folding.stretches import STRETCH, Stretches, laid
from audit.store.partitions import origins
from audit.store.partitions.generations import (
    STRIDE,
    Generations,
    broker_gaps,
    damaged_offsets,
    placed_in,
)
from audit.store.partitions.offsets import PassagePlaces, counted_by

OPEN: Final = 0
MISSING: Final = 1
LANDED: Final = 2
UNCOUNTED: Final = 3
AGAIN: Final = 4  # landed, and partly within what a log has lost, or in a damaged batch

KEPT_LANDED: Final = 600_000  # milliseconds
KEPT_ALONE: Final = 3 * 3_600_000
KEPT_WAITING: Final = 24 * 3_600_000
_MINUTE: Final = 60_000


def keep(chunk: Chunk, places: PassagePlaces, source: Numbers) -> None:
    passages, runs = chunk.passages, chunk.runs
    agents = chunk.passages_of("agent")
    stretches, passage = laid(
        len(passages),
        chunk.offsets,
        runs,
        chosen=agents[runs.passage],
        source=source,
        partition=passages.partition,
        epoch=passages.epoch,
        from_time=places.from_time,
        to_time=places.to_time,
    )
    reported = chunk.entries.time[passages.entry[passage]]
    _add(chunk.connection, chunk.topic[passage], reported, stretches)


def look_again(chunk: Chunk) -> None:
    """Checks stretches again after loaders have progressed, agents have reported offsets that
    loaders have passed, or a log has changed."""
    connection = chunk.connection
    read = {*np.unique(chunk.topic[chunk.passages_of("hdfs")]).tolist()}
    read |= chunk.cut_topics | chunk.damaged_topics
    passed_topics = set(_behind(chunk))
    if origins.any_copies(connection):
        read.update(origins.origins_of(connection, read))
        counted = np.unique(chunk.topic[chunk.passages_of("broker")]).tolist()
        passed_topics.update(origins.origins_of(connection, counted))
    for topic in sorted(read):
        _sort(connection, topic, "kind >= 0")
    for topic in sorted(passed_topics):
        if topic not in read:
            _sort(connection, topic, f"kind = {OPEN}")


def drop(connection: sqlite3.Connection, cluster: str, newest: int) -> None:
    """Drops stretches that are no longer needed at the time of the cluster's newest entry."""
    connection.execute(
        "DELETE FROM details WHERE kind = ? AND said < ? AND topic IN ("
        " SELECT topics.id FROM topics JOIN topic_names ON topic_names.id = name"
        "  WHERE cluster = ?)",
        (LANDED, newest - KEPT_LANDED, cluster),
    )
    alone = newest - KEPT_ALONE
    alone -= alone % _MINUTE
    topics = connection.execute(
        "SELECT topics.id FROM topics JOIN topic_names ON topic_names.id = name WHERE cluster = ?"
        " AND NOT EXISTS (SELECT 1 FROM topic_tiers JOIN tiers ON tiers.id = tier"
        "  WHERE kind = 'hdfs' AND (topic = topics.id"
        "   OR topic IN (SELECT copy FROM copied WHERE origin = topics.id)))"
        " AND EXISTS (SELECT 1 FROM details WHERE topic = topics.id AND kind = ? AND said < ?)",
        (cluster, OPEN, alone),
    ).fetchall()
    for (topic,) in topics:
        waited = max(counted_by(connection, topic, alone), newest - KEPT_WAITING)
        _drop_alone(connection, topic, waited)


def _drop_alone(connection: sqlite3.Connection, topic: int, before: int) -> None:
    """Drops open stretches of a topic without loaders; those that brokers left out are kept as
    uncounted."""
    generations = Generations.of(connection, topic)
    gaps = _all_gaps(connection, topic, generations)
    if len(gaps.key):
        rows = connection.execute(
            "SELECT said, stretches FROM details WHERE topic = ? AND kind = ? AND said < ?",
            (topic, OPEN, before),
        )
        gap_rows = [
            (reported, stretches_[inside(gaps, stretches_, generations)])
            for reported, packed in rows
            for stretches_ in (stretches_of([(packed,)]),)
        ]
        connection.executemany(
            "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
            [
                (topic, UNCOUNTED, reported, stretches_.tobytes())
                for reported, stretches_ in gap_rows
                if len(stretches_)
            ],
        )
    connection.execute(
        "DELETE FROM details WHERE topic = ? AND kind = ? AND said < ?", (topic, OPEN, before)
    )


def _all_gaps(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    """Returns the offsets that brokers left out, or copies."""
    gaps = broker_gaps(connection, topic, generations)
    if origins.any_copies(connection):
        copies = origins.copies_of(connection, [topic]).get(topic, [])
        gaps = gaps.and_(origins.gaps(connection, copies)).united()
    return gaps


def inside(offsets: Keyed, stretches: Stretches, generations: Generations) -> Mask:
    """Returns the mask of stretches that contain any of these offsets, which are by generation and
    united."""
    is_inside = np.zeros(len(stretches), np.bool_)
    if not len(offsets.key):
        return is_inside
    row, number, parts = _placed(stretches, generations)
    is_inside[row[offsets.overlap(Keyed(number, parts.first, parts.end))]] = True
    return is_inside


def _placed(stretches: Stretches, generations: Generations) -> tuple[Numbers, Numbers, Keyed]:
    """Splits stretches by generation: returns each part's stretch, number and offsets."""
    first = stretches["first"].astype(np.int64)
    partition = stretches["partition"].astype(np.int64)
    return placed_in(
        {0: generations},
        np.zeros(len(stretches), np.int64),
        partition,
        stretches["epoch"].astype(np.int64),
        Keyed(partition, first, first + stretches["events"]),
    )


def stretches_of(rows: Iterable[tuple[bytes]]) -> Stretches:
    return np.frombuffer(b"".join(row[0] for row in rows), STRETCH)


def _add(
    connection: sqlite3.Connection, topic: Numbers, reported: Numbers, stretches: Stretches
) -> None:
    together = grouped(topic)
    data = stretches[together.order].tobytes()
    size = STRETCH.itemsize
    connection.executemany(
        "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
        [
            (topic_id, OPEN, last, data[begin * size : end * size])
            for topic_id, last, begin, end in zip(
                together.keys[0].tolist(),
                together.most(reported).tolist(),
                together.begins.tolist(),
                together.ends.tolist(),
                strict=True,
            )
        ],
    )


def _behind(chunk: Chunk) -> list[int]:
    """Returns topics for which an agent reports offsets that a loader has passed, or will never
    reach."""
    offsets = chunk.offsets
    at = np.flatnonzero(chunk.passages_of("agent")[offsets.passage])
    passage = offsets.passage[at]
    together = grouped(chunk.topic[passage], chunk.passages.partition[passage])
    least = together.least(offsets.first[at]).tolist()
    upto = {
        (topic, partition): most
        for topic, partition, most in chunk.connection.execute(
            "SELECT topic, partition, max(upto) FROM claimed"
            " WHERE tier IN (SELECT id FROM tiers WHERE kind = 'hdfs')"
            " AND topic IN (SELECT value FROM json_each(?)) GROUP BY topic, partition",
            (str(np.unique(together.keys[0]).tolist()),),
        )
    }
    cut_off = {
        topic
        for (topic,) in chunk.connection.execute(
            "SELECT DISTINCT topic FROM cuts WHERE topic IN (SELECT value FROM json_each(?))",
            (str(np.unique(together.keys[0]).tolist()),),
        )
    }
    for topic, partition, most in chunk.connection.execute(
        "SELECT origin, partition, max(upto) FROM copied JOIN claimed ON claimed.topic = copy"
        " WHERE tier IN (SELECT id FROM tiers WHERE kind = 'hdfs')"
        " AND origin IN (SELECT value FROM json_each(?)) GROUP BY origin, partition",
        (str(np.unique(together.keys[0]).tolist()),),
    ):
        upto[topic, partition] = max(most, upto.get((topic, partition), 0))
    keys = zip(*(key.tolist() for key in together.keys), strict=True)
    behind = cut_off | {
        key[0] for key, first in zip(keys, least, strict=True) if first < upto.get(key, 0)
    }
    return sorted(behind)


def _sort(connection: sqlite3.Connection, topic: int, which: str) -> None:
    rows = connection.execute(
        f"SELECT id, said, kind, stretches FROM details WHERE topic = ? AND {which} ORDER BY id",  # noqa: S608
        (topic,),
    ).fetchall()
    if not rows:
        return
    stretches = stretches_of((row[3],) for row in rows)
    sizes = [len(row[3]) // STRETCH.itemsize for row in rows]
    reported = np.repeat(np.array([row[1] for row in rows], np.int64), sizes)
    kinds_before = np.repeat(np.array([row[2] for row in rows], np.int64), sizes)
    kind = _kinds(connection, topic, stretches)
    if (kind == kinds_before).all():
        return
    connection.executemany("DELETE FROM details WHERE id = ?", [(row[0],) for row in rows])
    minute = reported - reported % _MINUTE
    together = grouped(kind, minute)
    data = stretches[together.order].tobytes()
    size = STRETCH.itemsize
    connection.executemany(
        "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
        [
            (topic, kind_, last, data[begin * size : end * size])
            for kind_, last, begin, end in zip(
                together.keys[0].tolist(),
                together.most(reported).tolist(),
                together.begins.tolist(),
                together.ends.tolist(),
                strict=True,
            )
        ],
    )


def _kinds(connection: sqlite3.Connection, topic: int, stretches: Stretches) -> Numbers:
    """Returns the kind of each stretch."""
    open_ = np.zeros(len(stretches), np.bool_)
    missing = np.zeros(len(stretches), np.bool_)
    copies = origins.copies_of(connection, [topic]).get(topic, [])
    read_by = [(where, tier) for where in (topic, *copies) for tier in loaders(connection, where)]
    source = stretches["source"]
    all_of_each = Keyed(source, stretches["seq"], stretches["seq"] + stretches["events"])
    ids = str(np.unique(source).tolist())
    generations = Generations.of(connection, topic)
    row, number, parts = _placed(stretches, generations)
    seq = stretches["seq"][row] + parts.first - stretches["first"][row]
    size = parts.end - parts.first
    for where, tier in read_by:
        rows = connection.execute(
            "SELECT partition, max(upto) FROM claimed WHERE topic = ? AND tier = ?"
            " GROUP BY partition",
            (where, tier),
        )
        upto = _uptos(dict(rows.fetchall()), stretches)
        # What was cut off counts as passed: no loader will read it any more.
        read = np.clip(upto[row] - parts.first, 0, size)
        read = np.where(number >= STRIDE, size, read)
        landed = landed_rows(connection, tier, ids, 0 if where == topic else where)
        lacking = ~landed.cover(all_of_each)
        open_ |= lacking
        # If a stretch has landed as a whole, no part is missing.
        at = np.flatnonzero(lacking[row] & (read > 0))
        part = Keyed(source[row[at]], seq[at], seq[at] + read[at])
        missing[row[at[~landed.cover(part)]]] = True
    if not read_by:
        open_[:] = True
    elif unread := [copy for copy in copies if copy not in {where for where, _ in read_by}]:
        for end in origins.ends(connection, unread).values():
            open_ |= stretches["first"] + stretches["events"] > _uptos(end, stretches)
    uncounted = inside(_all_gaps(connection, topic, generations), stretches, generations)
    lost = np.zeros(len(stretches), np.bool_)
    lost[row[number >= STRIDE]] = True
    damaged = inside(damaged_offsets(connection, topic, generations), stretches, generations)
    landed_ = np.where(lost | damaged, AGAIN, LANDED)
    kinds = np.where(uncounted, UNCOUNTED, np.where(open_, OPEN, landed_))
    return np.where(missing, MISSING, kinds).astype(np.int64)


def _uptos(ends: Mapping[int, int], stretches: Stretches) -> Numbers:
    """Returns, by stretch, the end of its partition."""
    partitions = stretches["partition"]
    uptos = np.zeros(max(int(partitions.max(initial=0)) + 1, 1), np.int64)
    for partition, end in ends.items():
        if partition < len(uptos):
            uptos[partition] = end
    return np.asarray(uptos[partitions])


_LANDED: Final = """
SELECT source, intervals FROM landed WHERE tier = ?
    AND source IN (SELECT value FROM json_each(?)) ORDER BY source
"""
_LANDED_THERE: Final = """
SELECT mine.id, intervals FROM sources AS mine
    JOIN sources AS theirs ON theirs.source = mine.source AND theirs.topic = ?3
    JOIN landed ON landed.source = theirs.id WHERE landed.tier = ?1
    AND mine.id IN (SELECT value FROM json_each(?2)) ORDER BY mine.id
"""


def landed_rows(connection: sqlite3.Connection, tier: int, ids: str, copy: int = 0) -> Keyed:
    """Returns the landed rows of these sources; with `copy`, the rows that landed from the copy."""
    query = (_LANDED_THERE, (tier, ids, copy)) if copy else (_LANDED, (tier, ids))
    rows: Sequence[tuple[int, bytes]] = connection.execute(*query).fetchall()
    return Keyed.of_packed(np.array([row[0] for row in rows], np.int64), [row[1] for row in rows])


def loaders(connection: sqlite3.Connection, topic: int) -> list[int]:
    rows = connection.execute(
        "SELECT tier FROM topic_tiers JOIN tiers ON tiers.id = tier"
        " WHERE topic = ? AND kind = 'hdfs' AND (topic, tier) NOT IN replaced ORDER BY tier",
        (topic,),
    )
    return [tier for (tier,) in rows]
