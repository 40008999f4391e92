"""From where to where each partition is read, by what a user says and what there is; and made
smaller by what a query asks for. Pure. Both ends are exact: offset by offset, whatever batches
there are.

Rule of narrowing: no row that a condition holds for is ever left out. So only columns are looked at
whose values follow from where a record stands: `_topic`, `_partition`, `_offset`; and `_timestamp`,
from below, as brokers find the first record of a time or later, before which every record is
earlier. From above nothing follows: after a late record may come a later one. Nor does anything
follow for the event's own time, which need not be the record's: agents clamp times that cannot be,
and others write what they like. Spark applies the conditions itself once more.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from client.delivery import TopicPartition
from loader.errors import GapError, OptionRefused
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.planning.slicing import Range
from loader.source.options import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    Earliest,
    Latest,
    Position,
)

REMEDY: Final = "To read what is there: option failOnDataLoss=false"
Times = Mapping[TopicPartition, int]
TIME: Final = "_timestamp"


class Bound(StrEnum):
    """Which option says it."""

    STARTING = "startingOffsets"
    ENDING = "endingOffsets"


def ranges(
    facts: Mapping[str, TopicFacts],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> list[Range]:
    """Those that are not empty."""
    return [
        range_of(found, partition, first[target], end[target])
        for found in facts.values()
        for partition in sorted(found.partitions)
        if first[target := TopicPartition(found.topic, partition)] < end[target]
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
    """The offset in each partition. GapError for one that the log does not have, and should."""
    if isinstance(where, AtOffsets):
        _check_names(facts, where, bound)
    found = {}
    for topic, about in facts.items():
        for partition, log in about.partitions.items():
            target = TopicPartition(topic, partition)
            match where:
                case Earliest():
                    found[target] = log.earliest
                case Latest():
                    found[target] = log.end
                case AtTime():
                    # What came since the end was asked for is not read.
                    time = times[target]
                    found[target] = log.end if time < 0 else max(log.earliest, min(time, log.end))
                case AtOffsets(offsets):
                    wanted = offsets[topic][partition]
                    found[target] = _place(target, wanted, log, fail_on_data_loss)
    return found


def _place(target: TopicPartition, wanted: int, log: PartitionFacts, fail: bool) -> int:
    if wanted == EARLIEST:
        return log.earliest
    if wanted == LATEST:
        return log.end
    if fail and wanted < log.earliest:
        raise GapError(
            f"{target}: offset {wanted} was deleted, the log begins at {log.earliest}. {REMEDY}"
        )
    if fail and wanted > log.end:
        raise GapError(
            f"{target}: there is no offset {wanted}, the log ends at {log.end}. {REMEDY}"
        )
    return max(log.earliest, min(wanted, log.end))


def _check_names(facts: Mapping[str, TopicFacts], where: AtOffsets, bound: Bound) -> None:
    named = {
        TopicPartition(topic, partition)
        for topic, partitions in where.offsets.items()
        for partition in partitions
    }
    there = {TopicPartition(topic, each) for topic in facts for each in facts[topic].partitions}
    for why, targets in (("is not read", named - there), ("is missing", there - named)):
        if targets:
            more = f" (and {len(targets) - 1} more)" if len(targets) > 1 else ""
            raise OptionRefused(
                f"option `{bound}` must name every partition that is read, and no others: "
                f"{min(targets)} {why}{more}. -2 is the earliest, -1 the latest"
            )


class Operator(StrEnum):
    """How a column is compared to values: to one, but for IN."""

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
    """On one column, not within a struct."""

    column: str
    operator: Operator
    values: tuple[Any, ...]


def earliest_time(conditions: Iterable[Condition]) -> int | None:
    """In milliseconds: no record before it is wanted. None if nothing is said of it."""
    lowest = [
        min(map(_millis, each.values))
        for each in conditions
        if each.column == TIME
        and each.operator not in {Operator.BELOW, Operator.UP_TO}
        and each.values
        and all(isinstance(value, datetime) and value.tzinfo for value in each.values)
    ]
    return max(lowest, default=None)


def narrowed(
    ranges: Sequence[Range],
    conditions: Sequence[Condition],
    from_time: Mapping[TopicPartition, int] | None = None,
) -> list[Range]:
    """What is left of the ranges. `from_time`: the offset of the earliest time in each partition,
    -1 where nothing is as late; asked for after the ranges' ends were."""
    found = list(ranges)
    if from_time is not None:
        found = [
            _from(each, from_time[TopicPartition(each.topic, each.partition)]) for each in found
        ]
    for condition in conditions:
        match condition.column:
            case "_topic":
                found = [each for each in found if _holds(condition, each.topic)]
            case "_partition":
                found = [each for each in found if _holds(condition, each.partition)]
            case "_offset":
                found = [_of_offsets(each, condition) for each in found]
    return [each for each in found if each.first < each.end]


def _holds(condition: Condition, value: str | int) -> bool:
    if not all(type(each) is type(value) for each in condition.values):
        return True  # nobody knows how Spark compares these
    compare = _COMPARE.get(condition.operator)
    if compare is None:
        return value in condition.values
    return all(compare(value, each) for each in condition.values)


def _of_offsets(range_: Range, condition: Condition) -> Range:
    values = condition.values
    if not values or not all(type(each) is int for each in values):
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
    """Rounded down."""
    return int(value.timestamp() * 1000 // 1)
