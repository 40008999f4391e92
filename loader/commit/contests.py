"""Which of several events with the same source and seq becomes a row, and which of them are
duplicates of it. Only equal bytes are: two events with other content collide. Pure.

Whoever may write to a topic can send any source and seq. What agents claim in the ledger
(ledger/claims.py) tells which events are theirs.

Rule 1. An event that an agent claims at its offset wins over all that nobody claims. Otherwise the
        one that landed in an earlier run wins, then the first.
Rule 2. What loses becomes a dead letter, and the ledger is told (`collided`): an agent may claim
        its offset later, and then the audit finds a row missing.
Rule 3. Where the winner comes after a row of an earlier run, both are rows, as no run takes a file
        away. The ledger has the event twice then, and rebuilding its hour removes the other.
Rule 4. Of two events that one journal claims, the second is a duplicate: the agent says itself that
        it shipped the event twice.
Rule 5. What an event repeats may be gone from the log. Then nothing shows that they are equal, and
        the later one loses.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ground.intervals import Interval, Intervals, merged, minus, size, union
from loader.decoding.decoded import COLLISION
from loader.manifests import Collision, KnownSources
from loader.reports import closed, intervals_of, landed_of
from loader.tables import Partition, Slice

GONE: Final = -1  # the offset of what is not in the log any more

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
    """`buried` are offsets whose events become dead letters; `freed`, by topic, what landed before
    and lands again."""

    buried: dict[Partition, Intervals] = {}
    freed: dict[str, dict[str, Intervals]] = {}
    collisions: list[Collision] = []

    def add(self, other: "Settled") -> None:
        for log, offsets in other.buried.items():
            self.buried[log] = union(self.buried.get(log, ()), offsets)
        for topic, sources in other.freed.items():
            mine = self.freed.setdefault(topic, {})
            for source, seqs in sources.items():
                mine[source] = union(mine.get(source, ()), seqs)
        self.collisions += other.collisions

    def warnings(self) -> Iterator[str]:
        """What became of whom, in words."""
        lost = sum(each.events for each in self.collisions)
        if lost:
            yield (
                f"{lost:,} events have the source and seq of others, and other content: they are"
                f" dead letters (`{COLLISION}`), first those of source"
                f" {self.collisions[0].source} in {self.collisions[0].topic}-"
                f"{self.collisions[0].partition} from offset {self.collisions[0].first} on"
            )
        for topic, sources in self.freed.items():
            events = sum(map(size, sources.values()))
            yield (
                f"{events:,} events that agents claim have the source and seq of others that landed"
                f" before from {topic}, which nobody claims: both are rows; --rebuild removes the"
                " others"
            )

    def slices(self, slices: Iterable[Slice]) -> list[Slice]:
        """The same slices, told what is buried."""

        def told(piece: Slice) -> Slice:
            offsets = self.buried.get(piece.origin, ())
            return replace(piece, buried=closed(offsets)) if offsets else piece

        return [told(piece) for piece in slices]

    def known(self, known: Iterable[KnownSources]) -> tuple[KnownSources, ...]:
        """What landed before, less what is to land again."""
        return tuple(
            replace(
                each,
                landed={
                    source: landed_of(
                        minus(intervals_of(landed), self.freed.get(each.topic, {}).get(source, ()))
                    )
                    for source, landed in each.landed.items()
                },
            )
            for each in known
        )


def settled(contests: Mapping[Named, Sequence[Contender]], topic: str, topic_id: str) -> Settled:
    """Contenders are in the order in which they come first. Pure."""
    found = Settled()
    buried: dict[int, list[Interval]] = defaultdict(list)
    freed: dict[str, list[Interval]] = defaultdict(list)
    for (source, seq), contenders in sorted(contests.items()):
        winner = next((each for each in contenders if each.claimed), contenders[0])
        same = [each for each in contenders if each.content == winner.content]
        others = [each for each in contenders if each.content != winner.content]
        before = any(each.landed and each.claimed != winner.claimed for each in others)
        if before and not any(each.landed for each in same):
            freed[source].append((seq, seq + 1))
        for each in others:
            if each.landed or (each.claimed and each.claimed == winner.claimed):
                continue
            buried[each.partition].append((each.offset, each.offset + 1))
            made = Collision(
                topic=topic,
                topic_id=topic_id,
                partition=each.partition,
                leader_epoch=each.leader_epoch,
                first=each.offset,
                source=source,
                seq=seq,
                events=1,
                kept_partition=winner.partition,
                kept=winner.offset,
                from_time=each.time,
                to_time=each.time + 1,
            )
            _note(found.collisions, made)
    found.buried = {(topic, partition): merged(some) for partition, some in buried.items()}
    if freed:
        found.freed = {topic: {source: merged(some) for source, some in freed.items()}}
    return found


def _note(collisions: list[Collision], made: Collision) -> None:
    """Goes on with the last one where it can."""
    last = collisions[-1] if collisions else None
    if last is None or _behind(last) != _beginning(made):
        collisions.append(made)
        return
    collisions[-1] = replace(
        last,
        events=last.events + 1,
        from_time=min(last.from_time, made.from_time),
        to_time=max(last.to_time, made.to_time),
    )


def _beginning(one: Collision) -> tuple[object, ...]:
    place = one.partition, one.leader_epoch, one.kept_partition
    return place, one.source, one.seq, one.first, one.kept


def _behind(one: Collision) -> tuple[object, ...]:
    """How one begins that follows it."""
    place = one.partition, one.leader_epoch, one.kept_partition
    return place, one.source, one.seq + one.events, one.first + one.events, one.kept + one.events
