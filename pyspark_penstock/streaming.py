"""The stream of `spark.readStream.format("penstock")`. Requires Spark 4.2.

Spark keeps one on the driver while a query runs, and creates another where reading is planned: so
creation must be cheap, and it is pickled without its connections.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from loader.spark.data_source.options import read_options
from loader.spark.data_source.stream import TopicStream, from_json
from pyspark_penstock.partitions import partitions_of, rows_of


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
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

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._stream.options.records_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._stream.next(from_json(start), rows).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        latest_offsets = self._stream.latest
        return None if latest_offsets is None else latest_offsets.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream.end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return partitions_of(self._stream.tasks_between(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return rows_of(partition, self._description)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark's checkpoint is authoritative."""

    def stop(self) -> None:
        self._stream.close()
