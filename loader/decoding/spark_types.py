"""Converts columns to Spark's JSON, `StructType.json()`, and back, without Spark. Covers the types
of `column_types`.
"""

import json
import re
from typing import Any, Final

import pyarrow as pa

from columns.column_types import list_of, map_of

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
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def spark_json(columns: pa.Schema) -> str:
    return json.dumps(_struct(columns), separators=(",", ":"), sort_keys=True)


def columns_of_spark(text: str) -> pa.Schema:
    """Parses the output of `spark_json`."""
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
    return pa.struct([pa.field(field["name"], _arrow(field["type"])) for field in type_["fields"]])


def _struct(fields: pa.Schema | pa.StructType) -> Any:
    described_fields = [
        {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}
        for field in fields
    ]
    return {"type": "struct", "fields": described_fields}


def _type(type_: pa.DataType) -> Any:
    if pa.types.is_struct(type_):
        return _struct(type_)
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": _type(type_.value_type), "containsNull": True}
    if pa.types.is_map(type_):
        values = _type(type_.item_type)
        return {
            "type": "map",
            "keyType": "string",
            "valueType": values,
            "valueContainsNull": True,
        }
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES[type_]
