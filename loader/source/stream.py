"""A stream's view of the cluster: where it begins, how far it may go, and what a batch reads; and
how far it has come, as it stands in Spark's checkpoint.

Used by one thread, from one process, for as long as the query lives. It keeps its connections, and
the offset that a run with `Trigger.AvailableNow` ends at; where it stands, Spark keeps.

Every offset says from where to where its batch is read, so that a batch that is run again reads the
same, whatever has become of topics and options meanwhile. (Of a first batch that is run again,
Spark would ask anew where it begins.) What follows from facts is pure: only `TopicStream` asks.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from client.brokers import Brokers
from client.delivery import TopicPartition
from ground.known_types import known_type
from loader.errors import LoaderError, OptionRefused
from loader.manifests import PartitionState, TopicState
from loader.planning.facts import TopicFacts
from loader.planning.plan import refusal, starts_of, vanished
from loader.planning.slicing import Range, share
from loader.source.batch_plan import Task, tasks, tasks_of
from loader.source.description import CLIENT_ID
from loader.source.options import Latest, SourceOptions
from loader.source.ranges import REMEDY, Bound, places
from loader.source.topic_queries import facts_and_epochs, facts_of, times_of, topics_of

VERSION: Final = 1


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Of one partition: the batch has the offsets from `first` on, below `next`."""

    first: int
    next: int
    epoch: int  # of the leader, when it was asked


class TopicReached(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    partitions: dict[int, Reached]


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True):
    """All topics that are read."""

    topics: dict[str, TopicReached]
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        """Equal ones have the same text: Spark compares texts."""
        made: dict[str, Any] = msgspec.to_builtins(self, str_keys=True, order="deterministic")
        return made

    @property
    def states(self) -> dict[str, TopicState]:
        return {
            topic: TopicState(
                topic=topic,
                cluster="",
                topic_id=each.id,
                partitions=tuple(
                    PartitionState(
                        partition=index, next_offset=reached.next, leader_epoch=reached.epoch
                    )
                    for index, reached in each.partitions.items()
                ),
            )
            for topic, each in self.topics.items()
        }


def from_json(text: Mapping[str, Any]) -> StreamOffset:
    """Raises LoaderError for what is none of these, or of a later version."""
    version = text.get("version")
    if version != VERSION:
        raise LoaderError(
            f"the stream's checkpoint has offsets of version {version!r}, and this Penstock knows "
            f"version {VERSION}: read on with the one that wrote it, or a later one"
        )
    try:
        return msgspec.convert(text, known_type(StreamOffset), str_keys=True)
    except msgspec.ValidationError as error:
        raise LoaderError(f"the stream's checkpoint is damaged: {error}") from None


def ranges_of(start: StreamOffset, end: StreamOffset) -> list[Range]:
    """What the batch between two offsets has."""
    if start == end:
        return []
    return [
        Range(
            topic=topic,
            topic_id=each.id,
            cluster="",
            partition=index,
            first=reached.first,
            end=reached.next,
        )
        for topic, each in end.topics.items()
        for index, reached in each.partitions.items()
        if reached.first < reached.next
    ]


def beginning(
    facts: Mapping[str, TopicFacts], offsets: Mapping[TopicPartition, int]
) -> StreamOffset:
    """Of a stream that begins at these offsets."""
    return _offset(
        facts,
        {
            target: Reached(
                first=offset,
                next=offset,
                epoch=facts[target.topic].partitions[target.partition].leader_epoch,
            )
            for target, offset in offsets.items()
        },
    )


def whole(facts: Mapping[str, TopicFacts]) -> StreamOffset:
    """All there is now."""
    return beginning(
        facts,
        {
            TopicPartition(topic, index): log.end
            for topic, found in facts.items()
            for index, log in found.partitions.items()
        },
    )


def advanced(
    start: StreamOffset,
    facts: Mapping[str, TopicFacts],
    *,
    most: int | None = None,
    target: StreamOffset | None = None,
    fail_on_data_loss: bool = True,
) -> StreamOffset:
    """The end of the next batch: `start` itself if there is nothing new.

    At most so many offsets, shared fairly; nothing beyond the target, if there is one. GapError
    for what should be read next and is not there, unless that does not matter.
    """
    facts = facts if target is None else _of_target(facts, target)
    states = start.states
    starts = {
        TopicPartition(topic, index): each
        for topic, found in facts.items()
        for index, each in starts_of(found, states.get(topic)).items()
    }
    gaps = [
        *(each.gap for each in starts.values() if each.gap),
        *(gap for state in states.values() for gap in vanished(facts, state)),
    ]
    if gaps and fail_on_data_loss:
        raise refusal(gaps, REMEDY)
    amounts = [
        max(0, facts[at.topic].partitions[at.partition].end - each.offset)
        for at, each in starts.items()
    ]
    shares = amounts if most is None else share(amounts, most)
    made = _offset(
        facts,
        {
            at: Reached(
                first=each.offset,
                next=each.offset + count,
                epoch=facts[at.topic].partitions[at.partition].leader_epoch,
            )
            for (at, each), count in zip(starts.items(), shares, strict=True)
        },
    )
    made = _with_absent(made, start)
    return start if _is_no_further(start, made) else made


