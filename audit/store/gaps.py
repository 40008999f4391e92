"""Offsets of which brokers should have spoken, and have not."""

import sqlite3
from collections.abc import Sequence

import numpy as np

from audit.folding.keyed import Keyed
from audit.picture import TierKind
from audit.store.generations import Generations, placed_in


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
    there = _in_generations(generations, rows)
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
    return set(_in_generations(generations, rows).key.tolist())


def _in_generations(generations: Generations, rows: Sequence[tuple[int, int, bytes]]) -> Keyed:
    """Packed offsets of partitions and epochs, by generation and united."""
    keys = np.arange(len(rows))
    there = Keyed.of_packed(keys, [row[2] for row in rows])
    partition = np.array([row[0] for row in rows], np.int64)[there.key]
    epoch = np.array([row[1] for row in rows], np.int64)[there.key]
    topic = np.zeros(len(there.key), np.int64)
    _, number, offsets = placed_in({0: generations}, topic, partition, epoch, there)
    return Keyed(number, offsets.first, offsets.end).united()
