"""Generations of a partition's offsets, which distinguish offsets that are in the log from offsets
that the log has lost.

A log can lose what it acknowledged: a directory is removed, a tail cannot be recovered, or a leader
is elected that never had it. Then its offsets are assigned again, to other events, under a higher
leader epoch. Where such an epoch begins, the log is cut: claims from that offset on, under lower
epochs, are about a log that is gone. Or the log loses its beginning and continues at its end: then
only the offsets in between are cut off.

Rule 1: Claims are kept with their leader epochs, and cuts beside them. They are combined when they
        are read, so claims and cuts may arrive in any order.
Rule 2: A generation lies between two cuts. The part of a partition that is in the log has the
        partition's number; what its cut number i cut off is treated as a partition of its own,
        number `partition + i * STRIDE`, to which nothing is ever added. Offsets are compared within
        these.
Rule 3: There is a cut where a broker reports offsets withdrawn; where the same journal counts
        offsets again under a higher epoch, as a counter goes back only if the log ends before its
        position; and where a leader reports that its epoch begins, if any journal had counted
        beyond that under a lower one. Another journal that counts offsets under a higher epoch
        counts the same log again. A higher epoch alone, as after each change of leader, cuts
        nothing.
Rule 4: An unknown epoch (-1) is that of the present log.
Rule 5: An agent that reports a lower epoch beyond the beginning of a higher one may have lost these
        events, or may not know the next leader yet. This cuts nothing, but offsets prove nothing
        there, so windows are compared by their sums (`doubtful_times`).

Reports of damaged batches have no leader epoch. The time of the latest report decides: damage that
was found before the log was cut there is gone with the rest, which is missing or had landed before;
the events that have its offsets now are not affected.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from audit.reconciling.picture import AlteredBatch, TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import EpochBeginnings, Numbers
from audit.store.folding.keyed_intervals import Keyed, grouped
from audit.store.folding.stretches import STRETCH, Stretches
from ground.intervals import Interval, Intervals, intersection, minus

STRIDE: Final = 1 << 21  # more than there are partitions
MOST_CUTS: Final = 1_000  # of a partition; the newest are kept
FOR_EVER: Final = 1 << 60

_COUNTED: Final = """
INSERT INTO counted_under VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = min(first, excluded.first),
    next_offset = max(next_offset, excluded.next_offset), time = min(time, excluded.time)
"""
_WENT_BACK: Final = """
SELECT later.topic, later.partition, later.epoch, later.first, later.time
    FROM counted_under AS later
    WHERE later.topic IN (SELECT value FROM json_each(?)) AND EXISTS (
        SELECT 1 FROM counted_under AS before WHERE before.topic = later.topic
        AND before.partition = later.partition AND before.journal = later.journal
        AND before.epoch < later.epoch AND before.next_offset > later.first)
"""
_BEGUN: Final = """
INSERT INTO begun VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET first = min(first, excluded.first), time = min(time, excluded.time)
"""
# Cuts that follow from counting up to an offset, and from an epoch that begins at one.
_COUNTED_BEYOND: Final = """
SELECT topic, partition, epoch, first, time FROM begun
    WHERE topic = ? AND partition = ? AND epoch > ? AND first < ?
"""
_BEGUN_BEFORE: Final = """
SELECT topic, partition, epoch, first, time FROM begun
    WHERE topic = ?1 AND partition = ?2 AND epoch = ?3 AND EXISTS (
        SELECT 1 FROM counted_under AS before WHERE before.topic = ?1 AND before.partition = ?2
        AND before.epoch < ?3 AND before.next_offset > begun.first)
