"""Ranges made smaller by what a query asks for: pure.

Rule: no row that a condition holds for is ever left out. So only columns are looked at whose
values follow from where a record stands: `_topic`, `_partition`, `_offset`; and `_timestamp`, from
below, as brokers find the first record of a time or later, before which every record is earlier.
From above nothing follows: after a late record may come a later one. Nor does anything follow for
the event's own time, which need not be the record's: agents clamp times that cannot be, and
others write what they like.

Spark applies the conditions itself once more.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from client.delivery import TopicPartition
from loader.planning.slicing import Range

TIME: Final = "_timestamp"


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


@dataclass(frozen=True, slots=True)
class Condition:
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
