"""Validates that bytes are a value of a schema, before fastavro reads them.

A body comes from the network, and fastavro trusts it: it follows recursive types until the process
dies, allocates lists of as many nulls as a five-byte count claims, and takes branch -1 of a union
for the last one. So a body is walked first, without building a value:

1. Numbers are within the length and range of their type; booleans are 0 or 1.
2. Lengths and counts fit into the available bytes, blocks have their declared size; branches and
   symbols exist.
3. Recursion is limited to `MOST_LEVELS`. Items of arrays and maps, and values that take no bytes,
   are limited to `MOST_ITEMS` per message.
4. The value ends where the message ends.

fastavro can read what passes, except for strings that are not UTF-8, which it rejects itself: they
are checked here only if the body is not decoded afterwards (`text`). A `BodyCheck` keeps counters
while it walks, so two threads must not use it at once.
"""

from collections.abc import Callable
from typing import Final

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
from schemas.errors import BadMessage

MOST_BYTES: Final = 16 * 1024 * 1024
MOST_ITEMS: Final = 1_000_000
MOST_LEVELS: Final = 64

Skip = Callable[[bytes, int], int]


class BodyCheck:
    """Validates bodies of one type, for which it is compiled once."""

    def __init__(self, type_: Type, *, text: bool = False) -> None:
        """`text`: check that strings are UTF-8, too."""
        self._skip_string = _skip_text if text else _skip_bytes
        self._weights: dict[int, int] = {}
        self._skips: dict[int, Skip] = {}
        self._items = self._levels = 0
        self._skip = self._compiled(type_)

    def check(self, message: bytes, start: int) -> None:
        """Raises BadMessage unless the bytes from `start` on are exactly one value."""
        end = self.end_of(message, start)
        if end < len(message):
            raise BadMessage(
                f"the value ends before byte {end}, but the message has {len(message)} bytes"
            )

    def end_of(self, data: bytes, start: int) -> int:
        """Returns the end of the value that begins at `start`; more data may follow."""
        self._items = self._levels = 0
        size = len(data)
        try:
            end = self._skip(data, start)
        except IndexError:
            end = size + 1
        except RecursionError:
            raise BadMessage("the value is nested too deeply") from None
        if end > size:
            raise BadMessage(f"the data is truncated: the value does not end within {size} bytes")
        return end

    def _compiled(self, type_: Type) -> Skip:
        match type_:
            case Primitive(kind="string"):
                return self._skip_string
            case Primitive():
                return _PRIMITIVES[type_.kind]
            case Union():
                return _union([self._compiled(branch) for branch in type_.branches])
            case Array():
                return self._blocks(type_.items)
            case Map():
                return self._blocks(type_.values, with_keys=True)
        if id(type_) not in self._skips:
            self._skips[id(type_)] = self._later(type_)  # for references within itself
            self._skips[id(type_)] = self._definition(type_)
        return self._skips[id(type_)]

    def _definition(self, type_: Definition) -> Skip:
        match type_:
            case Enum():
                return _enum(len(type_.symbols))
            case Fixed():
                return _fixed(type_.size)
            case Record():
                return self._record(type_)

    def _later(self, type_: Definition) -> Skip:
        def skip(message: bytes, position: int) -> int:
            if self._levels == MOST_LEVELS:
                raise BadMessage(
                    f"byte {position}: the value is nested more than {MOST_LEVELS} levels deep"
                )
            self._levels += 1
            position = self._skips[id(type_)](message, position)
            self._levels -= 1
            return position

        return skip

    def _record(self, record: Record) -> Skip:
        fields = [
            (self._compiled(field.type), self._weight_of(field.type)) for field in record.fields
        ]
        skips = [skip for skip, weight in fields if not weight]
        total = sum(weight for _, weight in fields)

        def skip(message: bytes, position: int) -> int:
            for skip_field in skips:
                position = skip_field(message, position)
            return position

        def skip_and_count(message: bytes, position: int) -> int:
            self._count(total)
            return skip(message, position)

        return skip_and_count if total else skip

    def _blocks(self, of: Type, *, with_keys: bool = False) -> Skip:
        skip_item = self._compiled(of)
        skip_key = self._skip_string
        weight = 0 if with_keys else self._weight_of(of)

        def skip(message: bytes, position: int) -> int:
            while True:
                count, position = read_long(message, position)
                if count == 0:
                    return position
                end = None
                if count < 0:
                    count = -count
                    size, position = read_long(message, position)
                    end = position + size
                if weight:
                    self._count(count * weight)
                elif count > len(message) - position:
                    raise BadMessage(
                        f"byte {position}: {count} items do not fit into the rest of the message"
                    )
                else:
                    self._count(count)
                    for _ in range(count):
                        if with_keys:
                            position = skip_key(message, position)
                        position = skip_item(message, position)
                if end is not None and end != position:
                    raise BadMessage(f"byte {position}: the block should end at byte {end}")

        return skip

    def _count(self, items: int) -> None:
        self._items += items
        if self._items > MOST_ITEMS:
            raise BadMessage(f"the value has more than {MOST_ITEMS:,} items")

    def _weight_of(self, type_: Type) -> int:
        """The number of values in one value of the type if it takes no bytes, otherwise 0."""
        match type_:
            case Primitive():
                return int(type_.kind == "null")
            case Fixed():
                return int(type_.size == 0)
            case Record():
                if id(type_) not in self._weights:
                    self._weights[id(type_)] = 0  # a record within itself has no finite value
                    weights = [self._weight_of(field.type) for field in type_.fields]
                    self._weights[id(type_)] = 1 + sum(weights) if all(weights) else 0
                return self._weights[id(type_)]
        return 0


