"""Converts rows to the columns of their table: the same values in types that are as wide or wider
(widening.py), and null where a column is missing. Pure.

Columns of files are matched by name, ignoring case, as Spark does; also the fields of structs.

Rule 1: each converted value is converted back and compared, so a conversion never changes a value.
Rule 2: rows never lose a column: one that the table does not have is an error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from columns.field_names import field_name
from loader.decoding.spark_types import type_words
from loader.decoding.widening import CannotWiden, widened
from loader.errors import Mismatch

_BITS: Final = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
# Returns the place of the field of rows for each wanted field; None: rows have none.
_Pairing: TypeAlias = Callable[[Sequence[pa.Field], Sequence[pa.Field]], list[int | None]]


def are_same(columns: pa.Schema, other: pa.Schema) -> bool:
    """Whether both have the same columns, in any order."""
    return _ordered(columns) == _ordered(other)


def fit(columns: pa.Schema, table: pa.Schema) -> bool:
    """Whether rows with these columns can be converted to those of the table."""
    try:
        return are_same(widened(columns, table), table)
    except CannotWiden:
        return False


def in_columns(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """The rows of a file with the columns of the table. Raises Mismatch if a value or a column
    would be lost."""
    return _in_columns(rows, table, _by_name)


def read_in_columns(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """Rows as they were read, whose columns are the first of the table under the names of the
    latest schema, with the columns of the table (widening.py). Raises Mismatch likewise."""
    for field, column in zip(rows.schema, table, strict=False):
        if field_name(field) != field_name(column):
            raise Mismatch(f"column `{column.name}` is not that of field `{field_name(field)}`")
    return _in_columns(rows, table, _by_place)


def _in_columns(rows: pa.RecordBatch, table: pa.Schema, pairing: _Pairing) -> pa.RecordBatch:
    if rows.schema.equals(table):
        return rows
    arrays = _paired(rows.schema, rows.columns, table, rows.num_rows, pairing)
    return pa.RecordBatch.from_arrays(arrays, schema=table)


def have_same_values(rows: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether rows with the same columns are equal, in their order. NaN equals NaN."""
    return rows.equals(other) or all(
        _comparable(column).equals(_comparable(other_column))
        for column, other_column in zip(rows.columns, other.columns, strict=True)
    )


def _ordered(fields: Iterable[pa.Field]) -> list[tuple[str, object]]:
    return sorted((field.name.lower(), _ordered_type(field.type)) for field in fields)


def _ordered_type(type_: pa.DataType) -> object:
    """The type without the order of fields, and without nullability, which files differ in."""
    if pa.types.is_struct(type_):
        return repr(("struct", _ordered(type_)))
    if pa.types.is_list(type_):
        return repr(("list", _ordered_type(type_.value_type)))
    if pa.types.is_map(type_):
        return repr(("map", _ordered_type(type_.key_type), _ordered_type(type_.item_type)))
    return str(type_)


def _by_name(fields: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> list[int | None]:
    places = {field.name.lower(): place for place, field in enumerate(fields)}
    pairs = [places.pop(field.name.lower(), None) for field in wanted]
    if places:
        raise Mismatch(f"the table has no column `{min(places)}`, which rows have")
    return pairs


def _by_place(fields: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> list[int | None]:
    if len(fields) > len(wanted):
        raise Mismatch(f"the table has no column for field `{fields[len(wanted)].name}`")
    return [place if place < len(fields) else None for place in range(len(wanted))]


def _paired(
    fields: Iterable[pa.Field],
    arrays: Sequence[pa.Array],
    wanted: Iterable[pa.Field],
    length: int,
    pairing: _Pairing,
) -> list[pa.Array]:
    """Arrays for all wanted fields."""
    wanted = list(wanted)
    converted = []
    for field, place in zip(wanted, pairing(list(fields), wanted), strict=True):
        if place is None:
            converted.append(pa.nulls(length, field.type))
            continue
        try:
            converted.append(_converted(arrays[place], field.type, pairing))
        except pa.ArrowInvalid as error:
            raise _lost(field, arrays[place].type) from error
    return converted


def _converted(values: pa.Array, type_: pa.DataType, pairing: _Pairing) -> pa.Array:
    if values.type.equals(type_):
        return values
    if pa.types.is_struct(values.type) and pa.types.is_struct(type_):
        children = [values.field(index) for index in range(values.type.num_fields)]
        fields = _paired(values.type, children, type_, len(values), pairing)
        return _struct(fields, type_, values)
    if pa.types.is_list(values.type) and pa.types.is_list(type_):
        return _around(values, type_, _converted(values.values, type_.value_type, pairing))
    if pa.types.is_map(values.type) and pa.types.is_map(type_):
        keys = _converted(values.keys, type_.key_type, pairing)
        items = _converted(values.items, type_.item_type, pairing)
        fields = [type_.key_field, type_.item_field]
        return _around(values, type_, pa.StructArray.from_arrays([keys, items], fields=fields))
    if not pa.types.is_nested(type_):
        wider_values = values.cast(type_)
        if _comparable(wider_values.cast(values.type)).equals(_comparable(values)):
            return wider_values
    raise pa.ArrowInvalid(f"not {type_}")


def _struct(fields: Sequence[pa.Array], type_: pa.DataType, values: pa.Array) -> pa.Array:
    if not fields:
        return values
    return pa.StructArray.from_arrays(fields, fields=list(type_), mask=values.is_null())


def _around(values: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with the validity and the offsets of `values`."""
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(
        type_, len(values), buffers, offset=values.offset, children=[child]
    )


def _comparable(values: pa.Array) -> pa.Array:
    """The values with numbers in place of floats, whose comparison would find that NaN differs from
    itself."""
    type_ = values.type
    if type_ in _BITS:
        nan = pa.scalar(float("nan"), type_)
        return pc.if_else(pc.is_nan(values), nan, values).view(_BITS[type_])
    if pa.types.is_struct(type_) and type_.num_fields:
        fields = [_comparable(values.field(index)) for index in range(type_.num_fields)]
        names = [field.name for field in type_]
        return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())
    if pa.types.is_list(type_):
        child = _comparable(values.values)
        return _around(values, pa.list_(child.type), child)
    if pa.types.is_map(type_):
        items = _comparable(values.items)
        child = pa.StructArray.from_arrays([values.keys, items], names=["key", "value"])
        return _around(values, pa.list_(child.type), child)
    return values


def _lost(field: pa.Field, type_: pa.DataType) -> Mismatch:
    return Mismatch(
        f"column `{field.name}` has values of type {type_words(type_)} that do not fit"
        f" {type_words(field.type)}"
    )
