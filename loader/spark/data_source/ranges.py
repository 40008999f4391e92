"""Determines the range to read of each partition, from the options and the topics' offsets, and
narrows it by a query's conditions. Pure. Both ends are exact offsets, whatever batches there are.

Narrowing must never exclude a row that fulfils a condition. So it only uses columns that follow
from a record's position: `_topic`, `_partition`, `_offset`, and lower bounds of `_timestamp`. Upper
bounds are useless, since a later record may follow a late one. So is the event's own time, which
may differ from the record's: agents clamp impossible times, and other producers write anything.
Spark applies all conditions again.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from client.producing.delivery import TopicPartition
from loader.errors import GapError, OptionRefused
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.planning.slicing import Range
from loader.spark.data_source.options import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    Earliest,
    Latest,
    Position,
)

REMEDY: Final = "To read the rest: option failOnDataLoss=false"
Times = Mapping[TopicPartition, int]
TIME: Final = "_timestamp"


class Bound(StrEnum):
    """The option that sets the bound."""

    STARTING = "startingOffsets"
    ENDING = "endingOffsets"


def ranges(
    facts: Mapping[str, TopicFacts],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> list[Range]:
    """The ranges that are not empty."""
    return [
        range_of(topic_facts, partition, first[target], end[target])
        for topic_facts in facts.values()
        for partition in sorted(topic_facts.partitions)
        if first[target := TopicPartition(topic_facts.topic, partition)] < end[target]
    ]


def range_of(facts: TopicFacts, partition: int, first: int, end: int) -> Range:
    return Range(
        topic=facts.topic,
        topic_id=facts.topic_id,
        cluster="",
        partition=partition,
        first=first,
        end=end,
    )


def places(
    facts: Mapping[str, TopicFacts],
    where: Position,
    times: Times,
    *,
    bound: Bound,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """The offset of this bound in each partition. Raises GapError if the log lacks an offset that
    it should have."""
    if isinstance(where, AtOffsets):
        _check_names(facts, where, bound)
    offsets_by_partition = {}
    for topic, topic_facts in facts.items():
        for partition, log in topic_facts.partitions.items():
            target = TopicPartition(topic, partition)
            match where:
                case Earliest():
                    offsets_by_partition[target] = log.earliest
                case Latest():
                    offsets_by_partition[target] = log.end
                case AtTime():
                    # Records that came after the end was queried are not read.
                    time = times[target]
                    offsets_by_partition[target] = (
                        log.end if time < 0 else max(log.earliest, min(time, log.end))
                    )
                case AtOffsets(offsets):
                    requested_offset = offsets[topic][partition]
                    offsets_by_partition[target] = _place(
                        target, requested_offset, log, fail_on_data_loss
                    )
    return offsets_by_partition


def _place(target: TopicPartition, requested: int, log: PartitionFacts, fail: bool) -> int:
    if requested == EARLIEST:
        return log.earliest
    if requested == LATEST:
        return log.end
    if fail and requested < log.earliest:
        raise GapError(
            f"{target}: offset {requested} was deleted, the log starts at {log.earliest}. {REMEDY}"
        )
    if fail and requested > log.end:
        raise GapError(
            f"{target}: offset {requested} does not exist, the log ends at {log.end}. {REMEDY}"
        )
    return max(log.earliest, min(requested, log.end))


def _check_names(facts: Mapping[str, TopicFacts], where: AtOffsets, bound: Bound) -> None:
    given_partitions = {
        TopicPartition(topic, partition)
        for topic, partitions in where.offsets.items()
        for partition in partitions
    }
    existing_partitions = {
        TopicPartition(topic, index) for topic in facts for index in facts[topic].partitions
    }
    for problem, targets in (
        ("is not read", given_partitions - existing_partitions),
        ("is missing", existing_partitions - given_partitions),
    ):
        if targets:
            more_partitions = f" (and {len(targets) - 1} more)" if len(targets) > 1 else ""
            raise OptionRefused(
                f"option `{bound}` must name exactly the partitions that are read: "
                f"{min(targets)} {problem}{more_partitions}. -2 is the earliest, -1 the latest"
            )


class Operator(StrEnum):
    """The comparison of a column with one value, or with several for IN."""

    EQUAL = "="
    IN = "in"
    ABOVE = ">"
    FROM = ">="
    BELOW = "<"
    UP_TO = "<="


_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.ABOVE: operator.gt,
    Operator.FROM: operator.ge,
    Operator.BELOW: operator.lt,
    Operator.UP_TO: operator.le,
}


class Condition(msgspec.Struct, frozen=True):
    """A condition on a column that is not within a struct."""

    column: str
    operator: Operator
    values: tuple[Any, ...]


def earliest_time(conditions: Iterable[Condition]) -> int | None:
    """The earliest requested time in milliseconds; None if no condition limits it."""
    lowest_times = [
        min(map(_millis, condition.values))
        for condition in conditions
        if condition.column == TIME
        and condition.operator not in {Operator.BELOW, Operator.UP_TO}
        and condition.values
        and all(isinstance(value, datetime) and value.tzinfo for value in condition.values)
    ]
    return max(lowest_times, default=None)


def narrowed(
    ranges: Sequence[Range],
    conditions: Sequence[Condition],
    from_time: Mapping[TopicPartition, int] | None = None,
) -> list[Range]:
    """The ranges, narrowed by time. `from_time` has the offset of the earliest time in each
    partition, -1 if no record is that late; it was queried after the ranges' ends."""
    remaining_ranges = list(ranges)
    if from_time is not None:
        remaining_ranges = [
            _from(part, from_time[TopicPartition(part.topic, part.partition)])
            for part in remaining_ranges
        ]
    for condition in conditions:
        match condition.column:
            case "_topic":
                remaining_ranges = [
                    range_ for range_ in remaining_ranges if _holds(condition, range_.topic)
                ]
            case "_partition":
                remaining_ranges = [
                    range_ for range_ in remaining_ranges if _holds(condition, range_.partition)
                ]
            case "_offset":
                remaining_ranges = [_of_offsets(range_, condition) for range_ in remaining_ranges]
    return [range_ for range_ in remaining_ranges if range_.first < range_.end]


def _holds(condition: Condition, value: str | int) -> bool:
    if not all(type(operand) is type(value) for operand in condition.values):
        return True  # how Spark compares these is unknown
    comparison = _COMPARE.get(condition.operator)
    if comparison is None:
        return value in condition.values
    return all(comparison(value, operand) for operand in condition.values)


def _of_offsets(range_: Range, condition: Condition) -> Range:
    values = condition.values
    if not values or not all(type(value) is int for value in values):
        return range_
    first, end = range_.first, range_.end
    match condition.operator:
        case Operator.EQUAL | Operator.IN:
            first, end = max(first, min(values)), min(end, max(values) + 1)
        case Operator.ABOVE:
            first = max(first, values[0] + 1)
        case Operator.FROM:
            first = max(first, values[0])
        case Operator.BELOW:
            end = min(end, values[0])
        case Operator.UP_TO:
            end = min(end, values[0] + 1)
    return replace(range_, first=first, end=end)


def _from(range_: Range, offset: int) -> Range:
    return replace(range_, first=range_.end if offset < 0 else max(range_.first, offset))


def _millis(value: datetime) -> int:
    """In milliseconds, rounded down."""
    return int(value.timestamp() * 1000 // 1)
