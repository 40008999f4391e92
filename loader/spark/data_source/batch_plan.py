"""Plans a batch query: from options and the topics' offsets to tasks. Large ranges are divided,
small ones combined.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.offsets import offsets_of
from loader.planning.slicing import Range, slices
from loader.spark.data_source.description import CLIENT_ID
from loader.spark.data_source.options import Earliest, Latest, Position, SourceOptions
from loader.spark.data_source.ranges import (
    Bound,
    Condition,
    earliest_time,
    narrowed,
    places,
    ranges,
)
from loader.spark.data_source.topic_queries import bytes_per_offset, facts_of, times_of, topics_of
from loader.values.tables import Slice

# Starting a task (15 to 30 ms) takes Spark as long as reading about this many rows.
SMALL: Final = 20_000
Task = tuple[Slice, ...]  # read one after the other


def batch_tasks(options: SourceOptions, conditions: Sequence[Condition] = ()) -> list[Task]:
    """Plans the tasks of a query by the state of the cluster. Raises GapError, OptionRefused or
    ClientError."""
    with Brokers(options.bootstrap, client_id=CLIENT_ID) as brokers:
        narrowed_ranges = _narrowed(brokers, _ranges(brokers, options), conditions)
        return tasks_of(brokers, narrowed_ranges, options)


def tasks_of(brokers: Brokers, ranges_: Sequence[Range], options: SourceOptions) -> list[Task]:
    """Plans tasks. Queries the size of batches if tasks are limited in bytes."""
    if options.bytes_per_task is None:
        return tasks(ranges_, options)
    return tasks(ranges_, options, bytes_per_offset(brokers, ranges_))


def _ranges(brokers: Brokers, options: SourceOptions) -> list[Range]:
    topic_facts = facts_of(brokers, topics_of(brokers, options))

    def at(where: Position, bound: Bound) -> dict[TopicPartition, int]:
        times = times_of(brokers, topic_facts, where)
        return places(
            topic_facts, where, times, bound=bound, fail_on_data_loss=options.fail_on_data_loss
        )

    first_offsets = at(options.starting or Earliest(), Bound.STARTING)
    end = at(options.ending or Latest(), Bound.ENDING)
    return ranges(topic_facts, first_offsets, end)


def _narrowed(brokers: Brokers, whole: list[Range], conditions: Sequence[Condition]) -> list[Range]:
    time = earliest_time(conditions)
    narrowed_ranges = narrowed(whole, conditions)
    if time is None or not narrowed_ranges:
        return narrowed_ranges
    targets = [TopicPartition(range_.topic, range_.partition) for range_ in narrowed_ranges]
    return narrowed(
        narrowed_ranges, (), offsets_of(brokers, dict.fromkeys(targets, time), committed=True)
    )


def tasks(
    ranges: Sequence[Range], options: SourceOptions, bytes_per_offset: Sequence[float] = ()
) -> list[Task]:
    """Divides ranges into tasks. If tasks are limited in bytes, `bytes_per_offset` has a value for
    each range."""
    sizes = bytes_per_offset or [0.0] * len(ranges)
    counts = [_count(range_, options, size) for range_, size in zip(ranges, sizes, strict=True)]
    divided_slices = slices(ranges, counts, from_within=True)
    if options.tasks_per_partition > 1 or options.bytes_per_task is not None:
        return [(piece,) for piece in divided_slices]
    return list(_combined(divided_slices, min(SMALL, options.records_per_task)))


def _combined(divided: Iterable[Slice], most: int) -> Iterator[Task]:
    """Combines neighbours with together at most this many offsets."""
    waiting_slices: list[Slice] = []
    offsets = 0
    for piece in divided:
        if waiting_slices and offsets + piece.end - piece.first > most:
            yield tuple(waiting_slices)
            waiting_slices, offsets = [], 0
        waiting_slices.append(piece)
        offsets += piece.end - piece.first
    if waiting_slices:
        yield tuple(waiting_slices)


def _count(range_: Range, options: SourceOptions, bytes_per_offset: float) -> int:
    """The number of tasks: each has an offset, and none more than allowed."""
    most_records = options.records_per_task
    if options.bytes_per_task is not None and bytes_per_offset > 0:
        most_records = min(most_records, max(1, int(options.bytes_per_task / bytes_per_offset)))
    return min(range_.offsets, max(options.tasks_per_partition, -(-range_.offsets // most_records)))
