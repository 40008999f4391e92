"""Values written as Avro bodies, by functions compiled from a schema.

fastavro's writer takes longer, and writes what it should refuse: 3,000,000,000 as an `int`, which
no reader takes; "no" as the boolean true; "abc" as an array of three strings. A value that is
nested without end ends the process. Here:

1. A value is of its type exactly: numbers are in range, booleans are booleans, a record has no
   field that its schema does not have. Fields that are missing have their default.
2. In a union the first branch is taken that a value fits; but a whole number is an integer before
   it is floating, and a floating one a double before it is a float.
3. Recursive types are written `MOST_LEVELS` deep, as deep as they are read, and branches are tried
   `MOST_TRIES` times in one value.

A value that is not of the type shows as one of `REFUSALS`; a part of it may have been written.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ground.varints import long_bytes, write_long
from schemas.bodies.checking import MOST_LEVELS
from schemas.bodies.primitives import (
    PRIMITIVE_WRITERS,
    Write,
    enum_writer,
    fixed_writer,
    write_string,
)
from schemas.definitions.default_values import default_value
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
)

MOST_TRIES: Final = 1_000

_Field = tuple[str, Write, bytes | None]  # the last is the default, written


class Undecided(Exception):
    """Too many branches were tried in vain."""


_NO_FIT = (
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError),
    struct.error,
)
REFUSALS: Final = (*_NO_FIT, Undecided)

# What a union takes first for a value of this kind.
_KINDS: Final[dict[type, tuple[tuple[str, ...], ...]]] = {
    type(None): (("null",),),
    bool: (("boolean",),),
    int: (("int", "long"), ("double",), ("float",)),
    float: (("double",), ("float",)),
    str: (("string", "enum"),),
    bytes: (("bytes", "fixed"),),
    list: (("array",),),
    dict: (("record", "map"),),
}


class BodyWriter:
    """Made once for a type. Not to be used by two threads at once."""

    def __init__(self, type_: Type) -> None:
        self._writes: dict[int, Write] = {}
        self._defaults: list[tuple[list[_Field], int, Any]] = []
        self._levels = self._tries = 0
        self._write = self._compiled(type_)
        for fields, place, default in self._defaults:
            name, write, _ = fields[place]
            body = bytearray()
            write(body, default)
            fields[place] = name, write, bytes(body)

    def write(self, out: bytearray, value: Any) -> None:
        """Appends the body of a value."""
        self._tries = 0
        self._write(out, value)

    def _compiled(self, type_: Type) -> Write:
        match type_:
            case Primitive():
                return PRIMITIVE_WRITERS[type_.kind]
            case Union():
                return self._union(type_.branches)
            case Array():
                return _array(self._compiled(type_.items))
            case Map():
                return _map(self._compiled(type_.values))
        if id(type_) not in self._writes:
            self._writes[id(type_)] = self._later(type_)  # as it is met within itself
            self._writes[id(type_)] = self._definition(type_)
        return self._writes[id(type_)]

    def _definition(self, type_: Definition) -> Write:
        match type_:
            case Enum():
                return enum_writer(type_.symbols)
            case Fixed():
                return fixed_writer(type_.size)
            case Record():
                return self._record(type_)

    def _later(self, type_: Definition) -> Write:
        def write(out: bytearray, value: Any) -> None:
            if self._levels == MOST_LEVELS:
                raise RecursionError
            self._levels += 1
            try:
                self._writes[id(type_)](out, value)
            finally:
                self._levels -= 1

        return write

    def _record(self, record: Record) -> Write:
        fields: list[_Field] = []
        for place, field in enumerate(record.fields):
            fields.append((field.name, self._compiled(field.type), None))
            if field.has_default:
                self._defaults.append((fields, place, default_value(field)))

        def write(out: bytearray, value: Any) -> None:
            expected = len(fields)
            if not expected and not isinstance(value, Mapping):
                raise TypeError("no record")
            for name, write_field, default in fields:
                try:
                    item = value[name]
                except KeyError:
                    if default is None:
                        raise
                    out += default
                    expected -= 1
                else:
                    write_field(out, item)
            if len(value) != expected:
                raise ValueError("a field that is not in the schema")

        return write

    def _union(self, types: Sequence[Type]) -> Write:
        branches = [
            (each.kind, long_bytes(index), self._compiled(each)) for index, each in enumerate(types)
        ]
        kinds = [kind for kind, _, _ in branches]
        if len(kinds) == 2 and "null" in kinds:
            null = kinds.index("null")
            return _nullable(branches[null][1], *branches[1 - null][1:])
        by_class = {
            class_: [
                (prefix, write)
                for each in ranks
                for kind, prefix, write in branches
                if kind in each
            ]
            for class_, ranks in _KINDS.items()
        }

        def write(out: bytearray, value: Any) -> None:
            fitting = by_class.get(value.__class__)
            if fitting is None:
                fitting = by_class[_plain_class(value)]
            start = len(out)
            for prefix, write_branch in fitting:
                try:
                    out += prefix
                    write_branch(out, value)
                except _NO_FIT:
                    del out[start:]
                    self._tries += 1
                    if self._tries > MOST_TRIES:
                        raise Undecided from None
                else:
                    return
            raise ValueError("no branch")

        return write


def _plain_class(value: Any) -> type:
    """The class of `_KINDS` that a value of another class counts as."""
    if isinstance(value, (bytearray, memoryview)):
        return bytes
    if isinstance(value, (tuple, array)):
        return list
    if isinstance(value, Mapping):
        return dict
    for class_ in _KINDS:
        if isinstance(value, class_):
            return class_
    raise TypeError(type(value).__name__)


def _array(write_item: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, list | tuple | array):
            raise TypeError("no array")
        if value:
            write_long(out, len(value))
            for item in value:
                write_item(out, item)
        out.append(0)

    return write


def _map(write_value: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value:
            write_long(out, len(value))
            for key, item in value.items():
                write_string(out, key)
                write_value(out, item)
        elif not isinstance(value, Mapping):
            raise TypeError("no map")
        out.append(0)

    return write


def _nullable(null_prefix: bytes, prefix: bytes, write_other: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += null_prefix
        else:
            out += prefix
            write_other(out, value)

    return write
