"""Ranges divided into tasks, large ones among several, small ones put together: pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from loader.planning.slicing import Range
from loader.source.options import SourceOptions
from loader.tables import Slice

# What a task costs Spark before it reads anything (15 to 30 ms) is worth about so many rows.
SMALL: Final = 20_000

Task = tuple[Slice, ...]  # read one after the other


def tasks(
    ranges: Sequence[Range], options: SourceOptions, bytes_per_offset: Sequence[float] = ()
) -> list[Task]:
    """Partitions take turns, so that tasks that run at the same time ask different leaders.

    Bytes per offset, one figure for each range, are looked at if tasks are limited in bytes.
    """
    sizes = bytes_per_offset or [0.0] * len(ranges)
    pieces = [
        _pieces(each, _count(each, options, size)) for each, size in zip(ranges, sizes, strict=True)
    ]
    most = max(map(len, pieces), default=0)
    in_turn = [each[turn] for turn in range(most) for each in pieces if turn < len(each)]
    slices = [_slice(number, range_, *edges) for number, (range_, edges) in enumerate(in_turn)]
    if options.tasks_per_partition > 1 or options.bytes_per_task is not None:
        return [(each,) for each in slices]
    return list(_together(slices, min(SMALL, options.records_per_task)))


def _together(slices: Iterable[Slice], most: int) -> Iterator[Task]:
    """Neighbours, as long as they have no more than so many offsets."""
    waiting: list[Slice] = []
    offsets = 0
    for each in slices:
        if waiting and offsets + each.end - each.first > most:
            yield tuple(waiting)
            waiting, offsets = [], 0
        waiting.append(each)
        offsets += each.end - each.first
    if waiting:
        yield tuple(waiting)


def _count(range_: Range, options: SourceOptions, bytes_per_offset: float) -> int:
    """No task without an offset, and none with more than is allowed."""
    most = options.records_per_task
    if options.bytes_per_task is not None and bytes_per_offset > 0:
        most = min(most, max(1, int(options.bytes_per_task / bytes_per_offset)))
    return min(range_.offsets, max(options.tasks_per_partition, -(-range_.offsets // most)))


def _pieces(range_: Range, count: int) -> list[tuple[Range, tuple[int, int]]]:
    edges = [range_.first + range_.offsets * at // count for at in range(count + 1)]
    return [(range_, each) for each in pairwise(edges)]


def _slice(number: int, range_: Range, first: int, end: int) -> Slice:
    return Slice(
        number=number,
        topic=range_.topic,
        topic_id=range_.topic_id,
        cluster=range_.cluster,
        partition=range_.partition,
        first=first,
        end=end,
        from_within=True,
    )