"""
_DOUBTFUL: Final = """
SELECT DISTINCT hour, to_time FROM placed
    JOIN begun ON begun.topic = placed.topic AND begun.partition = placed.partition
        AND begun.epoch > placed.epoch AND begun.first < placed.next_offset
    WHERE placed.topic = ?1 AND hour < ?3 AND to_time >= ?2 AND placed.epoch >= 0 AND NOT EXISTS (
        SELECT 1 FROM cuts WHERE cuts.topic = begun.topic AND cuts.partition = begun.partition
        AND cuts.epoch > placed.epoch AND cuts.first <= begun.first AND cuts.next_offset = ?4)
"""
_CUT: Final = """
INSERT INTO cuts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    first = min(first, excluded.first), time = min(time, excluded.time),
    reason = CASE WHEN reason = '' OR (excluded.reason <> '' AND excluded.reason < reason)
        THEN excluded.reason ELSE reason END
"""


class Truncation(NamedTuple):
    """A loss of a log's end at the beginning of this epoch, and when it was first reported."""

    epoch: int
    next_offset: int
    first: int
    reason: str
    time: int


class GenerationOffsets(NamedTuple):
    """Offsets within a generation."""

    number: int
    first: int
    end: int


class Generations:
    """The generations of one topic. Nearly always there is only one, which costs little."""

    def __init__(self, cuts: Mapping[int, Sequence[Truncation]]) -> None:
        """`cuts`: by partition, ordered by epoch and offset."""
        self._cuts = cuts

    @classmethod
    def of(cls, connection: sqlite3.Connection, topic: int) -> "Generations":
        return all_generations(connection, [topic])[topic]

    def __bool__(self) -> bool:
        """Whether anything was ever cut off."""
        return bool(self._cuts)

    @property
    def partitions(self) -> Collection[int]:
        """The partitions whose logs were cut."""
        return self._cuts.keys()

    def cut_off(self) -> Iterator[tuple[int, Truncation]]:
        """Yields the numbers of all generations that were cut off, each with its cut."""
        for partition, cuts in self._cuts.items():
            for number, cut in enumerate(cuts, 1):
                yield partition + number * STRIDE, cut

    def parts(self, partition: int, epoch: int, first: int, end: int) -> list[GenerationOffsets]:
        """Splits offsets that were claimed under this epoch into generations."""
        parts: list[GenerationOffsets] = []
        remaining_offsets: Intervals = ((first, end),) if first < end else ()
        for number, cut in enumerate(self._cuts.get(partition, ()), 1):
            if 0 <= epoch < cut.epoch:
                lost_offsets = ((cut.first, cut.next_offset),)
                lost_offsets_here = intersection(remaining_offsets, lost_offsets)
                parts += [
                    GenerationOffsets(partition + number * STRIDE, *part)
                    for part in lost_offsets_here
                ]
                remaining_offsets = minus(remaining_offsets, lost_offsets)
        return [*parts, *(GenerationOffsets(partition, *part) for part in remaining_offsets)]

    def still_there(self, partition: int, time: int, offsets: Interval) -> Intervals:
        """Returns which of these offsets, reported at this time without an epoch, have not been
        truncated since."""
        remaining_offsets: Intervals = (offsets,)
        for cut in self._cuts.get(partition, ()):
            if time < cut.time:
                remaining_offsets = minus(remaining_offsets, ((cut.first, cut.next_offset),))
        return remaining_offsets

    def cut_of(self, number: int) -> Truncation | None:
        """Returns the cut that ended a generation; None for the generation in the log."""
        return self._cuts[number % STRIDE][number // STRIDE - 1] if number >= STRIDE else None

    def of_stretches(self, stretches: Stretches) -> Stretches:
        """Replaces partitions by the numbers of generations. The epoch becomes 1 for the parts of a
        stretch in several generations, because the stretch's bytes also contain other events; else
        0."""
        result = stretches.copy()
        result["epoch"] = 0
        if not self or not len(stretches):
            return result
        is_cut = np.isin(stretches["partition"], np.array(sorted(self._cuts), np.int64))
        split_rows = [part for row in stretches[is_cut] for part in self._of_stretch(row)]
        return np.concatenate((result[~is_cut], np.array(split_rows, STRETCH)))

    def _of_stretch(self, row: np.void) -> Iterator[tuple[int, ...]]:
        source, partition, first, seq, events, *rest, epoch = row.tolist()
        parts = self.parts(partition, epoch, first, first + events)
        for part in parts:
            part_seq = seq + part.first - first
            size = part.end - part.first
            yield (source, part.number, part.first, part_seq, size, *rest, int(len(parts) > 1))


def any_cuts(connection: sqlite3.Connection) -> bool:
    """Whether the log of any topic was ever cut."""
    return bool(connection.execute("SELECT 1 FROM cuts LIMIT 1").fetchall())


def all_generations(
    connection: sqlite3.Connection, topics: Sequence[int]
) -> Mapping[int, Generations]:
    cuts: dict[int, dict[int, list[Truncation]]] = defaultdict(lambda: defaultdict(list))
    for topic, partition, *cut in connection.execute(
        "SELECT topic, partition, epoch, next_offset, first, reason, time FROM cuts"
        " WHERE topic IN (SELECT value FROM json_each(?)) ORDER BY topic, partition, epoch, first",
        (str(list(topics)),),
    ):
        cuts[topic][partition].append(Truncation(*cut))
    return {
        topic: Generations(
            {
                partition: partition_cuts[-MOST_CUTS:]
                for partition, partition_cuts in cuts[topic].items()
            }
            if topic in cuts
            else {}
        )
        for topic in topics
    }


def keep(chunk: Chunk, first: Numbers, next_offset: Numbers, count: Numbers) -> None:
    """Stores the cuts that follow from the chunk; must be called before the chunk's offsets are
    stored. Arrays are by passage; `count` is 0 without offsets."""
    connection = chunk.connection
    is_counter_passage = chunk.passages_of("broker") & (chunk.passages.epoch >= 0)
    beginning_rows: list[tuple[int, int, int, int, int]] = []
    beginnings = EpochBeginnings.of(chunk.passages)
    is_counter = is_counter_passage[beginnings.passage]
    if is_counter.any():
        for beginning in _keep_begun(
            chunk, beginnings.passage[is_counter], beginnings.first[is_counter]
        ):
            beginning_rows += connection.execute(_BEGUN_BEFORE, beginning).fetchall()
    rows = np.flatnonzero((count > 0) & is_counter_passage)
    if len(rows):
        for count_row in _keep_counted(chunk, rows, first[rows], next_offset[rows]):
            beginning_rows += connection.execute(_COUNTED_BEYOND, count_row).fetchall()
        topics = str(np.unique(chunk.topic[rows]).tolist())
        beginning_rows += connection.execute(_WENT_BACK, (topics,)).fetchall()
    for topic, partition, epoch, offset, time in beginning_rows:
        cut(chunk, topic, partition, Truncation(epoch, FOR_EVER, offset, "", time))


def _keep_counted(
    chunk: Chunk, at: Numbers, first: Numbers, next_offset: Numbers
) -> list[tuple[int, int, int, int]]:
    """Keeps what was counted, and returns topic, partition, epoch and end of each."""
    passages = chunk.passages
    grouping = grouped(
        chunk.topic[at],
        passages.partition[at],
        chunk.journal[passages.entry[at]],
        passages.epoch[at],
    )
    topic, partition, journal, epoch = (key.tolist() for key in grouping.keys)
    end_offsets = grouping.most(next_offset).tolist()
    begin = grouping.least(first).tolist()
    time = grouping.least(chunk.entries.time[passages.entry[at]]).tolist()
    rows = zip(topic, partition, journal, epoch, begin, end_offsets, time, strict=True)
    chunk.connection.executemany(_COUNTED, rows)
    return list(zip(topic, partition, epoch, end_offsets, strict=True))


def _keep_begun(chunk: Chunk, at: Numbers, first: Numbers) -> list[tuple[int, int, int]]:
    """Keeps the beginnings of epochs, and returns topic, partition and epoch of each."""
    passages = chunk.passages
    grouping = grouped(chunk.topic[at], passages.partition[at], passages.epoch[at])
    topic, partition, epoch = (key.tolist() for key in grouping.keys)
    begin = grouping.least(first).tolist()
    time = grouping.least(chunk.entries.time[passages.entry[at]]).tolist()
    rows = zip(topic, partition, epoch, begin, time, strict=True)
    chunk.connection.executemany(_BEGUN, rows)
    _judge_again(chunk, grouping.keys[0], grouping.keys[1])
    return list(zip(topic, partition, epoch, strict=True))


def _judge_again(chunk: Chunk, topic: Numbers, partition: Numbers) -> None:
    """Touches the hours of agents' claims that may be doubtful now."""
    for pair in zip(topic.tolist(), partition.tolist(), strict=True):
        rows = chunk.connection.execute(
            "SELECT DISTINCT placed.topic, hour FROM placed JOIN begun USING (topic, partition)"
            " WHERE topic = ? AND partition = ? AND begun.epoch > placed.epoch"
            " AND placed.epoch >= 0 AND begun.first < placed.next_offset",
            pair,
        )
        chunk.touched.update(rows.fetchall())


def doubtful_times(
    connection: sqlite3.Connection, topic: int, from_time: int, to_time: int
) -> list[tuple[int, int]]:
    """Returns the hours in this period in which offsets prove nothing (Rule 5)."""
    return connection.execute(_DOUBTFUL, (topic, from_time, to_time, FOR_EVER)).fetchall()


def cut(chunk: Chunk, topic: int, partition: int, truncation: Truncation) -> None:
    """Stores a cut, unless it is already stored."""
    connection = chunk.connection
    known_cuts = connection.execute(
        "SELECT first, reason, time FROM cuts WHERE topic = ? AND partition = ? AND epoch = ?"
        " AND next_offset = ?",
        (topic, partition, truncation.epoch, truncation.next_offset),
    ).fetchall()
    for first, reason, time in known_cuts:
        if (
            first <= truncation.first
            and truncation.reason in {"", reason}
            and time <= truncation.time
        ):
            return
    connection.execute(_CUT, (topic, partition, *truncation))
    if truncation.next_offset == FOR_EVER:
        connection.execute(
            "UPDATE claimed SET upto = min(upto, ?) WHERE topic = ? AND partition = ?"
            " AND epoch >= 0 AND epoch < ?",
            (truncation.first, topic, partition, truncation.epoch),
        )
    chunk.cut_topics.add(topic)


def placed_in(
    generations: Mapping[int, Generations],
    topic: Numbers,
    partition: Numbers,
    epoch: Numbers,
    offsets: Keyed,
) -> tuple[Numbers, Numbers, Keyed]:
    """Splits offsets into parts by generation. Returns the row of each part, its generation's
    number, and its offsets, with their former keys."""
    rows = np.arange(len(topic))
    cut_topics = [
        topic_id for topic_id, topic_generations in generations.items() if topic_generations
    ]
    if not cut_topics:
        return rows, partition, offsets
    is_cut = np.isin(topic, np.array(cut_topics, np.int64))
    split_rows = [
        (row, *part)
        for row in np.flatnonzero(is_cut).tolist()
        for part in generations[int(topic[row])].parts(
            int(partition[row]), int(epoch[row]), int(offsets.first[row]), int(offsets.end[row])
        )
    ]
    part_columns = np.array(split_rows, np.int64).reshape(-1, 4)
    row = np.concatenate((rows[~is_cut], part_columns[:, 0]))
    number = np.concatenate((partition[~is_cut], part_columns[:, 1]))
    first = np.concatenate((offsets.first[~is_cut], part_columns[:, 2]))
    end = np.concatenate((offsets.end[~is_cut], part_columns[:, 3]))
    order = np.argsort(row, kind="stable")
    row = row[order]
    return row, number[order], Keyed(offsets.key[row], first[order], end[order])


_MOST: Final = 10_000
_DAMAGED: Final = """
SELECT partition, first, first + count, min(reason), min(time), max(damaged.last)
    FROM damaged JOIN topics USING (name)
    WHERE topics.id = ? AND damaged.topic_id IN ('', topics.topic_id)
    GROUP BY partition, first, count LIMIT ?
"""


def damage_of(
    connection: sqlite3.Connection, topic: int, generations: Generations
) -> list[AlteredBatch]:
    return [
        AlteredBatch(partition, begin, end - begin, reason, time, time + 1, found=time)
        for partition, first, end_offset, reason, time, last_time in connection.execute(
            _DAMAGED, (topic, _MOST)
        )
        for begin, end in generations.still_there(partition, last_time, (first, end_offset))
    ]


def damaged_offsets(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    rows = [
        (batch.partition, batch.first, batch.first + batch.count)
        for batch in damage_of(connection, topic, generations)
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Keyed(columns[:, 0], columns[:, 1], columns[:, 2])


def broker_gaps(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    """Returns, as united intervals by generation, gaps between the offsets that brokers have
    claimed (usually none), and unclaimed offsets where the log was truncated."""
    rows = connection.execute(
        "SELECT partition, epoch, intervals FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic = ?1 AND kind = ?2 AND (length(intervals) > 16"
        "  OR partition IN (SELECT partition FROM cuts WHERE topic = ?1)"
        "  OR EXISTS (SELECT 1 FROM claimed AS others WHERE others.topic = ?1"
        "   AND others.partition = claimed.partition AND others.tier = claimed.tier"
        "   AND others.epoch <> claimed.epoch))",
        (topic, TierKind.BROKER),
    ).fetchall()
    claims = in_generations(generations, rows)
    is_same_key = claims.key[1:] == claims.key[:-1]
    gaps = Keyed(
        claims.key[1:][is_same_key], claims.end[:-1][is_same_key], claims.first[1:][is_same_key]
    )
    if not generations:
        return gaps
    taken_offsets = _taken(connection, topic, generations)
    for number, cut in generations.cut_off():
        # What no later tier had read before it was lost is a gap, counted or not.
        generation_claims = claims.where((claims.key == number) & (number in taken_offsets))
        first = int(generation_claims.first.min(initial=cut.next_offset))
        edge_pairs = [
            (cut.first, first),
            (int(generation_claims.end.max(initial=first)), cut.next_offset),
        ]
        edges = np.array([(number, *edge) for edge in edge_pairs], np.int64)
        gaps = gaps.and_(Keyed(edges[:, 0], edges[:, 1], edges[:, 2]))
    return gaps.united()


def _taken(connection: sqlite3.Connection, topic: int, generations: Generations) -> set[int]:
    """Returns the generations with offsets that a tier after the brokers has claimed."""
    rows = connection.execute(
        "SELECT partition, epoch, intervals FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic = ?1 AND kind NOT IN (?2, ?3)"
        " AND partition IN (SELECT partition FROM cuts WHERE topic = ?1)",
        (topic, TierKind.AGENT, TierKind.BROKER),
    ).fetchall()
    return set(in_generations(generations, rows).key.tolist())


def in_generations(generations: Generations, rows: Sequence[tuple[int, int, bytes]]) -> Keyed:
    """Unites packed offsets of partitions and epochs by generation."""
    keys = np.arange(len(rows))
    claims = Keyed.of_packed(keys, [row[2] for row in rows])
    partition = np.array([row[0] for row in rows], np.int64)[claims.key]
    epoch = np.array([row[1] for row in rows], np.int64)[claims.key]
    topic = np.zeros(len(claims.key), np.int64)
    _, number, offsets = placed_in({0: generations}, topic, partition, epoch, claims)
    return Keyed(number, offsets.first, offsets.end).united()
