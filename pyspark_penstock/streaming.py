"""The stream of `spark.readStream.format("penstock")`, as far as every Spark since 4.1 has it.

Spark keeps one on the driver while a query runs, and creates another where reading is planned: so
creation must be cheap, and it is pickled without its connections.

Spark 4.1 asks for the end of a batch without naming its start, so a batch is everything there is.
Spark 4.2 names it, and has limits (limited_streaming.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from loader.errors import OptionRefused
from loader.spark.data_source.options import read_options
from loader.spark.data_source.stream import TopicStream, from_json
from pyspark_penstock.partitions import partitions_of, rows_of


class StreamReader(DataSourceStreamReader):
    """Implements Spark's interface for reading a stream."""

    def __init__(self, options: dict[str, str], description: str) -> None:
        self._options = options
        self._description = description
        self._stream = TopicStream(read_options(options))

    def __getstate__(self) -> tuple[dict[str, str], str]:
        return self._options, self._description

    def __setstate__(self, state: tuple[dict[str, str], str]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        return self._stream.initial().as_json()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._stream.options.records_per_trigger is not None:
            raise OptionRefused(
                "`maxRecordsPerTrigger` requires Spark 4.2: leave it out, and let the stream start"
                " at a later offset if there is too much for a batch"
            )
        return self._stream.everything().as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return partitions_of(self._stream.tasks_between(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return rows_of(partition, self._description)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark's checkpoint is authoritative."""

    def stop(self) -> None:
        self._stream.close()
