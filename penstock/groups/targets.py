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
    """The first message written within a duration."""

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
    """The partitions of these topics; without topics, those with committed offsets."""
    if topics is None:
        if not committed:
            raise Failed(f"group {group} has no committed offsets: name topics with --topic")
        return sorted(committed)
    _check_topics(brokers, [topic.topic for topic in topics])
    wanted: set[TopicPartition] = set()
    for topic in topics:
        known = brokers.known.topic(topic.topic)
        numbers = topic.partitions or tuple(range(len(known.partitions)))
        for number in numbers:
            known.partition(number)
        wanted.update(TopicPartition(topic.topic, number) for number in numbers)
    return sorted(wanted)


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
    wanted = _wanted(brokers, to, committed, logs)
    return [
        _change(
            target, committed.get(target), wanted[target], logs.begins[target], logs.ends[target]
        )
        for target in targets
    ]


def _wanted(
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
            return {end: _where(end, committed) + by for end in logs.ends}
        case AtTime(timestamp):
            found = offsets_of(brokers, dict.fromkeys(logs.ends, timestamp))
            return {
                partition: at if at >= 0 else logs.ends[partition]
                for partition, at in found.items()
            }
        case Ago(millis):
            at = AtTime(max(0, time.time_ns() // 1_000_000 - millis))
            return _wanted(brokers, at, committed, logs)


def _where(target: TopicPartition, committed: Mapping[TopicPartition, int]) -> int:
    if target not in committed:
        raise Failed(f"the group has no offset in {target} that could be shifted")
    return committed[target]


def _change(
    target: TopicPartition, before: int | None, wanted: int, begins: int, ends: int
) -> Change:
    if wanted < begins:
        return Change(target, before, begins, f"{wanted} does not exist: the log begins here")
    if wanted > ends:
        return Change(target, before, ends, f"{wanted} does not exist: the log ends here")
    return Change(target, before, wanted)


def _check_topics(brokers: Brokers, names: Collection[str]) -> None:
    """Raise Failed for a missing topic, for which later requests would wait."""
    known = brokers.persist(lambda: brokers.refresh(names))
    missing = sorted(name for name in set(names) if not known.has(name))
    if missing:
        raise Failed(f"no topic {', '.join(missing)}")
