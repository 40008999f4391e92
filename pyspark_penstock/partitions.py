"""How tasks of a batch or of a stream travel through Spark, and what each gives back."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from pyarrow import RecordBatch
from pyspark.sql.datasource import InputPartition

from ground.known_types import known_type
from loader.source.batch_plan import Task
from loader.source.description import unpacked
from loader.source.reading import read


class TaskPartition(InputPartition):
    """What one task reads."""

    def __init__(self, task: Task) -> None:
        super().__init__(msgspec.json.encode(task))


def partitions_of(tasks: Iterable[Task]) -> Sequence[InputPartition]:
    return [TaskPartition(each) for each in tasks]


def rows_of(partition: InputPartition, description: str) -> Iterator[RecordBatch]:
    """Where there is nothing to read, Spark makes a partition of its own, without a value."""
    if partition.value is None:
        return iter(())
    return read(msgspec.json.decode(partition.value, type=known_type(Task)), unpacked(description))
