"""Keeps which offsets loaders have not compared with agents' digests, and which offsets agents have
signed with digests.

Rule 1: an offset counts if a run of a valid commit log states it as uncompared, no later load
        states it as compared, and an agent has stated a digest of it. Events of other producers
        have no digests, so they wait for nothing. Earlier releases of the loader state nothing.
Rule 2: statements may arrive in any order, so all three are kept, and combined when they are read.
Rule 3: a later load settles what runs up to its own have stated, whatever the hours of its clock.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from audit.reconciling.picture import Tier, TierKind, UncomparedOffsets
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import hours_of, numbers
from audit.store.folding.keyed_intervals import Keyed, grouped, pairs_of
from audit.store.partitions.generations import Generations
from audit.store.statements.rare_statements import HOUR, statements_of
from ground.intervals import Interval, Intervals, intersection, merged, minus

_MOST_OFFSET: Final = 1 << 53
_SIGNED: Final = (
    "SELECT intervals FROM signed WHERE topic = ? AND partition = ? AND said = ? AND epoch = ?"
)
_TOUCHED: Final = """
SELECT DISTINCT topic, hour FROM placed WHERE topic = ? AND partition = ? AND first < ?
    AND next_offset > ?
"""
_UNCOMPARED: Final = """
SELECT tier, history, run, partition, epoch, time, intervals FROM uncompared
    JOIN tiers ON tiers.id = tier WHERE topic = ? AND (topic, tier) NOT IN replaced
"""
_LOADED: Final = "SELECT tier, max(time) FROM loads WHERE topic = ? GROUP BY tier"


def keep(chunk: Chunk) -> None:
    _keep_signed(chunk)
    _keep_uncompared(chunk)


def _keep_signed(chunk: Chunk) -> None:
    """Keeps the offsets of agents' passages that have a digest, by the hour of the report."""
    passages, offsets = chunk.passages, chunk.offsets
    lengths = numbers(pc.fill_null(pc.binary_length(passages.struct.field("digest")), 0))
    is_signed = chunk.passages_of(TierKind.AGENT) & (lengths > 0)
    rows = np.flatnonzero(is_signed[offsets.passage] & (offsets.count > 0))
    if not len(rows):
        return
    passage = offsets.passage[rows]
    grouping = grouped(
        chunk.topic[passage],
        passages.partition[passage],
        hours_of(chunk.entries.time[passages.entry[passage]]),
        passages.epoch[passage],
    )
    first = offsets.first[rows]
    claims = Keyed(grouping.numbered(), first, first + offsets.count[rows]).united()
    keys = list(zip(*(column.tolist() for column in grouping.keys), strict=True))
    stored_keys: list[int] = []
    stored: list[bytes] = []
    for number, key in enumerate(keys):
        for (packed,) in chunk.connection.execute(_SIGNED, key):
            stored_keys.append(number)
            stored.append(packed)
    known = Keyed.of_packed(np.array(stored_keys, np.int64), stored)
    numbers_, packed_claims = known.and_(claims).united().packed()
    chunk.connection.executemany(
        "INSERT OR REPLACE INTO signed VALUES (?, ?, ?, ?, ?)",
        [
            (*keys[number], packed)
            for number, packed in zip(numbers_.tolist(), packed_claims, strict=True)
        ],
    )


def _keep_uncompared(chunk: Chunk) -> None:
    passages = chunk.passages
    column = passages.struct.field("uncompared")
    has_any = numbers(pc.fill_null(pc.list_value_length(column), 0)) > 0
    for row in np.flatnonzero(chunk.passages_of(TierKind.HDFS) & has_any).tolist():
        entry = int(passages.entry[row])
        offsets = _offsets(column[row].as_py())
        key = (int(chunk.topic[row]), int(chunk.tier[entry]), int(chunk.entries.run[entry]))
        log = int(passages.partition[row]), int(passages.epoch[row])
        chunk.connection.execute(
            "INSERT OR REPLACE INTO uncompared VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, *log, offsets[0][0], int(chunk.entries.time[entry]), _packed(offsets)),
        )


