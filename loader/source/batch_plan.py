"""What a batch query reads: from what a user says and what there is to its tasks."""

from collections.abc import Sequence

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.offsets import offsets_of
from loader.planning.slicing import Range
from loader.source.asking import bytes_per_offset, facts_of, times_of, topics_of
from loader.source.description import CLIENT_ID
from loader.source.narrowing import Condition, earliest_time, narrowed
from loader.source.options import SourceOptions
from loader.source.positions import Earliest, Latest, Position
from loader.source.ranges import Bound, places, ranges
from loader.source.tasks import Task, tasks


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
