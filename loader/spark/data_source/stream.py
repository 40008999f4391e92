"""A stream's position: where it starts, where each batch ends, and what a batch reads; and its
representation in Spark's checkpoint.

Used by one thread of one process while the query lives. Keeps its connections, and the final offset
of a run with `Trigger.AvailableNow`; Spark keeps the current offset.

An offset has both ends of its batch's range in each partition, so that a repeated batch reads the
same, even if topics or options have changed. (For a repeated first batch, Spark queries the start
again.) Spark 4.1 asks for the end of a batch without its start: there, the offset before it has the
start, and the range is computed when the batch is planned. Everything that follows from facts is
pure; only `TopicStream` queries the cluster.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from ground.known_types import known_type
from loader.errors import LoaderError, OptionRefused
from loader.planning.facts import TopicFacts
from loader.planning.plan import refusal, starts_of, vanished
from loader.planning.slicing import Range, share
from loader.spark.data_source.batch_plan import Task, tasks, tasks_of
from loader.spark.data_source.description import CLIENT_ID
from loader.spark.data_source.options import Latest, SourceOptions
from loader.spark.data_source.ranges import REMEDY, Bound, places
from loader.spark.data_source.topic_queries import facts_and_epochs, facts_of, times_of, topics_of
from loader.values.manifests import PartitionState, TopicState

VERSION: Final = 1
_UNKNOWN: Final = -1


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a batch in one partition: offsets from `first` on, below `next`."""

    first: int  # -1: where the batch before ends
    next: int
    epoch: int  # the leader's epoch when it was queried


