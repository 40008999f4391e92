"""Schemas as JSON has them, in few words."""

import json
from typing import Any

from schemas.parsing import AvroSchema, parse


def avro(text: Any) -> AvroSchema:
    return parse(json.dumps(text))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def array(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def map_of(of: Any) -> dict[str, Any]:
    return {"type": "map", "values": of}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}
