"""Data of a schema at random, as fastavro writes them, for schemas of `schema_pairs`."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

_PLAIN: Final[dict[str, list[Any]]] = {
    "null": [None],
    "boolean": [True, False],
    "int": [0, -1, 2**31 - 1],
    "long": [0, 7, -(2**40)],
    "float": [0.0, 1.5],
    "double": [-2.25, 1e300],
    # Java reads bytes as a string whatever they are; what is no UTF-8 has a test of its own.
    "bytes": [b"", "bytes of text: ä".encode()],
    "string": ["", "text: ä"],
}
_LOGICAL: Final[dict[str, list[Any]]] = {
    "timestamp-millis": [datetime(2020, 5, 17, 12, 30, tzinfo=UTC)],
    "timestamp-micros": [datetime(2020, 5, 17, 12, 30, tzinfo=UTC)],
    "local-timestamp-millis": [datetime(2020, 5, 17, 12, 30)],
    "time-millis": [time(12, 30)],
    "time-micros": [time(12, 30)],
    "date": [date(2020, 5, 17)],
    "uuid": [UUID(int=2**127 + 5)],
    "decimal": [Decimal("0.00"), Decimal("-12.34")],
}


class Endless(Exception):
    """Nobody can write data of a union of nothing, or of a record that always contains itself."""


def datum(schema: Any, named: dict[str, Any], random: Random, depth: int = 0) -> Any:
    """`schema` and what it names as fastavro has parsed it. Named branches come in a tuple."""
    if depth > 40:
        raise Endless
    if isinstance(schema, str):
        return (
            datum(named[schema], named, random, depth) if schema in named else _of(schema, random)
        )
    if isinstance(schema, list):
        return _branch(schema, named, random, depth)
    match schema["type"]:
        case "array":
            return [datum(schema["items"], named, random, depth + 1) for _ in _few(random, depth)]
        case "map":
            return {
                f"key {index}": datum(schema["values"], named, random, depth + 1)
                for index in _few(random, depth)
            }
        case "enum":
            return random.choice(schema["symbols"])
        case "fixed":
            return bytes(schema["size"])
        case "record":
            fields = schema["fields"]
            return {each["name"]: datum(each["type"], named, random, depth + 1) for each in fields}
        case primitive:
            logical = schema.get("logicalType")
            return _of(logical if logical in _LOGICAL else primitive, random)


def _branch(schema: list[Any], named: dict[str, Any], random: Random, depth: int) -> Any:
    if not schema:
        raise Endless
    branch = random.choice(schema)
    if depth > 5 and "null" in schema:
        branch = "null"
    name = branch if isinstance(branch, str) else branch.get("name")
    made = datum(branch, named, random, depth + 1)
    return (name, made) if name in named else made


def _few(random: Random, depth: int) -> range:
    return range(0 if depth > 5 else random.randint(0, 2))


def _of(kind: str, random: Random) -> Any:
    return random.choice(_LOGICAL[kind] if kind in _LOGICAL else _PLAIN[kind])
