"""The tasks of a batch or a stream as Spark partitions, and their rows."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from pyarrow import RecordBatch
from pyspark.sql.datasource import InputPartition

from ground.known_types import known_type
from loader.spark.data_source.batch_plan import Task
from loader.spark.data_source.description import unpacked
from loader.spark.data_source.reading import read


class TaskPartition(InputPartition):
    """The input of one task."""

    def __init__(self, task: Task) -> None:
        super().__init__(msgspec.json.encode(task))


def partitions_of(tasks: Iterable[Task]) -> Sequence[InputPartition]:
    return [TaskPartition(task) for task in tasks]


def rows_of(partition: InputPartition, description: str) -> Iterator[RecordBatch]:
    """The rows of a partition. Without tasks, Spark creates a partition of its own, which has no
    value."""
    if partition.value is None:
        return iter(())
    return read(msgspec.json.decode(partition.value, type=known_type(Task)), unpacked(description))
