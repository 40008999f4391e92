"""The loader's own data source: reads slices and returns the pieces of the files that they become.

Spark plans it in one process and reads in others, so the job travels as text: in an option, and in
each partition.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final

import msgspec
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ground.known_types import known_type
from loader.landing.pieces import hours_of_each
from loader.landing.task import land
from loader.landing.task_spec import LandingJob, unpacked
from loader.values.tables import Slice

JOB: Final = "job"  # the option
COLUMNS: Final = "kind string, slice int, dt string, hour string, value string"


class LandingSource(DataSource):
    """Created by Spark, with the option `job`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._job = options[JOB]

    @classmethod
    def name(cls) -> str:
        return "penstock_landing"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> "LandingReader":
        return LandingReader(unpacked(self._job))


class LandingPartition(InputPartition):
    """The slices of one task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(msgspec.json.encode(slices))


class LandingReader(DataSourceReader):
    """Plans on the driver, reads on an executor."""

    def __init__(self, job: LandingJob) -> None:
        self._job = job

    def __getstate__(self) -> dict[str, Any]:
        """The state for every task, without groups: a task's slices are in its partition."""
        return {"_job": msgspec.structs.replace(self._job, groups=())}

    def partitions(self) -> Sequence[InputPartition]:
        return [LandingPartition(group) for group in self._job.groups]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        slices = msgspec.json.decode(partition.value, type=known_type(tuple[Slice, ...]))
        most_hours = hours_of_each(len(slices))
        for piece in slices:
            ids = self._job.seen_in(piece)
            yield from land(piece, self._job.spec, ids, most_hours=most_hours)
