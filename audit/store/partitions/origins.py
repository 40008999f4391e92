"""Stores the origins of topics that are copies. What a mirror wrote to one cluster is judged
together with the reports of agents and brokers of the other cluster (topics/copies.py).

Reports about a copy name its origin beside the offsets: the same partition of a topic in another
cluster, with the same offsets. It is kept once for each topic, by name, since the other ledger may
be read later, or never.

Rule 1: Reports about an origin touch its copies: the same hours of these are judged again.
Rule 2: A copy has one origin. If several were named, offsets cannot be attributed.
Rule 3: Offsets that brokers counted with an origin are `marked`: they are the same events there.
        What they counted without one is the topic's own: it was open for writing then, or not a
        copy yet. So a topic may be a copy, be opened, and be a copy again; and two topics may be
        copies of each other, each of a part.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from audit.reconciling.picture import TierKind, TopicKey
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import Numbers, Origins
from audit.store.folding.keyed_intervals import PAIR, Keyed, Mask, grouped, none
from audit.store.partitions.generations import STRIDE, Generations, in_generations

_KEEP: Final = """
INSERT INTO origins VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = max(last, excluded.last)
"""
_MARKED: Final = "INSERT OR REPLACE INTO marked VALUES (?, ?, ?, ?)"
_OPENED: Final = """
INSERT INTO opened VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = excluded.first, time = excluded.time
    WHERE excluded.first < opened.first OR EXISTS (SELECT 1 FROM marked
        WHERE marked.topic = opened.topic AND marked.partition = opened.partition
        AND marked.upto > opened.first)
