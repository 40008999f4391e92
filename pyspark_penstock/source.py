"""`spark.read.format("penstock")` and `spark.readStream.format("penstock")`.

Spark creates the source in one process, plans in others, and reads in tasks. The options travel
between them, and a description of the rows that is determined once, so that all tasks of a query
read with the same schema, whatever happens in the registry.
"""

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from pyarrow import RecordBatch
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from loader.errors import OptionRefused
from loader.spark.data_source.batch_plan import batch_tasks
from loader.spark.data_source.description import describe, row_schema_for_spark, unpacked
from loader.spark.data_source.options import read_options
from loader.spark.data_source.ranges import Condition, Operator
from pyspark_penstock.partitions import partitions_of, rows_of

if TYPE_CHECKING:
    from pyspark_penstock.streaming import StreamReader

Comparison = EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
_OPERATORS: Final[dict[type[Comparison], Operator]] = {
    EqualTo: Operator.EQUAL,
    In: Operator.IN,
    GreaterThan: Operator.ABOVE,
    GreaterThanOrEqual: Operator.FROM,
    LessThan: Operator.BELOW,
    LessThanOrEqual: Operator.UP_TO,
}


class DefaultSource(DataSource):
    """Created by Spark with the options; found by the name of this class and its package."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = dict(options)
        self._description: str | None = None
        read_options(self._options)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        description = describe(read_options(self._options))
        self._description = description.packed()
        return _struct(row_schema_for_spark(description))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self._options)
        options.for_batches()
        reader = FilteredReader if options.filter_pushdown else SourceReader
        return reader(self._options, self._of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's)
        read_options(self._options).for_streams()
        return _stream_reader()(self._options, self._of(schema))

    def _of(self, schema: StructType) -> str:
        """Returns the description for this schema's columns: all, unless the user names some."""
        if self._description is None:
            self._description = describe(read_options(self._options)).packed()
        description = unpacked(self._description)
        fields = _struct(row_schema_for_spark(description))
        columns = {field.name: field for field in fields}
        for field in schema:
            if field.name not in columns:
                raise OptionRefused(
                    f"the schema names an unknown column {field.name}: "
                    f"the columns are {', '.join(columns)}"
                )
            requested_type, actual_type = (
                field.dataType.simpleString(),
                columns[field.name].dataType.simpleString(),
            )
            if requested_type != actual_type or not field.nullable:
                expected_type = requested_type if field.nullable else f"{requested_type} not null"
                raise OptionRefused(f"column {field.name} is {actual_type}, not {expected_type}")
        if schema.names == list(columns):
            return self._description
        return msgspec.structs.replace(description, wanted=tuple(schema.names)).packed()


class SourceReader(DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, options: dict[str, str], description: str) -> None:
        self._options = options
        self._description = description
        self._conditions: list[tuple[str, str, tuple[object, ...]]] = []

    def partitions(self) -> Sequence[InputPartition]:
        conditions = [
            Condition(column, Operator(operator), values)
            for column, operator, values in self._conditions
        ]
        return partitions_of(batch_tasks(read_options(self._options), conditions))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return rows_of(partition, self._description)


class FilteredReader(SourceReader):
    """Skips data that a query's conditions exclude. A separate class, because Spark refuses any
    reader with `pushFilters` unless a setting of its own allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's)
        for condition in filters:
            if isinstance(condition, Comparison) and len(condition.attribute) == 1:
                operator = _OPERATORS[type(condition)]
                values = tuple(condition.value) if operator is Operator.IN else (condition.value,)
                self._conditions.append((condition.attribute[0], operator.value, values))
        return filters  # Spark applies all of them itself


def _stream_reader() -> "type[StreamReader]":
    """The class for this version of Spark, which only streams import."""
    if hasattr(DataSourceStreamReader, "getDefaultReadLimit"):  # since 4.2
        from pyspark_penstock.limited_streaming import LimitedStreamReader  # noqa: PLC0415

        return LimitedStreamReader
    from pyspark_penstock.streaming import StreamReader  # noqa: PLC0415

    return StreamReader


def _struct(text: str) -> StructType:
    return StructType.fromJson(json.loads(text))
