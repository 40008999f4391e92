"""Reads Avro bytes into Arrow, in the raw form, with `_avro_columns.c`.

Not for schemas that contain themselves, are very wide or deep, or have lists of items without
bytes, which may claim any length. If the module is not compiled, for no schema.

Records of a batch are read in place, without headers and keys, and only the wanted fields of a
schema. All are read or none: if one is invalid, or only larger than is read this way, the caller
reads them one by one, two hundred times as slowly.
"""

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from columns.raw_form import (
    ENTRY,
    KEY,
    RAW_PRIMITIVES,
    branch_name,
    field_name,
    nullable_branch,
)
from ground.varints import long_at
from schemas.definitions.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union
from wire.record_batches.batch import BatchHeader

try:
    from columns._avro_columns import Reader
except ImportError:
    NATIVE = False
else:
    NATIVE = True

NOT_COMPILED: Final = (
    "columns/_avro_columns.c is not compiled, so Avro is read value by value, which takes over "
    "twenty times the processor time; install a C compiler and Python's headers (gcc, "
    "python3-dev), and then Penstock again"
)
MOST_BYTES: Final = 1024 * 1024 * 1024  # of Arrow, for a batch
MOST_NODES: Final = 10_000
MOST_DEPTH: Final = 100
_START: Final = 4096  # the first body of a batch must begin within as many bytes

Node: TypeAlias = tuple[int, bool, int, int, tuple[Any, ...]]


class NotNative(Exception):
    """The error for a schema that cannot be read natively."""


class Rows(msgspec.Struct, frozen=True):
    """The contents of a batch: offsets and times of its records, and the bodies in raw form."""

    offsets: pa.Int64Array
    times: pa.Int64Array  # milliseconds
    bodies: pa.Array


class NativeReader:
    """Reads values of one schema; fields that `raw` lacks are skipped. Raises `NotNative`."""

    def __init__(self, writer: Type, raw: pa.DataType) -> None:
        if not NATIVE:
            raise NotNative
        body = _NodeBuilder().of(writer, raw, 0)
        number_node = (_Kind.LONG, True, _NO_BRANCH, 0, ())
        self._reader = Reader((_Kind.RECORD, True, _NO_BRANCH, 0, (number_node, number_node, body)))
        self._raw = raw
        self._placed = pa.struct([("offset", pa.int64()), ("time", pa.int64()), ("body", raw)])

    def batch(
        self, header: BatchHeader, unpacked: bytes | memoryview, schema_id: int
    ) -> Rows | None:
        """Reads all records of a batch. None unless all have this schema and ascending offsets."""
        base_values = (header.base_offset, header.base_timestamp, header.last_offset_delta)
        arrays = self._reader.records(
            unpacked, header.record_count, schema_id, base_values, MOST_BYTES
        )
        if arrays is None:
            return None
        records = pa.array(_ArrowArray(self._placed, arrays))
        offsets, times, bodies = (records.field(index) for index in range(3))
        if header.is_append_time:
            times = pa.repeat(pa.scalar(header.max_timestamp, pa.int64()), len(records))
        return Rows(offsets, times, bodies)

    def records(self, count: int, unpacked: bytes | memoryview, schema_id: int) -> pa.Array | None:
        """Reads the bodies of `count` records, which may be from several batches."""
        return self._array(self._reader.records(unpacked, count, schema_id, None, MOST_BYTES))

    def bodies(self, messages: list[bytes], first: int, end: int, room: int) -> pa.Array | int:
        """Reads the bodies of messages in the envelope, whatever their ids, into at most `room`
        bytes of Arrow. Also returns the index of the first message that cannot be read, if any."""
        arrays = self._reader.bodies(messages, first, end, room)
        return arrays if isinstance(arrays, int) else self._array(arrays)

    def _array(self, array: Any) -> pa.Array | None:
        return None if array is None else pa.array(_ArrowArray(self._raw, array))


def first_schema_id(unpacked: bytes | memoryview) -> int | None:
    """Returns the schema id of a batch's first record; None if it has none."""
    start = bytes(unpacked[:_START])
    try:
        position = long_at(start, 0)[1] + 1  # length, attributes
        position = long_at(start, long_at(start, position)[1])[1]  # timestamp, offset
        key_length, position = long_at(start, position)
        position = long_at(start, position + max(key_length, 0))[1]  # key, the value's length
        if start[position] or len(start) < position + 5:
            return None
    except (IndexError, ValueError):
        return None
    return int.from_bytes(start[position + 1 : position + 5], "big")


