"""Decides which of several events with the same source and seq becomes a row, and which are
duplicates or collisions of it. Only events of equal content are duplicates. Pure.

Any producer with access to a topic can use any source and seq. The claims of agents in the ledger
(ledger/claims.py) show which events are theirs.

Rule 1. An event that an agent claims at its offset wins over unclaimed ones. Otherwise one that
        landed in an earlier run wins, then the first.
Rule 2. The loser becomes a dead letter, and is reported in the ledger (`collided`): an agent may
        claim its offset later, and the audit then finds a row missing.
Rule 3. If the winner comes after a row of an earlier run, both are rows, since a run never removes
        files. The ledger then has the event twice; rebuilding its hour removes the other row.
Rule 4. If one journal claims two events, the second is a duplicate: the agent itself reports that
        it shipped the event twice.
Rule 5. If the original of an event is gone from the log, equality cannot be shown, and the later
        event loses.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ground.intervals import Interval, Intervals, merged, minus, size, union
from loader.decoding.decoded import COLLISION
from loader.values.manifests import Collision, KnownSources
from loader.values.reports import closed, intervals_of, landed_of
from loader.values.tables import Partition, Slice

GONE: Final = -1  # the offset of an event that is no longer in the log

Named = tuple[str, int]  # source and seq


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """One of several events with the same source and seq."""

    partition: int
    offset: int
    content: bytes  # digest of key and value
    time: int
    leader_epoch: int
    landed: bool = False  # in an earlier run
    claimed: str = ""  # the journal that claims it


class Settled(msgspec.Struct):
    """The decisions: `buried` has the offsets of events that become dead letters, `freed`, by
    topic, the events that landed before and land again."""

    buried: dict[Partition, Intervals] = {}
    freed: dict[str, dict[str, Intervals]] = {}
    collisions: list[Collision] = []

    def add(self, other: "Settled") -> None:
        for log, offsets in other.buried.items():
            self.buried[log] = union(self.buried.get(log, ()), offsets)
        for topic, sources in other.freed.items():
            intervals_by_source = self.freed.setdefault(topic, {})
            for source, seqs in sources.items():
                intervals_by_source[source] = union(intervals_by_source.get(source, ()), seqs)
        self.collisions += other.collisions

    def warnings(self) -> Iterator[str]:
        lost_events = sum(collision.events for collision in self.collisions)
        if lost_events:
            yield (
                f"{lost_events:,} events have the source and seq of another event, but different"
                f" content: they became dead letters (`{COLLISION}`), the first of source"
                f" {self.collisions[0].source} in {self.collisions[0].topic}-"
                f"{self.collisions[0].partition} from offset {self.collisions[0].first} on"
            )
        for topic, sources in self.freed.items():
            events = sum(map(size, sources.values()))
            yield (
                f"{events:,} events that agents claim have the source and seq of unclaimed events"
                f" that landed before from {topic}: both are rows; --rebuild removes the unclaimed"
            )

    def slices(self, slices: Iterable[Slice]) -> list[Slice]:
        """Returns the slices, each with its buried offsets."""

        def with_buried(piece: Slice) -> Slice:
            offsets = self.buried.get(piece.origin, ())
            return replace(piece, buried=closed(offsets)) if offsets else piece

        return [with_buried(piece) for piece in slices]

    def known(self, known: Iterable[KnownSources]) -> tuple[KnownSources, ...]:
        """Returns the landed sources, without the events that land again."""
        return tuple(
            replace(
                sources,
                landed={
                    source: landed_of(
                        minus(
                            intervals_of(landed_events),
                            self.freed.get(sources.topic, {}).get(source, ()),
                        )
                    )
                    for source, landed_events in sources.landed.items()
                },
            )
            for sources in known
        )


def settled(contests: Mapping[Named, Sequence[Contender]], topic: str, topic_id: str) -> Settled:
    """Decides contests. Contenders are given in the order in which they landed or stand in the
    log."""
    settled = Settled()
    buried_offsets: dict[int, list[Interval]] = defaultdict(list)
    freed_intervals: dict[str, list[Interval]] = defaultdict(list)
    for (source, seq), contenders in sorted(contests.items()):
        winner = next((event for event in contenders if event.claimed), contenders[0])
        equal_events = [event for event in contenders if event.content == winner.content]
        other_events = [event for event in contenders if event.content != winner.content]
        has_landed = any(event.landed and event.claimed != winner.claimed for event in other_events)
        if has_landed and not any(event.landed for event in equal_events):
            freed_intervals[source].append((seq, seq + 1))
        for event in other_events:
            if event.landed or (event.claimed and event.claimed == winner.claimed):
                continue
            buried_offsets[event.partition].append((event.offset, event.offset + 1))
            collision = Collision(
                topic=topic,
                topic_id=topic_id,
                partition=event.partition,
                leader_epoch=event.leader_epoch,
                first=event.offset,
                source=source,
                seq=seq,
                events=1,
                kept_partition=winner.partition,
                kept=winner.offset,
                from_time=event.time,
                to_time=event.time + 1,
            )
            _note(settled.collisions, collision)
    settled.buried = {
        (topic, partition): merged(intervals) for partition, intervals in buried_offsets.items()
    }
    if freed_intervals:
        settled.freed = {
            topic: {source: merged(intervals) for source, intervals in freed_intervals.items()}
        }
    return settled


def _note(collisions: list[Collision], collision: Collision) -> None:
    """Adds a collision, joined with the last one if it continues it."""
    last = collisions[-1] if collisions else None
    if last is None or _continuation(last) != _beginning(collision):
        collisions.append(collision)
        return
    collisions[-1] = replace(
        last,
        events=last.events + 1,
        from_time=min(last.from_time, collision.from_time),
        to_time=max(last.to_time, collision.to_time),
    )


def _beginning(collision: Collision) -> tuple[object, ...]:
    key = collision.partition, collision.leader_epoch, collision.kept_partition
    return key, collision.source, collision.seq, collision.first, collision.kept


def _continuation(collision: Collision) -> tuple[object, ...]:
    """The beginning of a collision that continues this one."""
    key = collision.partition, collision.leader_epoch, collision.kept_partition
    return (
        key,
        collision.source,
        collision.seq + collision.events,
        collision.first + collision.events,
        collision.kept + collision.events,
    )
