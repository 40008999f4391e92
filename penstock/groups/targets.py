"""Computes the changes of a group's offsets: before and after, for each partition.

An offset outside the log is moved to its beginning or end, with a remark.
"""

import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.offsets import AtOffset, AtTime, Beginning, End, offsets_of
from penstock.cli.failures import Failed
from penstock.groups.topic_arguments import TopicArgument
from wire.messages.list_offsets import EARLIEST, LATEST


class Shift(msgspec.Struct, frozen=True):
    """A number of messages forward or back."""

    by: int


class Given(msgspec.Struct, frozen=True):
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, int]


class Ago(msgspec.Struct, frozen=True):
    """The first message that was written within a duration before now."""

    millis: int


To = Beginning | End | AtOffset | AtTime | Ago | Shift | Given


class Change(msgspec.Struct, frozen=True):
    target: TopicPartition
    before: int | None
    after: int
    why: str = ""


class _Logs(msgspec.Struct, frozen=True):
    """The start and end offsets of the chosen partitions."""

    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


def chosen(
    brokers: Brokers,
    group: str,
    topics: Sequence[TopicArgument] | None,
    committed: Collection[TopicPartition],
) -> list[TopicPartition]:
    """Returns the partitions of these topics; without topics, those with committed offsets."""
    if topics is None:
        if not committed:
            raise Failed(f"group {group} has no committed offsets: name topics with --topic")
        return sorted(committed)
    _check_topics(brokers, [topic.topic for topic in topics])
    partitions: set[TopicPartition] = set()
    for topic in topics:
        metadata = brokers.known.topic(topic.topic)
        indexes = topic.partitions or tuple(range(len(metadata.partitions)))
        for index in indexes:
            metadata.partition(index)
        partitions.update(TopicPartition(topic.topic, index) for index in indexes)
    return sorted(partitions)


def changes(
    brokers: Brokers,
    to: To,
    targets: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[Change]:
    _check_topics(brokers, {target.topic for target in targets})
    logs = _Logs(
        offsets_of(brokers, dict.fromkeys(targets, EARLIEST)),
        offsets_of(brokers, dict.fromkeys(targets, LATEST)),
    )
    offsets = _target_offsets(brokers, to, committed, logs)
    return [
        _change(
            target, committed.get(target), offsets[target], logs.begins[target], logs.ends[target]
        )
        for target in targets
    ]


def _target_offsets(
    brokers: Brokers, to: To, committed: Mapping[TopicPartition, int], logs: _Logs
) -> Mapping[TopicPartition, int]:
    match to:
        case Beginning():
            return logs.begins
        case End():
            return logs.ends
        case AtOffset(offset):
            return dict.fromkeys(logs.ends, offset)
        case Given(offsets):
            return offsets
        case Shift(by):
            return {end: _committed_offset(end, committed) + by for end in logs.ends}
        case AtTime(timestamp):
            offsets_at_time = offsets_of(brokers, dict.fromkeys(logs.ends, timestamp))
            return {
                partition: start if start >= 0 else logs.ends[partition]
                for partition, start in offsets_at_time.items()
            }
        case Ago(millis):
            start = AtTime(max(0, time.time_ns() // 1_000_000 - millis))
            return _target_offsets(brokers, start, committed, logs)


def _committed_offset(target: TopicPartition, committed: Mapping[TopicPartition, int]) -> int:
    if target not in committed:
        raise Failed(f"the group has no offset in {target} that could be shifted")
    return committed[target]


def _change(
    target: TopicPartition, before: int | None, offset: int, begins: int, ends: int
) -> Change:
    if offset < begins:
        return Change(target, before, begins, f"{offset} does not exist: the log begins here")
    if offset > ends:
        return Change(target, before, ends, f"{offset} does not exist: the log ends here")
    return Change(target, before, offset)


def _check_topics(brokers: Brokers, names: Collection[str]) -> None:
    """Raise Failed for a missing topic, for which later requests would wait."""
    metadata = brokers.persist(lambda: brokers.refresh(names))
    missing_topics = sorted(name for name in set(names) if not metadata.has(name))
    if missing_topics:
        raise Failed(f"no topic {', '.join(missing_topics)}")
