"""Converts columns to Spark's JSON, `StructType.json()`, and back, without Spark. Covers the types
of `column_types`.

A table's own columns are written with the names that their fields have had, in the metadata of
Spark's fields. Readers do not need these, and other columns are written without.
"""

import json
import re
from typing import Any, Final

import pyarrow as pa

from columns.column_types import list_of, map_of
from columns.field_names import column, given_names

_NAMES: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_TYPES: Final = {name: type_ for type_, name in _NAMES.items()}
_NAMES_KEY: Final = "names"  # in the metadata of a field
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def spark_json(columns: pa.Schema) -> str:
    return _text(columns, names=False)


def table_json(columns: pa.Schema) -> str:
    """The columns with the names of their fields."""
    return _text(columns, names=True)


def columns_of_spark(text: str) -> pa.Schema:
    """Parses the output of `spark_json` and of `table_json`."""
    return pa.schema(list(_arrow(json.loads(text))))


def type_words(type_: pa.DataType) -> str:
    """A type for messages, without the fields of structs."""
    if pa.types.is_struct(type_):
        return "a struct"
    if pa.types.is_list(type_):
        return f"array<{type_words(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<string, {type_words(type_.item_type)}>"
    return str(_type(type_))


def _arrow(type_: Any) -> pa.DataType:
    if isinstance(type_, str):
        decimal = _DECIMAL.fullmatch(type_)
        return _TYPES[type_] if decimal is None else pa.decimal128(int(decimal[1]), int(decimal[2]))
    if type_["type"] == "array":
        return list_of(_arrow(type_["elementType"]))
    if type_["type"] == "map":
        return map_of(_arrow(type_["valueType"]))
    return pa.struct(
        [
            column(field["name"], _arrow(field["type"]), field["metadata"].get(_NAMES_KEY, ()))
            for field in type_["fields"]
        ]
    )


def _text(columns: pa.Schema, *, names: bool) -> str:
    return json.dumps(_struct(columns, names=names), separators=(",", ":"), sort_keys=True)


def _struct(fields: pa.Schema | pa.StructType, *, names: bool) -> Any:
    described_fields = [
        {
            "name": field.name,
            "type": _type(field.type, names=names),
            "nullable": True,
            "metadata": _metadata(field) if names else {},
        }
        for field in fields
    ]
    return {"type": "struct", "fields": described_fields}


def _metadata(field: pa.Field) -> dict[str, Any]:
    field_names = given_names(field)
    return {_NAMES_KEY: list(field_names)} if field_names else {}


def _type(type_: pa.DataType, *, names: bool = False) -> Any:
    if pa.types.is_struct(type_):
        return _struct(type_, names=names)
    if pa.types.is_list(type_):
        items = _type(type_.value_type, names=names)
        return {"type": "array", "elementType": items, "containsNull": True}
    if pa.types.is_map(type_):
        values = _type(type_.item_type, names=names)
        return {
            "type": "map",
            "keyType": "string",
            "valueType": values,
            "valueContainsNull": True,
        }
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES[type_]