"""
_MOST_INTERVALS: Final = 4_096  # of one partition
_Claims = TypeVar("_Claims")
_COUNTING: Final = (TierKind.BROKER, TierKind.MIRROR, TierKind.HDFS)  # in order of preference


def keep(chunk: Chunk) -> None:
    """Stores the origins that the chunk names."""
    named_origins = Origins.of(chunk.passages)
    if len(named_origins.passage):
        _keep_origins(chunk, named_origins)


def keep_marked(chunk: Chunk, counted: Mask, first: Numbers, count: Numbers) -> None:
    """Stores the offsets that brokers counted with an origin, and the first offset without one.
    Arrays are by passage; `count` is 0 without offsets."""
    if not any_copies(chunk.connection):
        return
    is_marked = np.zeros(len(chunk.passages), np.bool_)
    is_marked[Origins.of(chunk.passages).passage] = True
    is_counter = counted & chunk.passages_of("broker") & (count > 0)
    _keep_marked(chunk, is_counter & is_marked)
    _keep_opened(chunk, is_counter & ~is_marked, first)


def _keep_origins(chunk: Chunk, origins_: Origins) -> None:
    grouping = grouped(
        chunk.topic[origins_.passage],
        origins_.cluster.codes,
        origins_.topic.codes,
        origins_.topic_id.codes,
    )
    rows = grouping.order[grouping.begins]
    times = grouping.most(chunk.entries.time[chunk.passages.entry[origins_.passage]])
    origin_keys = zip(
        grouping.keys[0].tolist(),
        origins_.cluster.take(rows),
        origins_.topic.take(rows),
        origins_.topic_id.take(rows),
        times.tolist(),
        strict=True,
    )
    for copy, *origin, time in origin_keys:
        is_known = chunk.connection.execute(
            "SELECT 1 FROM origins WHERE topic = ? AND cluster = ? AND origin_topic = ?"
            " AND origin_id = ?",
            (copy, *origin),
        ).fetchall()
        chunk.connection.execute(_KEEP, (copy, *origin, time))
        if not is_known:
            _look_again(chunk, copy)


def _look_again(chunk: Chunk, copy: int) -> None:
    """Has the copy and its origin judged again."""
    chunk.replaced.add(copy)
    chunk.cut_topics.update(origins_of(chunk.connection, [copy]))


def _keep_marked(chunk: Chunk, chosen: Mask) -> None:
    offsets = chunk.offsets
    row_ids = np.flatnonzero(chosen[offsets.passage])
    if not len(row_ids):
        return
    passage = offsets.passage[row_ids]
    grouping = grouped(chunk.topic[passage], chunk.passages.partition[passage])
    marked_offsets = Keyed(
        grouping.numbered(), offsets.first[row_ids], offsets.first[row_ids] + offsets.count[row_ids]
    )
    partition_keys = list(zip(*(column.tolist() for column in grouping.keys), strict=True))
    query = "SELECT intervals FROM marked WHERE topic = ? AND partition = ?"
    for number, name in enumerate(partition_keys):
        for (packed,) in chunk.connection.execute(query, name).fetchall():
            marked_offsets = marked_offsets.and_(Keyed.of_packed(np.array([number]), [packed]))
    marked_offsets = marked_offsets.united()
    keys, packed_sets = marked_offsets.packed()
    _, _, set_ends = marked_offsets.groups()
    rows = zip(keys.tolist(), marked_offsets.end[set_ends - 1].tolist(), packed_sets, strict=True)
    chunk.connection.executemany(
        _MARKED,
        ((*partition_keys[key], end_offset, _fewer(packed)) for key, end_offset, packed in rows),
    )


def _fewer(packed: bytes) -> bytes:
    """Closes the oldest gaps."""
    surplus = len(packed) - _MOST_INTERVALS * PAIR
    return packed if surplus <= 0 else packed[:8] + packed[surplus + 8 :]


def _keep_opened(chunk: Chunk, chosen: Mask, first: Numbers) -> None:
    connection = chunk.connection
    copies = {topic for (topic,) in connection.execute("SELECT DISTINCT topic FROM origins")}
    rows = np.flatnonzero(chosen & np.isin(chunk.topic, np.array(sorted(copies), np.int64)))
    if not len(rows):
        return
    grouping = grouped(chunk.topic[rows], chunk.passages.partition[rows])
    columns = (
        *grouping.keys,
        grouping.least(first[rows]),
        grouping.least(chunk.entries.time[chunk.passages.entry[rows]]),
    )
    connection.executemany(_OPENED, zip(*(column.tolist() for column in columns), strict=True))


def touch_copies(chunk: Chunk) -> None:
    """Marks the copies of changed origins for judgement; must be called last."""
    if not any_copies(chunk.connection):
        return
    copies = copies_of(chunk.connection, {topic for topic, _ in chunk.touched})
    chunk.touched.update(
        [(copy, hour) for topic, hour in chunk.touched for copy in copies.get(topic, ())]
    )


def any_copies(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM origins LIMIT 1").fetchall())


def copies_of(connection: sqlite3.Connection, topics: Iterable[int]) -> Mapping[int, list[int]]:
    """Returns the copies of each topic."""
    copies: dict[int, list[int]] = defaultdict(list)
    for origin, copy in connection.execute(
        "SELECT origin, copy FROM copied WHERE origin <> copy"
        " AND origin IN (SELECT value FROM json_each(?)) ORDER BY copy",
        (_json(topics),),
    ):
        copies[origin].append(copy)
    return copies


def origins_of(connection: sqlite3.Connection, copies: Iterable[int]) -> list[int]:
    """Returns the known origins of these copies."""
    rows = connection.execute(
        "SELECT DISTINCT origin FROM copied WHERE copy IN (SELECT value FROM json_each(?))",
        (_json(copies),),
    )
    return sorted(origin for (origin,) in rows)


def _json(topics: Iterable[int]) -> str:
    return str(sorted({int(topic) for topic in topics}))


def origins(connection: sqlite3.Connection, topic: int) -> list[TopicKey]:
    """Returns the origins that were named for this topic, the latest first."""
    rows = connection.execute(
        "SELECT cluster, origin_topic, origin_id FROM origins WHERE topic = ?"
        " ORDER BY last DESC, cluster, origin_topic, origin_id",
        (topic,),
    )
    return [TopicKey(*row) for row in rows]


def marked(connection: sqlite3.Connection, topic: int) -> dict[int, bytes]:
    """Returns, by partition, the packed offsets that brokers counted with an origin."""
    rows = connection.execute("SELECT partition, intervals FROM marked WHERE topic = ?", (topic,))
    return dict(rows.fetchall())


def opened_at(connection: sqlite3.Connection, topic: int) -> int:
    """Returns when a producer other than the mirror was first seen writing to this copy; -1 if
    unknown. Only meaningful if such a producer wrote last."""
    rows = connection.execute("SELECT min(time) FROM opened WHERE topic = ?", (topic,))
    ((time,),) = rows.fetchall()
    return -1 if time is None else int(time)


def claims_of(
    connection: sqlite3.Connection, copies: Sequence[int]
) -> dict[int, dict[int, list[tuple[int, bytes]]]]:
    """Returns, for each copy and partition, the offsets and leader epochs claimed by the most
    reliable tier: brokers, else the mirror, else loaders."""
    by_kind: dict[int, dict[str, dict[int, list[tuple[int, bytes]]]]] = defaultdict(dict)
    for topic, kind, partition, epoch, intervals in connection.execute(
        "SELECT topic, kind, partition, epoch, intervals FROM claimed"
        " JOIN tiers ON tiers.id = tier WHERE topic IN (SELECT value FROM json_each(?))"
        " AND (topic, tier) NOT IN replaced",
        (_json(copies),),
    ):
        rows = by_kind[topic].setdefault(kind, {})
        rows.setdefault(partition, []).append((epoch, intervals))
    return {copy: _first_of(by_kind[copy]) for copy in copies}


def _first_of(by_kind: Mapping[str, dict[int, _Claims]]) -> dict[int, _Claims]:
    return next((by_kind[kind] for kind in _COUNTING if kind in by_kind), {})


def ends(connection: sqlite3.Connection, copies: Sequence[int]) -> dict[int, dict[int, int]]:
    """Returns the known ends of the partitions of these copies."""
    by_kind: dict[int, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for topic, kind, partition, end_offset in connection.execute(
        "SELECT topic, kind, partition, max(upto) FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic IN (SELECT value FROM json_each(?)) AND (topic, tier) NOT IN replaced"
        " GROUP BY topic, kind, partition",
        (_json(copies),),
    ):
        by_kind[topic][kind][partition] = end_offset
    return {copy: _first_of(by_kind[copy]) for copy in copies}


def gaps(connection: sqlite3.Connection, copies: Sequence[int]) -> Keyed:
    """Returns, as united intervals by partition, the offsets that a copy lacks below its end."""
    copy_gaps = none()
    for copy, partitions in claims_of(connection, copies).items():
        rows = [
            (partition, epoch, intervals)
            for partition, epoch_rows in partitions.items()
            for epoch, intervals in epoch_rows
        ]
        claims = in_generations(Generations.of(connection, copy), rows)
        claims = claims.where(claims.key < STRIDE)
        is_first = np.ones(len(claims.key), np.bool_)
        is_first[1:] = claims.key[1:] != claims.key[:-1]
        first = np.zeros(len(claims.key), np.int64)
        first[1:] = claims.end[:-1]
        first[is_first] = 0
        copy_gaps = copy_gaps.and_(Keyed(claims.key, first, claims.first))
    return copy_gaps.united()
