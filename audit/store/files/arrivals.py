"""What files still wait for, until all of their events have arrived: for their agents, and for each
broker, mirror and loader that has not reached the offsets of their events.

A file's end is known once its agent has reported it, or has reported that it will not read it to
its end. Events beyond the end of a later tier's claims wait for that tier; events below it that the
tier lacks are missing, and are not waited for.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from audit.reconciling.picture import TierKind
from audit.reconciling.topic_verdict import Wait
from audit.store.files.shipped_stretches import MISSING, OPEN, UNCOUNTED, stretches_of
from audit.store.folding.keyed_intervals import Mask
from audit.store.folding.stretches import Stretches
from audit.store.partitions import origins
from audit.store.partitions.offsets import tiers_of

_ENDS: Final = """
SELECT tier, partition, max(upto) FROM claimed WHERE topic = ? GROUP BY tier, partition
"""
_FINISHED: Final = """
SELECT source, events, size FROM finished
    WHERE name = ? AND source IN (SELECT value FROM json_each(?))
"""
_UNREAD: Final = """
SELECT source, reason FROM unwatched
    WHERE name = ? AND source IN (SELECT value FROM json_each(?)) ORDER BY time
"""


class FileEnd(msgspec.Struct, frozen=True):
    """The end of a file as its agent has reported it; -1: not yet. `unread`: why the agent will not
    read it to its end."""

    events: int = -1
    size: int = -1
    unread: str = ""


class _LaterTier(msgspec.Struct, frozen=True):
    """A tier that follows the agents, and the ends of its partitions."""

    on: str
    words: str
    ends: Mapping[int, int]
    destination: str = ""

    def lacks(self, stretches: Stretches) -> Iterator[tuple[int, int]]:
        """Yields sources with the numbers of their events that it has not reached."""
        for source, partition, first, events in stretches[
            ["source", "partition", "first", "events"]
        ].tolist():
            reached = max(first, self.ends.get(partition, 0))
            if reached < first + events:
                yield source, first + events - reached


class Arrivals:
    """The ends of these files of a topic, and what they wait for. `ids` has their numbers by
    source."""

    def __init__(
        self, connection: sqlite3.Connection, topic: int, name: int, ids: Mapping[str, int]
    ) -> None:
        self._ends = _file_ends(connection, name, ids)
        topics = [topic]
        if origins.any_copies(connection):
            topics += origins.copies_of(connection, [topic]).get(topic, ())
        stretches = stretches_of(
            connection.execute(
                "SELECT stretches FROM details WHERE topic = ? AND kind = ?", (topic, OPEN)
            )
        )
        stretches = stretches[_are_of(stretches, ids)]
        later_tiers = list(_later_tiers(connection, topics))
        self.destinations = sorted({tier.destination for tier in later_tiers} - {""})
        self._waits: dict[int, list[Wait]] = defaultdict(list)
        for tier in later_tiers:
            lacking: dict[int, int] = defaultdict(int)
            for source, events in tier.lacks(stretches):
                lacking[source] += events
            for source, events in lacking.items():
                words = f"{_events(events)} {tier.words}"
                self._waits[source].append(Wait(on=tier.on, words=words))
        self.lacking = _lacking(connection, topic, ids)

    def end_of(self, source: str) -> FileEnd:
        return self._ends.get(source, FileEnd())

    def waits_of(self, source: str, number: int, reported_events: int) -> list[Wait]:
        """What a file waits for that has reported so many events."""
        end = self.end_of(source)
        waits = []
        if end.events < 0 and not end.unread:
            waits.append(Wait(on=TierKind.AGENT, words="it has not been shipped to its end"))
        elif end.events > reported_events:
            words = f"{_events(end.events - reported_events)} not reported as shipped yet"
            waits.append(Wait(on=TierKind.AGENT, words=words))
        return waits + self._waits[number]


def _later_tiers(connection: sqlite3.Connection, topics: Sequence[int]) -> Iterator[_LaterTier]:
    """Yields the tiers of a topic and, behind it in `topics`, of its copies."""
    roots = dict(connection.execute("SELECT id, destination FROM tiers WHERE kind = 'hdfs'"))
    for topic, tiers in tiers_of(connection, topics).items():
        ends: dict[int, dict[int, int]] = defaultdict(dict)
        for tier, partition, upto in connection.execute(_ENDS, (topic,)):
            ends[tier][partition] = upto
        for tier, kind in tiers.items():
            if kind is TierKind.HDFS:
                yield _LaterTier(kind, f"not in {roots[tier]} yet", ends[tier], roots[tier])
            elif kind is TierKind.BROKER and topic == topics[0]:
                yield _LaterTier(kind, "not counted by a broker yet", ends[tier])
            elif kind is TierKind.BROKER and TierKind.HDFS not in tiers.values():
                yield _LaterTier(TierKind.MIRROR, "not counted in the copy yet", ends[tier])


def _file_ends(
    connection: sqlite3.Connection, name: int, ids: Mapping[str, int]
) -> dict[str, FileEnd]:
    parameters = (name, json.dumps(list(ids)))
    ends = {
        source: FileEnd(unread=reason) for source, reason in connection.execute(_UNREAD, parameters)
    }
    for source, events, size in connection.execute(_FINISHED, parameters):
        ends[source] = FileEnd(events, size)
    return ends


def _are_of(stretches: Stretches, ids: Mapping[str, int]) -> Mask:
    return np.isin(stretches["source"], np.array(sorted(ids.values()), np.int64))


def _lacking(connection: sqlite3.Connection, topic: int, ids: Mapping[str, int]) -> set[int]:
    """The files with events that a later tier lacks, whether or not they landed elsewhere."""
    stretches = stretches_of(
        connection.execute(
            "SELECT stretches FROM details WHERE topic = ? AND kind IN (?, ?)",
            (topic, MISSING, UNCOUNTED),
        )
    )
    return set(stretches["source"][_are_of(stretches, ids)].tolist())


def _events(count: int) -> str:
    return "1 event is" if count == 1 else f"{count:,} events are"
