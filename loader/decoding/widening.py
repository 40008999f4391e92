"""Widens two versions of a table's columns into one that holds both. Pure.

Covers what Spark can read from files of either version in any format (tested with 4.3, in structs,
lists and maps too):

    int, long                       long
    int or float, and double        double; int and float likewise
    decimals                        one with the digits of both, before and after the point
    structs                         with the fields of both; lists and maps of them likewise

Avro promotes more: long to float or double, text to bytes. But existing files do not change with
the schema, and no reader combines these.

Renamed fields stay in their columns (column_matching.py).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from columns.column_types import MOST_DIGITS, list_of, map_of
from loader.decoding.column_matching import matched
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
    """The columns of the latest fields, in their order, followed by those whose fields no longer
    exist; in structs likewise. Raises CannotWiden."""
    return pa.schema(_fields(former, latest, ""))


def _fields(
    former: Iterable[pa.Field], latest: Iterable[pa.Field], path: str
) -> Iterator[pa.Field]:
    def of_same_name(former: pa.DataType, latest: pa.DataType, name: str) -> pa.DataType:
        return _type(former, latest, f"{path}{name}")

    def if_possible(former: pa.DataType, latest: pa.DataType, name: str) -> pa.DataType | None:
        try:
            return _type(former, latest, f"{path}{name}")
        except CannotWiden:
            return None

    return matched(list(former), list(latest), if_possible, of_same_name)


def _type(former: pa.DataType, latest: pa.DataType, path: str) -> pa.DataType:
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
    if former.equals(latest):
        return latest
    wider_type = _WIDER.get(frozenset({former, latest}))
    if wider_type is None:
        raise CannotWiden(path, former, latest)
    return wider_type