def keep_compared(chunk: Chunk) -> None:
    """Keeps what loads have compared after the run that read it."""
    for row, statement in statements_of(chunk, "compared", TierKind.HDFS):
        (name,) = chunk.topic_names([statement["topic"]])
        (topic,) = chunk.numbers.topics.of([statement["topic_id"]], name)
        partition, offsets = statement["partition"], _offsets(statement["offsets"])
        if not offsets:
            continue
        key = topic, statement["journal"], min(statement["run"], _MOST_OFFSET), partition
        chunk.connection.execute(
            "INSERT OR REPLACE INTO compared VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, *offsets[0], int(chunk.entries.time[row]), _packed(offsets)),
        )
        spanned = offsets[-1][1], offsets[0][0]
        chunk.touched.update(chunk.connection.execute(_TOUCHED, (topic, partition, *spanned)))


def _offsets(stretches: list[dict[str, Any]]) -> Intervals:
    return merged(
        (max(0, part["first"]), min(part["first"] + part["count"], _MOST_OFFSET))
        for part in stretches
        if part["count"] > 0
    )


def _packed(offsets: Intervals) -> bytes:
    return np.array(offsets, "<i8").tobytes()


def of(
    connection: sqlite3.Connection,
    topic: int,
    tiers: Mapping[int, Tier],
    generations: Generations,
) -> list[UncomparedOffsets]:
    """Returns the uncompared offsets that agents have signed, without times."""
    compared = _compared(connection, topic)
    loaded = dict(connection.execute(_LOADED, (topic,)).fetchall())
    signed: dict[int, list[tuple[int, int, Interval]]] = {}
    result: list[UncomparedOffsets] = []
    for tier, history, run, partition, epoch, time, packed in connection.execute(
        _UNCOMPARED, (topic,)
    ).fetchall():
        offsets = minus(pairs_of(packed), merged(_settled(compared, history, run, partition)))
        if not offsets:
            continue
        if partition not in signed:
            signed[partition] = list(_signed(connection, topic, partition, generations))
        own_parts = [
            part for pair in offsets for part in generations.parts(partition, epoch, *pair)
        ]
        for number, said, stretch in signed[partition]:
            own = merged(part[1:] for part in own_parts if part.number == number)
            since = max(time, said + HOUR)
            result += [
                UncomparedOffsets(
                    tiers[tier], number, partition, *part, since, loaded.get(tier, -1)
                )
                for part in intersection(own, (stretch,))
            ]
    return result


def signed(connection: sqlite3.Connection, topic: int, offsets: Mapping[int, Intervals]) -> bool:
    """Whether agents have signed any of these offsets, by partition, as the log is now."""
    generations = Generations.of(connection, topic)
    return any(
        number == partition and intersection((stretch,), wanted)
        for partition, wanted in offsets.items()
        for number, _, stretch in _signed(connection, topic, partition, generations)
    )


def _settled(
    compared: Mapping[tuple[str, int], list[tuple[int, Intervals]]],
    history: str,
    run: int,
    partition: int,
) -> Iterator[Interval]:
    for last_run, offsets in compared.get((history, partition), ()):
        if last_run >= run:
            yield from offsets


def _compared(
    connection: sqlite3.Connection, topic: int
) -> Mapping[tuple[str, int], list[tuple[int, Intervals]]]:
    compared: dict[tuple[str, int], list[tuple[int, Intervals]]] = defaultdict(list)
    for journal, run, partition, packed in connection.execute(
        "SELECT journal, run, partition, intervals FROM compared WHERE topic = ?", (topic,)
    ):
        compared[journal, partition].append((run, pairs_of(packed)))
    return compared


def _signed(
    connection: sqlite3.Connection, topic: int, partition: int, generations: Generations
) -> Iterator[tuple[int, int, Interval]]:
    for said, epoch, packed in connection.execute(
        "SELECT said, epoch, intervals FROM signed WHERE topic = ? AND partition = ?",
        (topic, partition),
    ):
        for pair in pairs_of(packed):
            for part in generations.parts(partition, epoch, *pair):
                yield part.number, said, (part.first, part.end)
