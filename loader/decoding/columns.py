"""The columns of a table: the fields of its schema, and the origin of a row.

    the schema's fields        as in columns/column_types.py
    time, host, app, source, seq, position      the header, if the schema is an event's; or a struct
    _timestamp                 the record's, if there is no header
    _cluster                   in tables of several clusters
    _topic, _partition, _offset

A schema that is not a record becomes one column, `value`. The six names of the header always belong
to the header, even if a field of that name is added later: the meaning of a column must not change.
A field whose name is taken, by one of these, by another field or by the folders (`dt`, `hour`),
gets underscores until it is unique. Further fields of a header become `header_` and their name.

These are the names of a new table. In an existing one, columns keep the names that they have
(column_matching.py).
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from columns.column_types import TIMESTAMP, NotColumns, column_type, free_names
from columns.field_names import aliases, column, field_name
from loader.config import HeaderColumns
from loader.decoding.spark_types import spark_json
from loader.errors import NoSchema
from schemas.definitions.types import Record
from schemas.errors import NotAnEvent
from schemas.event_schemas import check_event_schema
from schemas.parsing import AvroSchema

VALUE: Final = "value"
FOLDERS: Final = ("dt", "hour", "_hour")  # the last: for rows that are not in a folder yet
ORIGIN: Final = {
    "_timestamp": TIMESTAMP,
    "_cluster": pa.string(),
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
}
_KNOWN: Final = 6  # the fields that every header begins with
_MICROS: Final = pa.scalar(1000, pa.int64())  # per millisecond


class Columns:
    """The columns of a table. Raises `NoSchema` if the reader's schema cannot be represented as
    columns."""

    def __init__(self, reader: AvroSchema, *, header: HeaderColumns, with_cluster: bool) -> None:
        self.reader: Final = reader
        self.header: Final = header
        self.with_cluster: Final = with_cluster
        self.has_header: Final = _is_event(reader)
        try:
            value = column_type(reader.type)
        except NotColumns as error:
            raise NoSchema(f"{reader.full_name or 'the schema'}: {error}") from None
        except RecursionError:
            raise NoSchema(f"{reader.full_name or 'the schema'} is nested too deeply") from None
        self.arrow: Final = pa.schema([*self._fields(value), *self._origin()])
        self.spark_json: Final = spark_json(self.arrow)

    def times(self, rows: pa.RecordBatch) -> pa.Int64Array:
        """The time of each row, in milliseconds."""
        times = self._of_header(rows, 0) if self.has_header else rows.column("_timestamp")
        return pc.divide(times.view(pa.int64()), _MICROS)

    def sources(self, rows: pa.RecordBatch) -> pa.Array | None:
        return self._of_header(rows, 3) if self.has_header else None

    def seqs(self, rows: pa.RecordBatch) -> pa.Int64Array | None:
        return self._of_header(rows, 4) if self.has_header else None

    def _of_header(self, rows: pa.RecordBatch, place: int) -> pa.Array:
        """A field of the header, whose fields come after all others of the schema."""
        record = self.reader.type
        assert isinstance(record, Record)
        header_index = len(record.fields) - 1
        if self.header is HeaderColumns.NESTED:
            return rows.column(header_index).field(place)
        return rows.column(header_index + place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, HeaderColumns, bool]:
        return self.reader.resolved_text, self.header, self.with_cluster

    def _fields(self, value: pa.DataType) -> list[pa.Field]:
        used_names = {*ORIGIN, *FOLDERS}
        if not isinstance(self.reader.type, Record):
            return [pa.field(VALUE, value)]
        fields = list(value) if self.reader.type.fields else []
        if not self.has_header:
            return _named(fields, used_names)
        if self.header is HeaderColumns.NESTED:
            header, *others = _named(fields, used_names)
            return [*others, header]
        header_fields = list(fields[0].type)
        header_columns = [
            *_named(header_fields[:_KNOWN], used_names),
            *_named(header_fields[_KNOWN:], used_names, prefix="header_"),
        ]
        return [*_named(fields[1:], used_names), *header_columns]

    def _origin(self) -> list[pa.Field]:
        left_out_names = set()
        if self.has_header:
            left_out_names.add("_timestamp")
        if not self.with_cluster:
            left_out_names.add("_cluster")
        return [
            pa.field(name, type_) for name, type_ in ORIGIN.items() if name not in left_out_names
        ]


def _named(fields: list[pa.Field], used_names: set[str], *, prefix: str = "") -> list[pa.Field]:
    """Columns for these fields. Adds their names to `used_names`."""
    names = [f"{prefix}{field_name(field)}" for field in fields]
    return [
        column(free_name, field.type, (name,), [f"{prefix}{alias}" for alias in aliases(field)])
        for free_name, name, field in zip(free_names(names, used_names), names, fields, strict=True)
    ]


def _is_event(schema: AvroSchema) -> bool:
    try:
        check_event_schema(schema)
    except NotAnEvent:
        return False
    return True
