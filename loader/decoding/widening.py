"""Widens two versions of a table's columns into one that holds both. Pure.

Covers what Spark can read from files of either version in any format (tested with 4.3, in structs,
lists and maps too):

    int, long                       long
    int or float, and double        double; int and float likewise
    decimals                        one with the digits of both, before and after the point
    structs                         with the fields of both; lists and maps of them likewise

Avro promotes more: long to float or double, text to bytes. But existing files do not change with
the schema, and no reader combines these.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from columns.column_types import MOST_DIGITS, list_of, map_of
from loader.decoding.spark_types import type_words

_WIDER: Final = {
    frozenset({pa.int32(), pa.int64()}): pa.int64(),
    frozenset({pa.int32(), pa.float32()}): pa.float64(),
    frozenset({pa.int32(), pa.float64()}): pa.float64(),
    frozenset({pa.float32(), pa.float64()}): pa.float64(),
}


class CannotWiden(Exception):
    """The error for two versions of a column that cannot be widened; it names the column and both
    types."""

    def __init__(self, column: str, former: pa.DataType, latest: pa.DataType) -> None:
        self.column = column
        self.former = type_words(former)
        self.latest = type_words(latest)
        super().__init__(f"`{column}` was {self.former}, and is {self.latest}")


def widened(former: pa.Schema, latest: pa.Schema) -> pa.Schema:
    """The latest columns, followed by those that no longer exist. Raises CannotWiden."""
    return pa.schema(_fields(former, latest, ""))


def _fields(
    former: Iterable[pa.Field], latest: Iterable[pa.Field], path: str
) -> Iterator[pa.Field]:
    former_fields = {field.name.lower(): field for field in former}
    for field in latest:
        previous = former_fields.pop(field.name.lower(), field)
        yield pa.field(field.name, _type(previous.type, field.type, f"{path}{field.name}"))
    yield from former_fields.values()


def _type(former: pa.DataType, latest: pa.DataType, path: str) -> pa.DataType:
    if former.equals(latest):
        return latest
    if pa.types.is_struct(former) and pa.types.is_struct(latest):
        return pa.struct(list(_fields(former, latest, f"{path}.")))
    if pa.types.is_list(former) and pa.types.is_list(latest):
        return list_of(_type(former.value_type, latest.value_type, f"{path}.element"))
    if pa.types.is_map(former) and pa.types.is_map(latest):
        return map_of(_type(former.item_type, latest.item_type, f"{path}.value"))
    if pa.types.is_decimal(former) and pa.types.is_decimal(latest):
        scale = max(former.scale, latest.scale)
        digits = scale + max(former.precision - former.scale, latest.precision - latest.scale)
        if digits <= MOST_DIGITS:
            return pa.decimal128(digits, scale)
    wider_type = _WIDER.get(frozenset({former, latest}))
    if wider_type is None:
        raise CannotWiden(path, former, latest)
    return wider_type