def read_long(message: bytes, position: int) -> tuple[int, int]:
    """Reads a number; returns it and its end position."""
    byte = message[position]
    position += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift == 70 and byte > 1:
            raise BadMessage(f"byte {position - 1}: the number has more than 64 bits")
    return value >> 1 ^ -(value & 1), position


def _skip_long(message: bytes, position: int) -> int:
    start = position
    while message[position] >= 0x80:
        position += 1
    if position - start >= 9 and (position - start > 9 or message[position] > 1):
        raise BadMessage(f"byte {start}: the number has more than 64 bits")
    return position + 1


def _skip_int(message: bytes, position: int) -> int:
    start = position
    while message[position] >= 0x80:
        position += 1
    if position - start >= 4 and (position - start > 4 or message[position] > 0x0F):
        raise BadMessage(f"byte {start}: the number has more than 32 bits")
    return position + 1


def _skip_bytes(message: bytes, position: int) -> int:
    byte = message[position]
    if byte < 0x80 and not byte & 1:
        return position + 1 + (byte >> 1)
    length, body_start = read_long(message, position)
    if length < 0:
        raise BadMessage(f"byte {position}: {length} is not a length")
    return body_start + length


def _skip_text(message: bytes, position: int) -> int:
    length, start = read_long(message, position)
    if length < 0:
        raise BadMessage(f"byte {position}: {length} is not a length")
    end = start + length
    if end > len(message):
        raise IndexError
    try:
        message[start:end].decode()
    except UnicodeDecodeError as error:
        raise BadMessage(f"byte {position}: a string is not UTF-8: {error}") from None
    return end


def _skip_boolean(message: bytes, position: int) -> int:
    if message[position] > 1:
        raise BadMessage(f"byte {position}: {message[position]} is not a boolean")
    return position + 1


def _fixed(size: int) -> Skip:
    return lambda _message, position: position + size


def _enum(symbols: int) -> Skip:
    def skip(message: bytes, position: int) -> int:
        index, body_start = read_long(message, position)
        if not 0 <= index < symbols:
            raise BadMessage(f"byte {position}: there is no symbol {index}")
        return body_start

    return skip


def _union(branches: list[Skip]) -> Skip:
    def skip(message: bytes, position: int) -> int:
        index, body_start = read_long(message, position)
        if not 0 <= index < len(branches):
            raise BadMessage(f"byte {position}: there is no branch {index}")
        return branches[index](message, body_start)

    return skip


_PRIMITIVES: Final[dict[str, Skip]] = {
    "null": _fixed(0),
    "boolean": _skip_boolean,
    "int": _skip_int,
    "long": _skip_long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _skip_bytes,
}