def _with_absent(made: StreamOffset, start: StreamOffset) -> StreamOffset:
    """What brokers do not show now may be back, and is read on then."""
    topics = dict(made.topics)
    for name, before in start.topics.items():
        now = topics.get(name, TopicReached(id=before.id, partitions={}))
        if now.id != before.id:
            continue
        kept = {
            index: Reached(first=each.next, next=each.next, epoch=each.epoch)
            for index, each in before.partitions.items()
        }
        topics[name] = TopicReached(id=now.id, partitions={**kept, **now.partitions})
    return StreamOffset(topics=topics)


def _of_target(facts: Mapping[str, TopicFacts], target: StreamOffset) -> dict[str, TopicFacts]:
    """As if nothing had happened since: what came is left for the next time."""
    return {
        topic: replace(
            found,
            partitions={
                index: replace(log, end=min(log.end, reached.next))
                for index, log in found.partitions.items()
                if (reached := target.topics[topic].partitions.get(index))
            },
        )
        for topic, found in facts.items()
        if topic in target.topics
    }


def _offset(
    facts: Mapping[str, TopicFacts], reached: Mapping[TopicPartition, Reached]
) -> StreamOffset:
    topics: dict[str, TopicReached] = {}
    for (topic, index), each in sorted(reached.items()):
        of_topic = topics.setdefault(topic, TopicReached(id=facts[topic].topic_id, partitions={}))
        of_topic.partitions[index] = each
    return StreamOffset(topics=topics)


def _is_no_further(start: StreamOffset, made: StreamOffset) -> bool:
    return {
        (topic, each.id, index): reached.next
        for topic, each in start.topics.items()
        for index, reached in each.partitions.items()
    } == {
        (topic, each.id, index): reached.next if reached.next == reached.first else -1
        for topic, each in made.topics.items()
        for index, reached in each.partitions.items()
    }


class TopicStream:
    """Nobody is asked before something is."""

    def __init__(self, options: SourceOptions) -> None:
        self.options: Final = options
        self.latest: StreamOffset | None = None  # all there was, when it was last asked for
        self._target: StreamOffset | None = None
        self._brokers: Brokers | None = None

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def initial(self) -> StreamOffset:
        """Where a new query begins."""
        brokers = self._connected()
        facts = facts_of(brokers, topics_of(brokers, self.options))
        where = self.options.starting or Latest()
        first = places(
            facts,
            where,
            times_of(brokers, facts, where),
            bound=Bound.STARTING,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return beginning(facts, first)

    def end_here(self) -> None:
        """What comes from now on is left for another run."""
        self._target = whole(self._facts(StreamOffset(topics={})))

    def next(self, start: StreamOffset, most: int | None) -> StreamOffset:
        """The end of the next batch, which has at most so many offsets."""
        self._check_topics(start.topics)
        facts = self._facts(start)
        self.latest = whole(facts)
        return advanced(
            start,
            facts,
            most=most,
            target=self._target,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )

    def tasks_between(self, start: StreamOffset, end: StreamOffset) -> list[Task]:
        """The tasks of a batch."""
        found = ranges_of(start, end)
        if self.options.bytes_per_task is None or not found:
            return tasks(found, self.options)
        return tasks_of(self._connected(), found, self.options)

    def _facts(self, start: StreamOffset) -> dict[str, TopicFacts]:
        brokers = self._connected()
        known = {topic: each.partitions for topic, each in start.states.items()}
        topics = topics_of(brokers, self.options)
        return facts_and_epochs(brokers, {topic: known.get(topic, ()) for topic in topics})

    def _check_topics(self, known: Collection[str]) -> None:
        if self.options.pattern is not None or not self.options.fail_on_data_loss:
            return
        for topic in known:
            if topic not in self.options.topics:
                raise OptionRefused(
                    f"the checkpoint is of a query that read topic {topic}, and option `topic` "
                    "does not name it: name it, or take a new checkpoint"
                )

    def _connected(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self.options.bootstrap, client_id=CLIENT_ID)
        return self._brokers
