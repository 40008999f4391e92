"""Which of a partition's offsets are still what they were said to be.

A log can lose what it acknowledged: a directory is removed, a tail cannot be recovered, a leader is
elected that never had it. Then its offsets are given again, to other events, under a higher leader
epoch. Where one such epoch begins, the log is cut: from that offset on, whatever was said under
lower epochs is of a log that is there no more. Or it loses its beginning, and goes on at its end:
then only what lies between two offsets is cut off.

Rule 1: what is said is kept with its leader epoch, and cuts beside it. What a cut means is found
        when they are read, so statements and cuts may come in any order.
Rule 2: between two cuts lies a generation. What of a partition is in the log has its number; what
        was cut off by its cut number i is as if it were of a partition of its own, of the number
        `partition + i * STRIDE`, to which nothing will ever be added. Whoever compares offsets
        compares them there.
Rule 3: a cut is what a broker calls withdrawn; where one and the same journal counts offsets again
        under a higher epoch, as a counter goes back only if the log ends before where it was; and
        where a leader says that its epoch begins, if anybody has counted beyond that under a lower
        one. Another journal that counts offsets under a higher epoch counts the same log once more.
        A rise of the epoch alone, as with each change of leader, cuts nothing.
Rule 4: an epoch that is not known (-1) is that of the log as it is now.
Rule 5: an agent that names a lower epoch beyond where a higher one begins may have lost what it
        speaks of, or not have heard of the next leader yet. That cuts nothing, but offsets prove
        nothing there either, and windows are compared by their sums (`doubtful_times`).

Of batches that are not what was written nobody says under which leader epoch they were. When one
was last found tells: damage that was found before the log was cut there has gone with the rest,
which is missing, or had landed before; whoever is given its offsets next has nothing to do with it.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from audit.picture import AlteredBatch, TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import EpochBeginnings, Numbers
from audit.store.folding.keyed_intervals import Keyed, grouped
from audit.store.folding.stretches import STRETCH, Stretches
from ground.intervals import Interval, Intervals, intersection, minus

STRIDE: Final = 1 << 21  # more than there are partitions
MOST_CUTS: Final = 1_000  # of a partition: the newest
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
# Of what was counted up to some offset; and of an epoch that begins at one.
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
    """What the log lost when this epoch began, up to its end or not, and when somebody said so
    first."""

    epoch: int
    next_offset: int
    first: int
    reason: str
    time: int


class GenerationOffsets(NamedTuple):
    """Offsets in their generation."""

    number: int
    first: int
    end: int


class Generations:
    """Of one topic. Almost always there is but one, and nothing costs anything."""

    def __init__(self, cuts: Mapping[int, Sequence[Truncation]]) -> None:
        """Of each partition in the order of their epochs and offsets."""
        self._cuts = cuts

    @classmethod
    def of(cls, connection: sqlite3.Connection, topic: int) -> "Generations":
        return all_generations(connection, [topic])[topic]

    def __bool__(self) -> bool:
        """Whether anything was ever cut off."""
        return bool(self._cuts)

    @property
    def partitions(self) -> Collection[int]:
        """Those that were cut."""
        return self._cuts.keys()

    def cut_off(self) -> Iterator[tuple[int, Truncation]]:
        """The numbers of all generations that are in the log no more, and what cut them off."""
        for partition, cuts in self._cuts.items():
            for number, each in enumerate(cuts, 1):
                yield partition + number * STRIDE, each

    def parts(self, partition: int, epoch: int, first: int, end: int) -> list[GenerationOffsets]:
        """Where offsets of which somebody spoke under this epoch are now."""
        found: list[GenerationOffsets] = []
        rest: Intervals = ((first, end),) if first < end else ()
        for number, cut in enumerate(self._cuts.get(partition, ()), 1):
            if 0 <= epoch < cut.epoch:
                lost = ((cut.first, cut.next_offset),)
                gone = intersection(rest, lost)
                found += [GenerationOffsets(partition + number * STRIDE, *each) for each in gone]
                rest = minus(rest, lost)
        return [*found, *(GenerationOffsets(partition, *each) for each in rest)]

    def still_there(self, partition: int, time: int, offsets: Interval) -> Intervals:
        """Of offsets of which somebody spoke at this time, and did not say under which epoch, what
        was not cut off since."""
        rest: Intervals = (offsets,)
        for cut in self._cuts.get(partition, ()):
            if time < cut.time:
                rest = minus(rest, ((cut.first, cut.next_offset),))
        return rest

    def cut_of(self, number: int) -> Truncation | None:
        """What cut off a generation; None of the one that is in the log."""
        return self._cuts[number % STRIDE][number // STRIDE - 1] if number >= STRIDE else None

    def of_stretches(self, stretches: Stretches) -> Stretches:
        """With the numbers of generations in the place of partitions. In the place of the epoch is
        1 with those of which a part lies elsewhere: their bytes are of more events than these."""
        found = stretches.copy()
        found["epoch"] = 0
        if not self or not len(stretches):
            return found
        odd = np.isin(stretches["partition"], np.array(sorted(self._cuts), np.int64))
        split = [part for row in stretches[odd] for part in self._of_stretch(row)]
        return np.concatenate((found[~odd], np.array(split, STRETCH)))

    def _of_stretch(self, row: np.void) -> Iterator[tuple[int, ...]]:
        source, partition, first, seq, events, *rest, epoch = row.tolist()
        parts = self.parts(partition, epoch, first, first + events)
        for part in parts:
            here = seq + part.first - first
            size = part.end - part.first
            yield (source, part.number, part.first, here, size, *rest, int(len(parts) > 1))


def any_cuts(connection: sqlite3.Connection) -> bool:
    """Of any topic."""
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
            {partition: some[-MOST_CUTS:] for partition, some in cuts[topic].items()}
            if topic in cuts
            else {}
        )
        for topic in topics
    }


def keep(chunk: Chunk, first: Numbers, next_offset: Numbers, count: Numbers) -> None:
    """Cuts that the chunk tells of. Before its offsets are. By passage; `count` is 0 without."""
    connection = chunk.connection
    counters = chunk.passages_of("broker") & (chunk.passages.epoch >= 0)
    found: list[tuple[int, int, int, int, int]] = []
    begun = EpochBeginnings.of(chunk.passages)
    mine = counters[begun.passage]
    if mine.any():
        for began in _keep_begun(chunk, begun.passage[mine], begun.first[mine]):
            found += connection.execute(_BEGUN_BEFORE, began).fetchall()
    at = np.flatnonzero((count > 0) & counters)
    if len(at):
        for counted in _keep_counted(chunk, at, first[at], next_offset[at]):
            found += connection.execute(_COUNTED_BEYOND, counted).fetchall()
        topics = str(np.unique(chunk.topic[at]).tolist())
        found += connection.execute(_WENT_BACK, (topics,)).fetchall()
    for topic, partition, epoch, offset, time in found:
        cut(chunk, topic, partition, Truncation(epoch, FOR_EVER, offset, "", time))


def _keep_counted(
    chunk: Chunk, at: Numbers, first: Numbers, next_offset: Numbers
) -> list[tuple[int, int, int, int]]:
    """By journal and epoch; topic, partition, epoch, and up to where."""
    passages = chunk.passages
    together = grouped(
        chunk.topic[at],
        passages.partition[at],
        chunk.journal[passages.entry[at]],
        passages.epoch[at],
    )
    topic, partition, journal, epoch = (key.tolist() for key in together.keys)
    reached = together.most(next_offset).tolist()
    begin = together.least(first).tolist()
    time = together.least(chunk.entries.time[passages.entry[at]]).tolist()
    rows = zip(topic, partition, journal, epoch, begin, reached, time, strict=True)
    chunk.connection.executemany(_COUNTED, rows)
    return list(zip(topic, partition, epoch, reached, strict=True))


def _keep_begun(chunk: Chunk, at: Numbers, first: Numbers) -> list[tuple[int, int, int]]:
    """By topic, partition, epoch; returned."""
    passages = chunk.passages
    together = grouped(chunk.topic[at], passages.partition[at], passages.epoch[at])
    topic, partition, epoch = (key.tolist() for key in together.keys)
    begin = together.least(first).tolist()
    time = together.least(chunk.entries.time[passages.entry[at]]).tolist()
    rows = zip(topic, partition, epoch, begin, time, strict=True)
    chunk.connection.executemany(_BEGUN, rows)
    _judge_again(chunk, together.keys[0], together.keys[1])
    return list(zip(topic, partition, epoch, strict=True))


def _judge_again(chunk: Chunk, topic: Numbers, partition: Numbers) -> None:
    """What agents have said beyond there may be doubtful now."""
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
    """Of these times the hours in which offsets prove nothing (Rule 5)."""
    return connection.execute(_DOUBTFUL, (topic, from_time, to_time, FOR_EVER)).fetchall()


def cut(chunk: Chunk, topic: int, partition: int, made: Truncation) -> None:
    """This is known now, if it was not before."""
    connection = chunk.connection
    known = connection.execute(
        "SELECT first, reason, time FROM cuts WHERE topic = ? AND partition = ? AND epoch = ?"
        " AND next_offset = ?",
        (topic, partition, made.epoch, made.next_offset),
    ).fetchall()
    for first, reason, time in known:
        if first <= made.first and made.reason in {"", reason} and time <= made.time:
            return
    connection.execute(_CUT, (topic, partition, *made))
    if made.next_offset == FOR_EVER:
        connection.execute(
            "UPDATE claimed SET upto = min(upto, ?) WHERE topic = ? AND partition = ?"
            " AND epoch >= 0 AND epoch < ?",
            (made.first, topic, partition, made.epoch),
        )
    chunk.cut_topics.add(topic)


def placed_in(
    generations: Mapping[int, Generations],
    topic: Numbers,
    partition: Numbers,
    epoch: Numbers,
    offsets: Keyed,
) -> tuple[Numbers, Numbers, Keyed]:
    """Offsets by row as parts: the row of each, its generation's number, and its offsets, with the
    key that they had."""
    rows = np.arange(len(topic))
    cut_topics = [each for each, some in generations.items() if some]
    if not cut_topics:
        return rows, partition, offsets
    odd = np.isin(topic, np.array(cut_topics, np.int64))
    split = [
        (row, *part)
        for row in np.flatnonzero(odd).tolist()
        for part in generations[int(topic[row])].parts(
            int(partition[row]), int(epoch[row]), int(offsets.first[row]), int(offsets.end[row])
        )
    ]
    more = np.array(split, np.int64).reshape(-1, 4)
    row = np.concatenate((rows[~odd], more[:, 0]))
    number = np.concatenate((partition[~odd], more[:, 1]))
    first = np.concatenate((offsets.first[~odd], more[:, 2]))
    end = np.concatenate((offsets.end[~odd], more[:, 3]))
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
        AlteredBatch(partition, begin, end - begin, reason, time, time + 1)
        for partition, first, after, reason, time, last in connection.execute(
            _DAMAGED, (topic, _MOST)
        )
        for begin, end in generations.still_there(partition, last, (first, after))
    ]


def damaged_offsets(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    rows = [
        (each.partition, each.first, each.first + each.count)
        for each in damage_of(connection, topic, generations)
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Keyed(columns[:, 0], columns[:, 1], columns[:, 2])


def broker_gaps(connection: sqlite3.Connection, topic: int, generations: Generations) -> Keyed:
    """By generation, united: offsets between those that brokers have spoken of: none, as usual; and
    what they have not spoken of where the log was cut."""
    rows = connection.execute(
        "SELECT partition, epoch, intervals FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic = ?1 AND kind = ?2 AND (length(intervals) > 16"
        "  OR partition IN (SELECT partition FROM cuts WHERE topic = ?1)"
        "  OR EXISTS (SELECT 1 FROM claimed AS others WHERE others.topic = ?1"
        "   AND others.partition = claimed.partition AND others.tier = claimed.tier"
        "   AND others.epoch <> claimed.epoch))",
        (topic, TierKind.BROKER),
    ).fetchall()
    there = in_generations(generations, rows)
    same = there.key[1:] == there.key[:-1]
    gaps = Keyed(there.key[1:][same], there.end[:-1][same], there.first[1:][same])
    if not generations:
        return gaps
    taken = _taken(connection, topic, generations)
    for number, cut in generations.cut_off():
        # What nobody took from there before it was lost is in a gap, counted or not.
        mine = there.where((there.key == number) & (number in taken))
        first = int(mine.first.min(initial=cut.next_offset))
        rest = [(cut.first, first), (int(mine.end.max(initial=first)), cut.next_offset)]
        edges = np.array([(number, *each) for each in rest], np.int64)
        gaps = gaps.and_(Keyed(edges[:, 0], edges[:, 1], edges[:, 2]))
    return gaps.united()


def _taken(connection: sqlite3.Connection, topic: int, generations: Generations) -> set[int]:
    """Generations of which a tier behind the brokers has spoken."""
    rows = connection.execute(
        "SELECT partition, epoch, intervals FROM claimed JOIN tiers ON tiers.id = tier"
        " WHERE topic = ?1 AND kind NOT IN (?2, ?3)"
        " AND partition IN (SELECT partition FROM cuts WHERE topic = ?1)",
        (topic, TierKind.AGENT, TierKind.BROKER),
    ).fetchall()
    return set(in_generations(generations, rows).key.tolist())


def in_generations(generations: Generations, rows: Sequence[tuple[int, int, bytes]]) -> Keyed:
    """Packed offsets of partitions and epochs, by generation and united."""
    keys = np.arange(len(rows))
    there = Keyed.of_packed(keys, [row[2] for row in rows])
    partition = np.array([row[0] for row in rows], np.int64)[there.key]
    epoch = np.array([row[1] for row in rows], np.int64)[there.key]
    topic = np.zeros(len(there.key), np.int64)
    _, number, offsets = placed_in({0: generations}, topic, partition, epoch, there)
    return Keyed(number, offsets.first, offsets.end).united()