class _ArrowArray:
    """Passes an array of the extension to pyarrow, through Arrow's C data interface."""

    def __init__(self, type_: pa.DataType, array: Any) -> None:
        self._type = type_
        self._array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._type.__arrow_c_schema__(), self._array


class _Kind(IntEnum):
    """The kinds of nodes, numbered as in `_avro_columns.c`."""

    NOTHING = 0
    BOOLEAN = auto()
    INT = auto()
    LONG = auto()
    FLOAT = auto()
    DOUBLE = auto()
    BYTES = auto()
    STRING = auto()
    FIXED = auto()
    ENUM = auto()
    LIST = auto()
    RECORD = auto()
    UNION = auto()


_NO_BRANCH: Final = -1
_PRIMITIVES: Final = {
    "null": _Kind.NOTHING,
    "boolean": _Kind.BOOLEAN,
    "int": _Kind.INT,
    "long": _Kind.LONG,
    "float": _Kind.FLOAT,
    "double": _Kind.DOUBLE,
    "bytes": _Kind.BYTES,
    "string": _Kind.STRING,
}
_TEXT: Final = Primitive("string", {})


class _NodeBuilder:
    """Builds nodes. `raw` is the required part of a type in the raw form; None if the value is
    skipped. The nodes must produce that form, since Arrow does not check it."""

    def __init__(self) -> None:
        self._nodes = 0
        self._open: set[int] = set()

    def of(
        self, type_: Type, raw: pa.DataType | None, depth: int, branch: int = _NO_BRANCH
    ) -> Node:
        self._nodes += 1
        if self._nodes > MOST_NODES or depth > MOST_DEPTH:
            raise NotNative
        is_kept = raw is not None
        match type_:
            case Primitive():
                _expect(raw, RAW_PRIMITIVES[type_.kind])
                return (_PRIMITIVES[type_.kind], is_kept, branch, 0, ())
            case Fixed():
                _expect(raw, pa.binary())
                return (_Kind.FIXED, is_kept, branch, type_.size, ())
            case Enum():
                _expect(raw, pa.string())
                symbols = tuple(symbol.encode() for symbol in type_.symbols)
                return (_Kind.ENUM, is_kept, branch, 0, symbols)
            case Array():
                items = self.of(type_.items, _inside(raw), depth + 1)
                if _takes_nothing(items):
                    raise NotNative
                return (_Kind.LIST, is_kept, branch, 0, (items,))
            case Map():
                fields = [(KEY, _TEXT), (ENTRY, type_.values)]
                items = (
                    _Kind.RECORD,
                    is_kept,
                    _NO_BRANCH,
                    0,
                    self._parts(fields, _inside(raw), depth + 1),
                )
                return (_Kind.LIST, is_kept, branch, 0, (items,))
            case Union() if (nullable_index := nullable_branch(type_)) is not None:
                return self.of(type_.branches[nullable_index], raw, depth, nullable_index)
            case Union():
                members = [
                    (branch_name(index), branch_type)
                    for index, branch_type in enumerate(type_.branches)
                ]
                return (_Kind.UNION, is_kept, branch, 0, self._parts(members, raw, depth))
            case Record():
                if id(type_) in self._open:
                    raise NotNative
                self._open.add(id(type_))
                fields = [
                    (field_name(index), field.type) for index, field in enumerate(type_.fields)
                ]
                parts = self._parts(fields, raw, depth)
                self._open.remove(id(type_))
                return (_Kind.RECORD, is_kept, branch, 0, parts)
        raise NotNative

    def _parts(
        self, parts: Sequence[tuple[str, Type]], raw: pa.DataType | None, depth: int
    ) -> tuple[Node, ...]:
        raw_parts = {} if raw is None else {field.name: field.type for field in raw}
        if list(raw_parts) != [name for name, _ in parts if name in raw_parts]:
            raise ValueError(f"{raw} is not the raw form of {[name for name, _ in parts]}")
        return tuple(self.of(type_, raw_parts.get(name), depth + 1) for name, type_ in parts)


def _expect(raw: pa.DataType | None, expected: pa.DataType) -> None:
    if raw is not None and raw != expected:
        raise ValueError(f"{raw} is not the raw form {expected}")


def _takes_nothing(node: Node) -> bool:
    kind, _, branch, size, parts = node
    if branch != _NO_BRANCH:
        return False
    is_empty = kind is _Kind.NOTHING or (kind is _Kind.FIXED and not size)
    return is_empty or (kind is _Kind.RECORD and all(map(_takes_nothing, parts)))


def _inside(lists: pa.DataType | None) -> pa.DataType | None:
    return None if lists is None else lists.value_type
