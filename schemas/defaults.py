"""Whether the defaults of fields are values of their types, and end.

Rules, as Avro's Java implementation checks them:

1. The default of a union may fit any of its branches.
2. A string stands for bytes and fixed, of any length; any string for an enum.
3. What a default leaves out of a record must have a default of its own. Java refuses whatever might
   go round in circles by that; here a default is refused if it really could.

All defaults of one text are checked together, and within bounds: a list of many records, compared
with a union of many records, would otherwise keep a processor busy for hours.
"""

import math
from collections.abc import Iterable
from typing import Final

from schemas.errors import InvalidSchema
from schemas.names import shown
from schemas.schema_types import (
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

__all__ = ["check_defaults"]

MAX_STEPS: Final = 1_000_000
INT = range(-(2**31), 2**31)
LONG = range(-(2**63), 2**63)


def check_defaults(fields: Iterable[tuple[Record, Field]]) -> None:
    """Raise `InvalidSchema` for the first field whose default is none."""
    checking = _Checking()
    for record, field in fields:
        if field.type.kind in {"float", "double"} and isinstance(field.default, float):
            continue  # be it NaN or infinite, as it can be read again only here
        checking.incomplete = []
        if not checking.fits(field.type, field.default):
            raise InvalidSchema(checking.explained(field), _where(record, field))
        checking.fills[id(field)] = checking.incomplete
    checking.refuse_circles()


def _where(record: Record, field: Field) -> str:
    return f"record {shown(record.name.full)[1:-1]}, field {shown(field.name)[1:-1]}"


class _Checking:
    """`incomplete` are the records that the default at hand leaves fields out of."""

    def __init__(self) -> None:
        self.fills: dict[int, list[Record]] = {}  # by field
        self.incomplete: list[Record] = []
        self.steps = 0
        self._seen: dict[tuple[int, int], bool] = {}

    def fits(self, type_: Type, value: Json) -> bool:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return False
        match type_:
            case Primitive():
                return _fits_primitive(type_.kind, value)
            case Enum() | Fixed():
                return isinstance(value, str)
            case Array():
                return isinstance(value, list) and all(self.fits(type_.items, v) for v in value)
            case Map():
                return isinstance(value, dict) and all(
                    self.fits(type_.values, v) for v in value.values()
                )
            case Union():
                return any(self._fits_branch(branch, value) for branch in type_.branches)
            case Record():
                return self._fits_record(type_, value)

    def _fits_branch(self, branch: Type, value: Json) -> bool:
        """Looked up if it has been asked before: unions in unions of records would multiply."""
        key = (id(branch), id(value))
        if key not in self._seen:
            before = len(self.incomplete)
            self._seen[key] = self.fits(branch, value)
            if not self._seen[key]:
                del self.incomplete[before:]
        return self._seen[key]

    def _fits_record(self, record: Record, value: Json) -> bool:
        if not isinstance(value, dict):
            return False
        for field in record.fields:
            self.steps += 1
            if field.name in value:
                if not self.fits(field.type, value[field.name]):
                    return False
            elif not field.has_default:
                return False
        if not all(field.name in value for field in record.fields):
            self.incomplete.append(record)
        return True

    def explained(self, field: Field) -> str:
        """What is wrong with a default that does not fit, as far inside as can be told."""
        type_, value, place = field.type, field.default, ""
        while (inner := self._first_wrong(type_, value)) is not None:
            type_, value, step = inner
            place = f"{place}{step}"[:100]
        if self.steps > MAX_STEPS:
            return "its default is too large for the unions it belongs to"
        if isinstance(type_, Record) and isinstance(value, dict):
            lacks = next(f for f in type_.fields if f.name not in value and not f.has_default)
            return f"its default{place} lacks {shown(lacks.name)}, which has no default of its own"
        return f"its default{place} is {shown(value)}, where {_wanted(type_)} is wanted"

    def _first_wrong(self, type_: Type, value: Json) -> tuple[Type, Json, str] | None:
        inner: Iterable[tuple[Type, Json, str]] = ()
        match type_, value:
            case Array(), list():
                inner = ((type_.items, each, f"[{i}]") for i, each in enumerate(value))
            case Map(), dict():
                inner = ((type_.values, each, f"[{shown(key)}]") for key, each in value.items())
            case Record(), dict():
                present = (f for f in type_.fields if f.name in value)
                inner = ((f.type, value[f.name], f".{shown(f.name)[1:-1]}") for f in present)
        return next((each for each in inner if not self.fits(each[0], each[1])), None)

    def refuse_circles(self) -> None:
        """A default that leaves out a field whose default leaves out … itself never ends."""
        done: set[int] = set()
        for begin in {id(r): r for records in self.fills.values() for r in records}.values():
            open_: set[int] = set()
            stack: list[tuple[Record, bool]] = [(begin, False)]
            while stack:
                record, left = stack.pop()
                if left:
                    open_.discard(id(record))
                    done.add(id(record))
                    continue
                if id(record) in done:
                    continue
                open_.add(id(record))
                stack.append((record, True))
                for field in record.fields:
                    for inner in self.fills.get(id(field), ()):
                        if id(inner) in open_:
                            raise InvalidSchema(
                                "its default never ends: it contains itself, by other defaults",
                                _where(record, field),
                            )
                        if id(inner) not in done:
                            stack.append((inner, False))


def _fits_primitive(kind: str, value: Json) -> bool:
    match kind:
        case "string" | "bytes":
            return isinstance(value, str)
        case "int":
            return type(value) is int and value in INT
        case "long":
            return type(value) is int and value in LONG
        case "float" | "double":
            return type(value) is int or (type(value) is float and math.isfinite(value))
        case "boolean":
            return isinstance(value, bool)
        case _:
            return value is None


_WANTED = {
    "null": "null",
    "boolean": "true or false",
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "float": "a number",
    "double": "a number",
    "bytes": "a string, a character for each byte,",
    "string": "a string",
    "array": "a list",
    "map": "an object",
    "record": "an object",
    "fixed": "a string, a character for each byte,",
    "enum": "a symbol",
}


def _wanted(type_: Type) -> str:
    if isinstance(type_, Union):
        branches = [b.name.full if isinstance(b, Named) else b.kind for b in type_.branches[:6]]
        return f"a value of the union of {', '.join(branches)[:200] or 'nothing'}"
    return _WANTED[type_.kind]