class TopicReached(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    partitions: dict[int, Reached]


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of all topics that are read."""

    topics: dict[str, TopicReached]
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        """The offset as JSON. Equal offsets have equal text, because Spark compares texts."""
        content: dict[str, Any] = msgspec.to_builtins(self, str_keys=True, order="deterministic")
        return content

    @property
    def is_begun(self) -> bool:
        """Whether it says where its batch starts."""
        return all(
            partition_reached.first != _UNKNOWN
            for topic_reached in self.topics.values()
            for partition_reached in topic_reached.partitions.values()
        )

    @property
    def states(self) -> dict[str, TopicState]:
        return {
            topic: TopicState(
                topic=topic,
                cluster="",
                topic_id=topic_reached.id,
                partitions=tuple(
                    PartitionState(
                        partition=index,
                        next_offset=partition_reached.next,
                        leader_epoch=partition_reached.epoch,
                    )
                    for index, partition_reached in topic_reached.partitions.items()
                ),
            )
            for topic, topic_reached in self.topics.items()
        }


def from_json(text: Mapping[str, Any]) -> StreamOffset:
    """Parses an offset. Raises LoaderError if the text is invalid, or of another version."""
    version = text.get("version")
    if version != VERSION:
        raise LoaderError(
            f"the stream's checkpoint has offsets of version {version!r}, but this Penstock reads "
            f"version {VERSION}: continue with the Penstock that wrote it, or a later one"
        )
    try:
        return msgspec.convert(text, known_type(StreamOffset), str_keys=True)
    except msgspec.ValidationError as error:
        raise LoaderError(f"the stream's checkpoint is damaged: {error}") from None


def ranges_of(start: StreamOffset, end: StreamOffset) -> list[Range]:
    """The ranges of the batch between two offsets."""
    if start == end:
        return []
    return [
        Range(
            topic=topic,
            topic_id=topic_reached.id,
            cluster="",
            partition=index,
            first=partition_reached.first,
            end=partition_reached.next,
        )
        for topic, topic_reached in end.topics.items()
        for index, partition_reached in topic_reached.partitions.items()
        if partition_reached.first < partition_reached.next
    ]


def beginning(
    facts: Mapping[str, TopicFacts], offsets: Mapping[TopicPartition, int]
) -> StreamOffset:
    """The offset of a stream that starts at these positions."""
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
    """The offset at the current ends of the topics."""
    return beginning(
        facts,
        {
            TopicPartition(topic, index): log.end
            for topic, topic_facts in facts.items()
            for index, log in topic_facts.partitions.items()
        },
    )


def everything(facts: Mapping[str, TopicFacts]) -> StreamOffset:
    """The end of a batch that reads everything, wherever it starts."""
    return StreamOffset(
        topics={
            topic: replace(
                topic_reached,
                partitions={
                    index: replace(partition_reached, first=_UNKNOWN)
                    for index, partition_reached in topic_reached.partitions.items()
                },
            )
            for topic, topic_reached in whole(facts).topics.items()
        }
    )


def advanced(
    start: StreamOffset,
    facts: Mapping[str, TopicFacts],
    *,
    most: int | None = None,
    target: StreamOffset | None = None,
    fail_on_data_loss: bool = True,
) -> StreamOffset:
    """The end of the next batch, or `start` itself if there are no new records.

    The batch has at most `most` offsets, distributed fairly, and none beyond the target. Raises
    GapError if events are gone that should be read next, unless `fail_on_data_loss` is off.
    """
    facts = facts if target is None else _of_target(facts, target)
    states = start.states
    starts = {
        TopicPartition(topic, index): partition_start
        for topic, topic_facts in facts.items()
        for index, partition_start in starts_of(topic_facts, states.get(topic)).items()
    }
    gaps = [
        *(partition_start.gap for partition_start in starts.values() if partition_start.gap),
        *(gap for state in states.values() for gap in vanished(facts, state)),
    ]
    if gaps and fail_on_data_loss:
        raise refusal(gaps, REMEDY)
    offset_counts = [
        max(0, facts[position.topic].partitions[position.partition].end - partition_start.offset)
        for position, partition_start in starts.items()
    ]
    shares = offset_counts if most is None else share(offset_counts, most)
    end = _offset(
        facts,
        {
            position: Reached(
                first=partition_start.offset,
                next=partition_start.offset + count,
                epoch=facts[position.topic].partitions[position.partition].leader_epoch,
            )
            for (position, partition_start), count in zip(starts.items(), shares, strict=True)
        },
    )
    end = _with_absent(end, start)
    return start if _is_no_further(start, end) else end


def _with_absent(end: StreamOffset, start: StreamOffset) -> StreamOffset:
    """Keeps partitions that brokers do not show, which are continued if they come back."""
    topics = dict(end.topics)
    for name, previous_topic in start.topics.items():
        current_topic = topics.get(name, TopicReached(id=previous_topic.id, partitions={}))
        if current_topic.id != previous_topic.id:
            continue
        kept_partitions = {
            index: Reached(first=state.next, next=state.next, epoch=state.epoch)
            for index, state in previous_topic.partitions.items()
        }
        topics[name] = TopicReached(
            id=current_topic.id, partitions={**kept_partitions, **current_topic.partitions}
        )
    return StreamOffset(topics=topics)


def _of_target(facts: Mapping[str, TopicFacts], target: StreamOffset) -> dict[str, TopicFacts]:
    """The facts as of the target: later records are left to the next run."""
    return {
        topic: replace(
            topic_facts,
            partitions={
                index: replace(log, end=min(log.end, partition_reached.next))
                for index, log in topic_facts.partitions.items()
                if (partition_reached := target.topics[topic].partitions.get(index))
            },
        )
        for topic, topic_facts in facts.items()
        if topic in target.topics
    }


def _offset(
    facts: Mapping[str, TopicFacts], reached: Mapping[TopicPartition, Reached]
) -> StreamOffset:
    topics: dict[str, TopicReached] = {}
    for (topic, index), partition_reached in sorted(reached.items()):
        topic_reached = topics.setdefault(
            topic, TopicReached(id=facts[topic].topic_id, partitions={})
        )
        topic_reached.partitions[index] = partition_reached
    return StreamOffset(topics=topics)


def _is_no_further(start: StreamOffset, end: StreamOffset) -> bool:
    return {
        (topic, topic_reached.id, index): partition_reached.next
        for topic, topic_reached in start.topics.items()
        for index, partition_reached in topic_reached.partitions.items()
    } == {
        (topic, topic_reached.id, index): partition_reached.next
        if partition_reached.next == partition_reached.first
        else -1
        for topic, topic_reached in end.topics.items()
        for index, partition_reached in topic_reached.partitions.items()
    }


class TopicStream:
    """Plans the batches of a stream. Connects to the brokers when it first needs them."""

    def __init__(self, options: SourceOptions) -> None:
        self.options: Final = options
        self.latest: StreamOffset | None = None  # the topics' ends when last queried
        self._target: StreamOffset | None = None
        self._brokers: Brokers | None = None

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def initial(self) -> StreamOffset:
        brokers = self._connected()
        facts = facts_of(brokers, topics_of(brokers, self.options))
        starting_position = self.options.starting or Latest()
        first_offsets = places(
            facts,
            starting_position,
            times_of(brokers, facts, starting_position),
            bound=Bound.STARTING,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return beginning(facts, first_offsets)

    def end_here(self) -> None:
        """Limits the run to records that exist now."""
        self._target = whole(self._facts(StreamOffset(topics={})))

    def everything(self) -> StreamOffset:
        """The end of a batch that reads all records there are now."""
        return everything(self._facts(StreamOffset(topics={})))

    def next(self, start: StreamOffset, most: int | None) -> StreamOffset:
        """The end of the next batch, which has at most `most` offsets."""
        return self._advanced(start, most, self._target)

    def _advanced(
        self, start: StreamOffset, most: int | None, target: StreamOffset | None
    ) -> StreamOffset:
        self._check_topics(start.topics)
        facts = self._facts(start)
        self.latest = whole(facts)
        return advanced(
            start,
            facts,
            most=most,
            target=target,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )

    def tasks_between(self, start: StreamOffset, end: StreamOffset) -> list[Task]:
        if not end.is_begun:
            end = self._advanced(start, None, end)
        ranges = ranges_of(start, end)
        if self.options.bytes_per_task is None or not ranges:
            return tasks(ranges, self.options)
        return tasks_of(self._connected(), ranges, self.options)

    def _facts(self, start: StreamOffset) -> dict[str, TopicFacts]:
        brokers = self._connected()
        known_partitions = {topic: state.partitions for topic, state in start.states.items()}
        topics = topics_of(brokers, self.options)
        return facts_and_epochs(
            brokers, {topic: known_partitions.get(topic, ()) for topic in topics}
        )

    def _check_topics(self, known: Collection[str]) -> None:
        if self.options.pattern is not None or not self.options.fail_on_data_loss:
            return
        for topic in known:
            if topic not in self.options.topics:
                raise OptionRefused(
                    f"the checkpoint belongs to a query that read topic {topic}, which option "
                    "`topic` does not name: name it, or use a new checkpoint"
                )

    def _connected(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self.options.bootstrap, client_id=CLIENT_ID)
        return self._brokers
