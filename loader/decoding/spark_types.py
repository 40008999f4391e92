"""Columns in Spark's words, `StructType.json()`, and back, without Spark. For the types of
`column_types`."""

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
    """Of what `spark_json` has given."""
    return pa.schema(list(_arrow(json.loads(text))))


def type_words(type_: pa.DataType) -> str:
    """For people; what is in a struct is not said."""
    if pa.types.is_struct(type_):
        return "a struct"
    if pa.types.is_list(type_):
        return f"array<{type_words(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<string, {type_words(type_.item_type)}>"
    return str(_type(type_))


def _arrow(said: Any) -> pa.DataType:
    if isinstance(said, str):
        decimal = _DECIMAL.fullmatch(said)
        return _TYPES[said] if decimal is None else pa.decimal128(int(decimal[1]), int(decimal[2]))
    if said["type"] == "array":
        return list_of(_arrow(said["elementType"]))
    if said["type"] == "map":
        return map_of(_arrow(said["valueType"]))
    return pa.struct([pa.field(each["name"], _arrow(each["type"])) for each in said["fields"]])


def _struct(fields: pa.Schema | pa.StructType) -> Any:
    made = [
        {"name": each.name, "type": _type(each.type), "nullable": True, "metadata": {}}
        for each in fields
    ]
    return {"type": "struct", "fields": made}


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
