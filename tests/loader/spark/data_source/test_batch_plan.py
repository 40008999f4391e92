"""Ranges into tasks, and what conditions leave of them."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.producing.delivery import TopicPartition
from loader.planning.slicing import Range
from loader.spark.data_source.batch_plan import SMALL, Task, tasks
from loader.spark.data_source.options import read_options
from loader.spark.data_source.ranges import Condition, Operator, earliest_time, narrowed


def range_of(partition: int, first: int, end: int, topic: str = "t") -> Range:
    return Range(topic=topic, topic_id="", cluster="", partition=partition, first=first, end=end)


def divided(ranges: list[Range], weights: tuple[float, ...] = (), **given: object) -> list[Task]:
    options = {name: str(value) for name, value in given.items()}
    return tasks(ranges, read_options({"topic": "t", **options}), weights)


def edges(found: list[Task]) -> list[list[tuple[int, int, int]]]:
    return [[(each.partition, each.first, each.end) for each in task] for task in found]


@given(
    sizes=st.lists(st.integers(1, 100_000), max_size=8),
    most=st.integers(1, 50_000),
    several=st.integers(1, 5),
)
def test_every_offset_is_in_one_task(sizes: list[int], most: int, several: int) -> None:
    ranges = [range_of(index, 7 * index, 7 * index + size) for index, size in enumerate(sizes)]
    most = max(most, sum(sizes) // 100)  # that there are not too many
    found = divided(ranges, maxRecordsPerTask=most, tasksPerPartition=several)
    for each in ranges:
        pieces = sorted(
            (piece.first, piece.end)
            for task in found
            for piece in task
            if piece.partition == each.partition
        )
        assert pieces[0][0] == each.first
        assert pieces[-1][1] == each.end
        assert all(before[1] == after[0] for before, after in pairwise(pieces))
        assert all(first < end for first, end in pieces)
        assert len(pieces) >= min(several, each.offsets)
    assert all(sum(piece.end - piece.first for piece in task) <= most for task in found)
    assert all(piece.from_within for task in found for piece in task)


def test_partitions_take_turns() -> None:
    found = divided([range_of(0, 0, 30_000), range_of(1, 5, 20_005)], maxRecordsPerTask=10_000)
    assert edges(found) == [
        [(0, 0, 10_000)],
        [(1, 5, 10_005)],
        [(0, 10_000, 20_000)],
        [(1, 10_005, 20_005)],
        [(0, 20_000, 30_000)],
    ]


def test_small_ones_are_read_together() -> None:
    found = divided([range_of(each, 0, SMALL // 4) for each in range(6)])
    assert [len(task) for task in found] == [4, 2]
    found = divided([range_of(0, 0, SMALL), range_of(1, 0, 1), range_of(2, 0, SMALL)])
    assert [len(task) for task in found] == [1, 1, 1]
    # Who asks for several tasks means it.
    assert len(divided([range_of(0, 0, 10)], tasksPerPartition=3)) == 3


def test_bytes_are_reckoned_by_what_was_sampled() -> None:
    ranges = [range_of(0, 0, 1000), range_of(1, 0, 1000), range_of(2, 0, 1000)]
    found = divided(ranges, (100.0, 0.0, 1_000_000.0), maxBytesPerTask=50_000)
    count = [sum(task[0].partition == index for task in found) for index in range(3)]
    assert count == [2, 1, 1000]  # nothing is known of the second; no task is without an offset


NOON = datetime(2025, 11, 20, 12, tzinfo=UTC)
TWO = [range_of(0, 0, 100), range_of(1, 50, 150), range_of(0, 0, 10, topic="u")]


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ([], [(0, 0, 100), (1, 50, 150), (0, 0, 10)]),
        ([("_partition", "=", 1)], [(1, 50, 150)]),
        ([("_partition", "in", 1, 7)], [(1, 50, 150)]),
        ([("_partition", "<", 1), ("_topic", "=", "t")], [(0, 0, 100)]),
        ([("_topic", ">", "t")], [(0, 0, 10)]),
        ([("_offset", "=", 60)], [(0, 60, 61), (1, 60, 61)]),
        ([("_offset", "in", 5, 70)], [(0, 5, 71), (1, 50, 71), (0, 5, 10)]),
        ([("_offset", ">", 60), ("_offset", "<=", 70)], [(0, 61, 71), (1, 61, 71)]),
        ([("_offset", ">=", 99), ("_offset", "<", 101)], [(0, 99, 100), (1, 99, 101)]),
        ([("_offset", ">", 1000)], []),
        # What nobody knows how to compare, and what says nothing of where a row stands.
        (
            [("_offset", "=", "60"), ("_partition", "=", None)],
            [(0, 0, 100), (1, 50, 150), (0, 0, 10)],
        ),
        ([("time", ">=", NOON)], [(0, 0, 100), (1, 50, 150), (0, 0, 10)]),
    ],
)
def test_what_conditions_leave(
    conditions: list[tuple[Any, ...]], left: list[tuple[int, int, int]]
) -> None:
    found = narrowed(
        TWO,
        [
            Condition(column, Operator(how), values)
            for column, how, *rest in conditions
            for values in [tuple(rest)]
        ],
    )
    assert [(each.partition, each.first, each.end) for each in found] == left


def test_the_records_time_narrows_from_below_only() -> None:
    def said(how: str, *values: Any) -> Condition:
        return Condition("_timestamp", Operator(how), values)

    noon = 1_763_640_000_000
    later = NOON + timedelta(microseconds=1_999)
    assert earliest_time([]) is None
    assert earliest_time([said(">", later), said("<", NOON)]) == noon + 1
    assert earliest_time([said("in", later, NOON)]) == noon
    assert earliest_time([said(">=", NOON), said("=", later)]) == noon + 1
    assert earliest_time([said("<=", NOON)]) is None
    assert earliest_time([said(">=", NOON.replace(tzinfo=None))]) is None
    assert earliest_time([Condition("time", Operator.FROM, (NOON,))]) is None
    begins = {TopicPartition("t", 0): 40, TopicPartition("t", 1): 20, TopicPartition("u", 0): -1}
    found = narrowed(TWO, (), begins)
    assert [(each.partition, each.first, each.end) for each in found] == [
        (0, 40, 100),
        (1, 50, 150),
    ]
