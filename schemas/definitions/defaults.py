"""Checks that defaults of fields are values of their types, and finite.

Rules, as Avro's Java implementation checks them:

1. The default of a union may fit any of its branches.
2. A string stands for bytes and fixed of any length; any string for an enum.
3. A field omitted from a record's default must have a default of its own. Java rejects any possible
   cycle; here a default is rejected only if it is really infinite.

All defaults of a text are checked together and within a limit: a list of many records, compared
with a union of many records, could otherwise take hours.
"""

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Final

from schemas.definitions.names import shown
from schemas.definitions.types import (
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
from schemas.errors import InvalidSchema

__all__ = ["check_defaults"]

MAX_STEPS: Final = 300_000
INT = range(-(2**31), 2**31)
LONG = range(-(2**63), 2**63)


def check_defaults(fields: Iterable[tuple[Record, Field]]) -> None:
    """Raises `InvalidSchema` for the first field with an invalid default."""
    check = _Checking()
    for record, field in fields:
        if field.type.kind in {"float", "double"} and isinstance(field.default, float):
            continue  # NaN and infinity too, since Avro can read them back here only
        check.leaves_out = set()
        if not check.fits(field.type, field.default):
            raise InvalidSchema(check.explained(field), _where(record, field))
        if check.leaves_out:
            check.left_out[id(field)] = check.leaves_out
            check.where[id(field)] = _where(record, field)
    check.refuse_circles()


def _where(record: Record, field: Field) -> str:
    return f"record {shown(record.name.full)[1:-1]}, field {shown(field.name)[1:-1]}"


class _Checking:
    """The state of checking one schema's defaults. `leaves_out`: ids of the fields whose defaults
    the current default relies on."""

    def __init__(self) -> None:
        self.leaves_out: set[int] = set()
        self.left_out: dict[int, set[int]] = {}  # by field
        self.where: dict[int, str] = {}
        self.steps = 0
        self._seen: dict[tuple[int, int], bool] = {}

    def fits(self, type_: Type, value: Json) -> bool:
        """Returns whether the value is of the type; False also after too many steps.

        One frame per level, and each pair once: unions in unions of records would multiply.
        """
        self.steps += 1
        key = (id(type_), id(value))
        if self.steps > MAX_STEPS or key in self._seen:
            return self._seen.get(key, False)
        match type_, value:
            case Primitive(), _:
                return _fits_primitive(type_.kind, value)
            case Enum() | Fixed(), _:
                return isinstance(value, str)
            case Union(), _:
                return any(map(self.fits, type_.branches, repeat(value)))
            case Array(), list():
                answer = all(map(self.fits, repeat(type_.items), value))
            case Map(), dict():
                answer = all(map(self.fits, repeat(type_.values), value.values()))
            case Record(), dict():
                present_fields = [field for field in type_.fields if field.name in value]
                missing_fields = [field for field in type_.fields if field.name not in value]
                self.steps += len(type_.fields)
                # Defaults of other kinds contain no record that could omit a field.
                self.leaves_out.update(
                    id(record_field)
                    for record_field in missing_fields
                    if isinstance(record_field.default, dict | list)
                )
                answer = all(record_field.has_default for record_field in missing_fields) and all(
                    map(
                        self.fits,
                        [record_field.type for record_field in present_fields],
                        [value[record_field.name] for record_field in present_fields],
                    )
                )
            case _:
                return False
        self._seen[key] = answer
        return answer

    def explained(self, field: Field) -> str:
        """Explains an invalid default, naming the innermost part that is invalid."""
        type_, value, place = field.type, field.default, ""
        while (inner_default := self._first_wrong(type_, value)) is not None:
            type_, value, step = inner_default
            place = f"{place}{step}"[:100]
        if self.steps > MAX_STEPS:
            return "the default is too large for the unions it belongs to"
        if isinstance(type_, Record) and isinstance(value, dict):
            missing_field = next(
                record_field
                for record_field in type_.fields
                if record_field.name not in value and not record_field.has_default
            )
            name = shown(missing_field.name)
            return f"the default{place} lacks {name}, which has no default of its own"
        return f"the default{place} is {shown(value)}, expected {_wanted(type_)}"

    def _first_wrong(self, type_: Type, value: Json) -> tuple[Type, Json, str] | None:
        inner_values: Iterable[tuple[Type, Json, str]] = ()
        match type_, value:
            case Array(), list():
                inner_values = (
                    (type_.items, item, f"[{index}]") for index, item in enumerate(value)
                )
            case Map(), dict():
                inner_values = (
                    (type_.values, item, f"[{shown(key)}]") for key, item in value.items()
                )
            case Record(), dict():
                present_fields = (
                    record_field for record_field in type_.fields if record_field.name in value
                )
                inner_values = (
                    (
                        record_field.type,
                        value[record_field.name],
                        f".{shown(record_field.name)[1:-1]}",
                    )
                    for record_field in present_fields
                )
        return next((part for part in inner_values if not self.fits(part[0], part[1])), None)

    def refuse_circles(self) -> None:
        """Rejects a default that omits a field whose default, in turn, omits the first field: such
        a default is infinite."""
        done_ids: set[int] = set()
        for start_id in self.left_out:
            path_ids: set[int] = set()
            pending_ids = [(start_id, False)]
            while pending_ids:
                field, is_left = pending_ids.pop()
                if is_left:
                    path_ids.discard(field)
                    done_ids.add(field)
                elif field in path_ids:
                    raise InvalidSchema(
                        "the default is infinite: it contains itself in a field that it omits",
                        self.where[field],
                    )
                elif field not in done_ids:
                    path_ids.add(field)
                    pending_ids.append((field, True))
                    pending_ids.extend(
                        (inner_id, False) for inner_id in self.left_out.get(field, ())
                    )


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
        branches = [
            branch.name.full if isinstance(branch, Named) else branch.kind
            for branch in type_.branches[:6]
        ]
        return f"a value of the union of {', '.join(branches)[:200] or 'nothing'}"
    return _WANTED[type_.kind]
