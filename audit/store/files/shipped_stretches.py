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
    reported_times = chunk.entries.time[passages.entry[passage]]
    _add(chunk.connection, chunk.topic[passage], reported_times, stretches)


def look_again(chunk: Chunk) -> None:
    """Checks stretches again after loaders have progressed, agents have reported offsets that
    loaders have passed, or a log has changed."""
    connection = chunk.connection
    read_topics = {*np.unique(chunk.topic[chunk.passages_of("hdfs")]).tolist()}
    read_topics |= chunk.cut_topics | chunk.damaged_topics
    passed_topics = set(_behind(chunk))
    if origins.any_copies(connection):
        read_topics.update(origins.origins_of(connection, read_topics))
        counted_topics = np.unique(chunk.topic[chunk.passages_of("broker")]).tolist()
        passed_topics.update(origins.origins_of(connection, counted_topics))
    for topic in sorted(read_topics):
        _sort(connection, topic, "kind >= 0")
    for topic in sorted(passed_topics):
        if topic not in read_topics:
            _sort(connection, topic, f"kind = {OPEN}")


def drop(connection: sqlite3.Connection, cluster: str, newest: int) -> None:
    """Drops stretches that are no longer needed at the time of the cluster's newest entry."""
    connection.execute(
        "DELETE FROM details WHERE kind = ? AND said < ? AND topic IN ("
        " SELECT topics.id FROM topics JOIN topic_names ON topic_names.id = name"
        "  WHERE cluster = ?)",
        (LANDED, newest - KEPT_LANDED, cluster),
    )
    limit = newest - KEPT_ALONE
    limit -= limit % _MINUTE
    topics = connection.execute(
        "SELECT topics.id FROM topics JOIN topic_names ON topic_names.id = name WHERE cluster = ?"
        " AND NOT EXISTS (SELECT 1 FROM topic_tiers JOIN tiers ON tiers.id = tier"
        "  WHERE kind = 'hdfs' AND (topic = topics.id"
        "   OR topic IN (SELECT copy FROM copied WHERE origin = topics.id)))"
        " AND EXISTS (SELECT 1 FROM details WHERE topic = topics.id AND kind = ? AND said < ?)",
        (cluster, OPEN, limit),
    ).fetchall()
    for (topic,) in topics:
        wait_until = max(counted_by(connection, topic, limit), newest - KEPT_WAITING)
        _drop_alone(connection, topic, wait_until)


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
            (report_time, stretches[inside(gaps, stretches, generations)])
            for report_time, packed in rows
            for stretches in (stretches_of([(packed,)]),)
        ]
        connection.executemany(
            "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
            [
                (topic, UNCOUNTED, report_time, stretches.tobytes())
                for report_time, stretches in gap_rows
                if len(stretches)
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
    """Returns the mask of stretches that contain any of these offsets, which are united intervals
    by generation."""
    is_inside = np.zeros(len(stretches), np.bool_)
    if not len(offsets.key):
        return is_inside
    row, numbers, parts = _placed(stretches, generations)
    is_inside[row[offsets.overlap(Keyed(numbers, parts.first, parts.end))]] = True
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
    grouping = grouped(topic)
    data = stretches[grouping.order].tobytes()
    size = STRETCH.itemsize
    connection.executemany(
        "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
        [
            (topic_id, OPEN, last_time, data[begin * size : end * size])
            for topic_id, last_time, begin, end in zip(
                grouping.keys[0].tolist(),
                grouping.most(reported).tolist(),
                grouping.begins.tolist(),
                grouping.ends.tolist(),
                strict=True,
            )
        ],
    )


def _behind(chunk: Chunk) -> list[int]:
    """Returns topics for which an agent reports offsets that a loader has passed, or will never
    reach."""
    offsets = chunk.offsets
    rows = np.flatnonzero(chunk.passages_of("agent")[offsets.passage])
    passage = offsets.passage[rows]
    grouping = grouped(chunk.topic[passage], chunk.passages.partition[passage])
    least_offsets = grouping.least(offsets.first[rows]).tolist()
    reached_offsets = {
        (topic, partition): highest
        for topic, partition, highest in chunk.connection.execute(
            "SELECT topic, partition, max(upto) FROM claimed"
            " WHERE tier IN (SELECT id FROM tiers WHERE kind = 'hdfs')"
            " AND topic IN (SELECT value FROM json_each(?)) GROUP BY topic, partition",
            (str(np.unique(grouping.keys[0]).tolist()),),
        )
    }
    cut_off_partitions = {
        topic
        for (topic,) in chunk.connection.execute(
            "SELECT DISTINCT topic FROM cuts WHERE topic IN (SELECT value FROM json_each(?))",
            (str(np.unique(grouping.keys[0]).tolist()),),
        )
    }
    for topic, partition, highest in chunk.connection.execute(
        "SELECT origin, partition, max(upto) FROM copied JOIN claimed ON claimed.topic = copy"
        " WHERE tier IN (SELECT id FROM tiers WHERE kind = 'hdfs')"
        " AND origin IN (SELECT value FROM json_each(?)) GROUP BY origin, partition",
        (str(np.unique(grouping.keys[0]).tolist()),),
    ):
        reached_offsets[topic, partition] = max(highest, reached_offsets.get((topic, partition), 0))
    keys = zip(*(key.tolist() for key in grouping.keys), strict=True)
    lagging_topics = cut_off_partitions | {
        key[0]
        for key, first in zip(keys, least_offsets, strict=True)
        if first < reached_offsets.get(key, 0)
    }
    return sorted(lagging_topics)


def _sort(connection: sqlite3.Connection, topic: int, which: str) -> None:
    rows = connection.execute(
        f"SELECT id, said, kind, stretches FROM details WHERE topic = ? AND {which} ORDER BY id",  # noqa: S608
        (topic,),
    ).fetchall()
    if not rows:
        return
    stretches = stretches_of((row[3],) for row in rows)
    lengths = [len(row[3]) // STRETCH.itemsize for row in rows]
    reported_times = np.repeat(np.array([row[1] for row in rows], np.int64), lengths)
    kinds_before = np.repeat(np.array([row[2] for row in rows], np.int64), lengths)
    kinds = _kinds(connection, topic, stretches)
    if (kinds == kinds_before).all():
        return
    connection.executemany("DELETE FROM details WHERE id = ?", [(row[0],) for row in rows])
    minutes = reported_times - reported_times % _MINUTE
    grouping = grouped(kinds, minutes)
    data = stretches[grouping.order].tobytes()
    size = STRETCH.itemsize
    connection.executemany(
        "INSERT INTO details (topic, kind, said, stretches) VALUES (?, ?, ?, ?)",
        [
            (topic, kind_value, last_time, data[begin * size : end * size])
            for kind_value, last_time, begin, end in zip(
                grouping.keys[0].tolist(),
                grouping.most(reported_times).tolist(),
                grouping.begins.tolist(),
                grouping.ends.tolist(),
                strict=True,
            )
        ],
    )


def _kinds(connection: sqlite3.Connection, topic: int, stretches: Stretches) -> Numbers:
    """Returns the kind of each stretch."""
    is_open = np.zeros(len(stretches), np.bool_)
    is_missing = np.zeros(len(stretches), np.bool_)
    copies = origins.copies_of(connection, [topic]).get(topic, [])
    readers = [
        (topic_id, tier) for topic_id in (topic, *copies) for tier in loaders(connection, topic_id)
    ]
    source = stretches["source"]
    stretch_seqs = Keyed(source, stretches["seq"], stretches["seq"] + stretches["events"])
    ids = str(np.unique(source).tolist())
    generations = Generations.of(connection, topic)
    row, number, parts = _placed(stretches, generations)
    seq = stretches["seq"][row] + parts.first - stretches["first"][row]
    size = parts.end - parts.first
    for topic_id, tier in readers:
        rows = connection.execute(
            "SELECT partition, max(upto) FROM claimed WHERE topic = ? AND tier = ?"
            " GROUP BY partition",
            (topic_id, tier),
        )
        end_offsets = _uptos(dict(rows.fetchall()), stretches)
        # What was cut off counts as passed: no loader will read it any more.
        read_counts = np.clip(end_offsets[row] - parts.first, 0, size)
        read_counts = np.where(number >= STRIDE, size, read_counts)
        landed_intervals = landed_rows(connection, tier, ids, 0 if topic_id == topic else topic_id)
        is_lacking = ~landed_intervals.cover(stretch_seqs)
        is_open |= is_lacking
        # If a stretch has landed as a whole, no part is missing.
        row_ids = np.flatnonzero(is_lacking[row] & (read_counts > 0))
        read_seqs = Keyed(source[row[row_ids]], seq[row_ids], seq[row_ids] + read_counts[row_ids])
        is_missing[row[row_ids[~landed_intervals.cover(read_seqs)]]] = True
    if not readers:
        is_open[:] = True
    elif unread_copies := [
        copy for copy in copies if copy not in {topic_id for topic_id, _ in readers}
    ]:
        for end in origins.ends(connection, unread_copies).values():
            is_open |= stretches["first"] + stretches["events"] > _uptos(end, stretches)
    is_uncounted = inside(_all_gaps(connection, topic, generations), stretches, generations)
    is_lost = np.zeros(len(stretches), np.bool_)
    is_lost[row[number >= STRIDE]] = True
    is_damaged = inside(damaged_offsets(connection, topic, generations), stretches, generations)
    landed_kinds = np.where(is_lost | is_damaged, AGAIN, LANDED)
    kinds = np.where(is_uncounted, UNCOUNTED, np.where(is_open, OPEN, landed_kinds))
    return np.where(is_missing, MISSING, kinds).astype(np.int64)


def _uptos(ends: Mapping[int, int], stretches: Stretches) -> Numbers:
    """Returns, by stretch, the end of its partition."""
    partitions = stretches["partition"]
    partition_ends = np.zeros(max(int(partitions.max(initial=0)) + 1, 1), np.int64)
    for partition, end in ends.items():
        if partition < len(partition_ends):
            partition_ends[partition] = end
    return np.asarray(partition_ends[partitions])


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
    """Returns the landed rows of these sources; with `copy`, only the rows that landed from that
    copy."""
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
