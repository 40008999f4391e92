"""Avro's bytes into Arrow by pyruhvro, in the raw form, for schemas of which it reads every value.

It ends the thread (a Rust panic) on bytes, fixed and most logical types, cuts an `int` off at 32
bits, makes as many nulls as five bytes claim, and does not look whether a string is UTF-8. So it is
given schemas without logical types, with `long` for `int`, `string` for `bytes`, floating numbers
for `fixed`, and none that has what it cannot do. Conversions look at the values. What it gives back
is bounded before it is asked, by how many columns there are for a byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyruhvro

from columns.raw_form import ENTRY, KEY, field_name
from schemas.definitions.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union

MOST_COLUMNS: Final = 5_000
MOST_FIXED: Final = 64  # bytes of a fixed type
MOST_BYTES: Final = 1024 * 1024 * 1024  # of Arrow, from one call
_LEAF = 8  # bytes of a value, about: what text and lists point to comes from the bytes read

_READ_AS: Final = {
    "null": "null",
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "string",
    "string": "string",
}
_LEAST: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}


class NotNative(Exception):
    """The schema is none for pyruhvro."""


@dataclass(frozen=True, slots=True)
class NativeType:
    """A type as pyruhvro is given it. `width`: the bytes of Arrow for one value. `least`: the bytes
    that a value takes at least. `spread`: the most bytes of Arrow for a byte read, in lists."""

    json: Any
    width: int
    least: int
    spread: float


def native_type(type_: Type) -> NativeType:
    """Raises `NotNative`."""
    return _Making().of(type_)


def read(data: bytes, schema: str) -> pa.RecordBatch | None:
    """The one record that the bytes begin with; None if there is none."""
    try:
        return pyruhvro.deserialize_array([data], schema)
    except (ValueError, OverflowError):  # of which UnicodeDecodeError is one
        return None


class _Making:
    def __init__(self) -> None:
        self._columns = self._names = 0
        self._known: dict[int, NativeType] = {}
        self._open: set[int] = set()

    def of(self, type_: Type) -> NativeType:
        self._columns += 1
        if self._columns > MOST_COLUMNS:
            raise NotNative
        match type_:
            case Primitive() if type_.kind in _READ_AS:
                return NativeType(_READ_AS[type_.kind], _LEAF, _LEAST[type_.kind], 0)
            case Array():
                return self._list(self.of(type_.items))
            case Map():
                values = self.of(type_.values)
                key, entry = (KEY, NativeType("string", _LEAF, 1, 0)), (ENTRY, values)
                return self._list(self._record([key, entry]))
            case Union():
                return self._union(type_)
            case Enum():
                return self._enum(type_)
            case Fixed() if 0 < type_.size <= MOST_FIXED and type_.size % 4 == 0:
                return self._fixed(type_.size)
            case Record() if type_.fields:
                return self._written_once(type_)
        raise NotNative

    def _list(self, items: NativeType) -> NativeType:
        if not items.least:
            raise NotNative
        spread = max(items.spread, items.width / items.least)
        return NativeType({"type": "array", "items": items.json}, _LEAF, 1, spread)

    def _union(self, union: Union) -> NativeType:
        branches = [self.of(branch) for branch in union.branches]
        kinds = [_READ_AS.get(branch.kind, branch.kind) for branch in union.branches]
        unnamed = [kind for kind in kinds if kind not in {"enum", "fixed", "record"}]
        if not branches or len(unnamed) != len(set(unnamed)):
            raise NotNative
        least = 1 + min(branch.least for branch in branches)
        width = sum(branch.width for branch in branches) + 1
        spread = max(branch.spread for branch in branches)
        return NativeType([branch.json for branch in branches], width, least, spread)

    def _fixed(self, size: int) -> NativeType:
        """A record of numbers that are taken as they are, eight bytes or four at a time."""
        of, each = ("double", 8) if size % 8 == 0 else ("float", 4)
        part = NativeType(of, _LEAF, each, 0)
        return self._record([(field_name(at), part) for at in range(size // each)])

    def _enum(self, enum: Enum) -> NativeType:
        if id(enum) in self._known:
            return self._known[id(enum)]
        name = self._name()
        self._known[id(enum)] = NativeType(name, _LEAF, 1, 0)
        made = {"type": "enum", "name": name, "symbols": list(enum.symbols)}
        return NativeType(made, _LEAF, 1, 0)

    def _written_once(self, record: Record) -> NativeType:
        if id(record) in self._known:
            return self._known[id(record)]
        if id(record) in self._open:
            raise NotNative
        self._open.add(id(record))
        fields = [(field_name(at), self.of(each.type)) for at, each in enumerate(record.fields)]
        made = self._record(fields)
        self._known[id(record)] = replace(made, json=made.json["name"])
        return made

    def _record(self, fields: Sequence[tuple[str, NativeType]]) -> NativeType:
        return NativeType(
            {
                "type": "record",
                "name": self._name(),
                "fields": [{"name": name, "type": each.json} for name, each in fields],
            },
            sum(each.width for _, each in fields) + 1,
            sum(each.least for _, each in fields),
            max(each.spread for _, each in fields),
        )

    def _name(self) -> str:
        self._names += 1
        return f"N{self._names}"
