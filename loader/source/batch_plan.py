"""What a batch query reads: from what a user says and what there is to its tasks. Large ranges are
divided among several, small ones put together.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.offsets import offsets_of
from loader.planning.slicing import Range, slices
from loader.source.description import CLIENT_ID
from loader.source.options import Earliest, Latest, Position, SourceOptions
from loader.source.ranges import Bound, Condition, earliest_time, narrowed, places, ranges
from loader.source.topic_queries import bytes_per_offset, facts_of, times_of, topics_of
from loader.tables import Slice

# What a task costs Spark before it reads anything (15 to 30 ms) is worth about so many rows.
SMALL: Final = 20_000
Task = tuple[Slice, ...]  # read one after the other


def batch_tasks(options: SourceOptions, conditions: Sequence[Condition] = ()) -> list[Task]:
    """Asks the cluster. GapError, OptionRefused or ClientError say what cannot be."""
    with Brokers(options.bootstrap, client_id=CLIENT_ID) as brokers:
        found = _narrowed(brokers, _ranges(brokers, options), conditions)
        return tasks_of(brokers, found, options)


def tasks_of(brokers: Brokers, found: Sequence[Range], options: SourceOptions) -> list[Task]:
    """Asks what batches weigh, if tasks are limited in bytes."""
    if options.bytes_per_task is None:
        return tasks(found, options)
    return tasks(found, options, bytes_per_offset(brokers, found))


def _ranges(brokers: Brokers, options: SourceOptions) -> list[Range]:
    facts = facts_of(brokers, topics_of(brokers, options))

    def at(where: Position, bound: Bound) -> dict[TopicPartition, int]:
        times = times_of(brokers, facts, where)
        return places(facts, where, times, bound=bound, fail_on_data_loss=options.fail_on_data_loss)

    first = at(options.starting or Earliest(), Bound.STARTING)
    end = at(options.ending or Latest(), Bound.ENDING)
    return ranges(facts, first, end)


def _narrowed(brokers: Brokers, found: list[Range], conditions: Sequence[Condition]) -> list[Range]:
    time = earliest_time(conditions)
    left = narrowed(found, conditions)
    if time is None or not left:
        return left
    targets = [TopicPartition(each.topic, each.partition) for each in left]
    return narrowed(left, (), offsets_of(brokers, dict.fromkeys(targets, time), committed=True))


def tasks(
    ranges: Sequence[Range], options: SourceOptions, bytes_per_offset: Sequence[float] = ()
) -> list[Task]:
    """Bytes per offset, one figure for each range, are looked at if tasks are limited in bytes."""
    sizes = bytes_per_offset or [0.0] * len(ranges)
    counts = [_count(each, options, size) for each, size in zip(ranges, sizes, strict=True)]
    divided = slices(ranges, counts, from_within=True)
    if options.tasks_per_partition > 1 or options.bytes_per_task is not None:
        return [(each,) for each in divided]
    return list(_together(divided, min(SMALL, options.records_per_task)))


def _together(divided: Iterable[Slice], most: int) -> Iterator[Task]:
    """Neighbours, as long as they have no more than so many offsets."""
    waiting: list[Slice] = []
    offsets = 0
    for each in divided:
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
