"""A stream whose batches can be limited. Requires Spark 4.2, whose interfaces it imports."""

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from loader.spark.data_source.stream import from_json
from pyspark_penstock.streaming import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Implements what Spark's interface has since 4.2."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's names)
        limit = self._stream.options.records_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # type: ignore[override]  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._stream.next(from_json(start), rows).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        latest_offsets = self._stream.latest
        return None if latest_offsets is None else latest_offsets.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream.end_here()
