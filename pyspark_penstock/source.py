"""`spark.read.format("penstock")` and `spark.readStream.format("penstock")`.

Spark makes the source in one process, plans it in others, and reads in tasks: between them travel
the options, and a description of the rows that is found out once. So all tasks of a query read with
the same schema, whatever the registry hears meanwhile.
"""

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Final

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
from loader.source.batch_plan import batch_tasks
from loader.source.description import (
    describe,
    row_schema_in_sparks_words,
    unpacked,
)
from loader.source.options import read_options
from loader.source.ranges import Condition, Operator
from pyspark_penstock.partitions import partitions_of, rows_of

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
    """Made by Spark, with the options; found by the name of this class and its package."""

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
        return _struct(row_schema_in_sparks_words(description))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self._options)
        options.for_batches()
        reader = FilteredReader if options.filter_pushdown else SourceReader
        return reader(self._options, self._of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's)
        read_options(self._options).for_streams()
        # Spark 4.1, which lacks what it imports, can still read batches.
        from pyspark_penstock.streaming import StreamReader  # noqa: PLC0415

        return StreamReader(self._options, self._of(schema))

    def _of(self, schema: StructType) -> str:
        """The description, for the columns of this schema: all, unless a user names some."""
        if self._description is None:
            self._description = describe(read_options(self._options)).packed()
        description = unpacked(self._description)
        there = {each.name: each for each in _struct(row_schema_in_sparks_words(description))}
        for each in schema:
            if each.name not in there:
                raise OptionRefused(
                    f"the schema has a column {each.name}, and there is none: "
                    f"there are {', '.join(there)}"
                )
            wanted, found = each.dataType.simpleString(), there[each.name].dataType.simpleString()
            if wanted != found or not each.nullable:
                what = wanted if each.nullable else f"{wanted} not null"
                raise OptionRefused(f"column {each.name} is {found}, and not {what}")
        if schema.names == list(there):
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
            Condition(column, Operator(how), values) for column, how, values in self._conditions
        ]
        return partitions_of(batch_tasks(read_options(self._options), conditions))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return rows_of(partition, self._description)


class FilteredReader(SourceReader):
    """Reads less where a query's conditions say that nothing of it is wanted. A reader of its own,
    since Spark refuses all that have this method unless its own setting allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's)
        for each in filters:
            if isinstance(each, Comparison) and len(each.attribute) == 1:
                operator = _OPERATORS[type(each)]
                values = tuple(each.value) if operator is Operator.IN else (each.value,)
                self._conditions.append((each.attribute[0], operator.value, values))
        return filters  # Spark applies all of them itself


def _struct(text: str) -> StructType:
    return StructType.fromJson(json.loads(text))
