"""Reads and writes Kafka's primitive types.

A reader takes `(buffer, position)` and returns `(value, next position)`. Every length is checked
against the available bytes before anything is allocated for it, and an array has at most
`MAX_ELEMENTS`; violations are `ProtocolError`s. A writer takes `(out, value)` and appends.

Times are milliseconds, error codes `ErrorCode`, the zero UUID is None.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple
from uuid import UUID

from ground.varints import unsigned_varint
from wire.errors import ErrorCode, ProtocolError
from wire.framing.slices import FileSlice

Part = bytes | bytearray | memoryview | FileSlice


class MessageBuffer(bytearray):
    """A message being written, and the file slices between its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[tuple[int, FileSlice]] = []

    def parts(self) -> list[Part]:
        """Returns bytes and file slices in the order in which they are sent."""
        view, start = memoryview(self), 0
        parts: list[Part] = []
        for position, piece in self.slices:
            if start < position:
                parts.append(view[start:position])
            parts.append(piece)
            start = position
        if start < len(self):
            parts.append(view[start:])
        return parts


# Elements have many types; values are as typed as the schema that the reader was compiled from.
Reader = Callable[[memoryview, int], tuple[Any, int]]
Writer = Callable[[MessageBuffer, Any], None]

MAX_ELEMENTS = 100_000
ELEMENTS_OF_A_PIECE: Final = 64
_MOST_TAGS: Final = 100


class InPieces(NamedTuple):
    """A reader and a writer that yield after each piece, about ten microseconds' work, so that
    other tasks can run."""

    read: Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]
    write: Callable[[MessageBuffer, Any], Generator[None, None, None]]


_ZERO_UUID = UUID(int=0)
_ERROR_CODES = {int(code): code for code in ErrorCode}


def _number(layout: str) -> tuple[Reader, Writer]:
    packer = struct.Struct(layout)
    unpack_from, pack, size = packer.unpack_from, packer.pack, packer.size

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        try:
            return unpack_from(buffer, position)[0], position + size
        except struct.error:
            raise _underflow(buffer, position, size) from None

    def write(out: MessageBuffer, value: Any) -> None:
        out += pack(value)

    return read, write


read_bool, write_bool = _number(">?")
read_int8, write_int8 = _number(">b")
read_int16, write_int16 = _number(">h")
read_int32, write_int32 = _number(">i")
read_int64, write_int64 = _number(">q")
read_uint16, write_uint16 = _number(">H")
read_float64, write_float64 = _number(">d")


def read_unsigned_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while (byte := buffer[position]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            position += 1
            if shift > 28:
                raise ProtocolError(f"a varint at byte {position} is longer than five bytes")
    except IndexError:
        raise _underflow(buffer, position, 1) from None
    return value | byte << shift, position + 1


def write_unsigned_varint(out: MessageBuffer, value: int) -> None:
    out += unsigned_varint(value)


def read_uuid(buffer: memoryview, position: int) -> tuple[UUID | None, int]:
    raw = bytes(_take(buffer, position, 16))
    uuid = UUID(bytes=raw)
    return (None if uuid == _ZERO_UUID else uuid), position + 16


def write_uuid(out: MessageBuffer, value: UUID | None) -> None:
    out += (value or _ZERO_UUID).bytes


def read_error_code(buffer: memoryview, position: int) -> tuple[ErrorCode, int]:
    """Reads an error code; returns an unknown error for a code that is not known yet."""
    code, position = read_int16(buffer, position)
    return _ERROR_CODES.get(code, ErrorCode.unknown_server_error), position


write_error_code = write_int16


# Lengths come in two forms: a fixed-width integer with −1 for null, or, in flexible versions,
# a varint of the length plus one with 0 for null.


def _read_compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    length, position = read_unsigned_varint(buffer, position)
    return length - 1, position


def _write_compact_length(out: MessageBuffer, length: int) -> None:
    write_unsigned_varint(out, length + 1)


def _take(buffer: memoryview, position: int, length: int) -> memoryview:
    end = position + length
    if end > len(buffer):
        raise _underflow(buffer, position, length)
    return buffer[position:end]


def _sized(
    read_length: Reader,
    write_length: Writer,
    decode: Callable[[memoryview], Any],
    encode: Callable[[Any], bytes | memoryview],
    nullable: bool,
) -> tuple[Reader, Writer]:
    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            if nullable and length == -1:
                return None, position
            raise ProtocolError(f"invalid length {length} at byte {position}")
        return decode(_take(buffer, position, length)), position + length

    def write(out: MessageBuffer, value: Any) -> None:
        if value is None:
            if not nullable:
                raise TypeError("None is not allowed: the protocol has no null here")
            write_length(out, -1)
            return
        raw = encode(value)
        write_length(out, len(raw))
        out += raw

    return read, write


def _text(raw: memoryview) -> str:
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a string is not UTF-8: {error.reason}") from None


def string(*, flexible: bool, nullable: bool) -> tuple[Reader, Writer]:
    lengths = _COMPACT if flexible else (read_int16, write_int16)
    return _sized(*lengths, _text, str.encode, nullable)


def byte_string(*, flexible: bool, nullable: bool) -> tuple[Reader, Writer]:
    return _sized(*_lengths(flexible), bytes, lambda value: value, nullable)


def record_bytes(*, flexible: bool, nullable: bool) -> tuple[Reader, Writer]:
    """Reads and writes record batches without copying: reading returns a view of the buffer,
    writing accepts a slice of a file."""
    read, write_bytes = _sized(
        *_lengths(flexible), lambda view: view, lambda value: value, nullable
    )
    _, write_length = _lengths(flexible)

    def write(out: MessageBuffer, value: FileSlice | bytes | memoryview | None) -> None:
        if isinstance(value, FileSlice):
            write_length(out, value.length)
            out.slices.append((len(out), value))
        else:
            write_bytes(out, value)

    return read, write


def array(
    element: tuple[Reader, Writer], *, flexible: bool, nullable: bool
) -> tuple[Reader, Writer]:
    read_count, write_count = _counts(flexible=flexible, nullable=nullable)
    read_element, write_element = element

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_count(buffer, position)
        if count is None:
            return None, position
        elements = []
        for _ in range(count):
            value, position = read_element(buffer, position)
            elements.append(value)
        return tuple(elements), position

    def write(out: MessageBuffer, values: Any) -> None:
        write_count(out, values)
        for value in values or ():
            write_element(out, value)

    return read, write


def array_in_pieces(
    element: tuple[Reader, Writer],
    element_in_pieces: InPieces | None,
    *,
    flexible: bool,
    nullable: bool,
) -> InPieces:
    """Does what `array` does, in pieces; elements with arrays are also read and written in
    pieces."""
    read_count, write_count = _counts(flexible=flexible, nullable=nullable)
    read_element, write_element = element

    def read(buffer: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        count, position = read_count(buffer, position)
        if count is None:
            return None, position
        elements = []
        for index in range(1, count + 1):
            if element_in_pieces is None:
                value, position = read_element(buffer, position)
            else:
                value, position = yield from element_in_pieces.read(buffer, position)
            elements.append(value)
            if not index % ELEMENTS_OF_A_PIECE:
                yield
        return tuple(elements), position

    def write(out: MessageBuffer, values: Any) -> Generator[None, None, None]:
        write_count(out, values)
        for index, value in enumerate(values or (), 1):
            if element_in_pieces is None:
                write_element(out, value)
            else:
                yield from element_in_pieces.write(out, value)
            if not index % ELEMENTS_OF_A_PIECE:
                yield

    return InPieces(read, write)


def _counts(*, flexible: bool, nullable: bool) -> tuple[Reader, Writer]:
    """Returns reader and writer of an array's number of elements."""
    read_length, write_length = _lengths(flexible)

    def read(buffer: memoryview, position: int) -> tuple[int | None, int]:
        count, position = read_length(buffer, position)
        if count < 0:
            if nullable and count == -1:
                return None, position
            raise ProtocolError(f"invalid array length {count} at byte {position}")
        # Every element takes at least a byte.
        if count > MAX_ELEMENTS or count > len(buffer) - position:
            raise ProtocolError(f"invalid array length {count} at byte {position} of {len(buffer)}")
        return count, position

    def write(out: MessageBuffer, values: Any) -> None:
        if values is None and not nullable:
            raise TypeError("None is not allowed: the protocol has no null here")
        write_length(out, -1 if values is None else len(values))

    return read, write


def nullable_structure(structure: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    """Reads and writes a structure that may be null: a negative byte represents null; any other
    precedes the structure."""
    read_structure, write_structure = structure

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        presence, position = read_int8(buffer, position)
        return (None, position) if presence < 0 else read_structure(buffer, position)

    def write(out: MessageBuffer, value: Any) -> None:
        write_int8(out, -1 if value is None else 1)
        if value is not None:
            write_structure(out, value)

    return read, write


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    count, position = read_unsigned_varint(buffer, position)
    if count > _MOST_TAGS:
        raise ProtocolError(
            f"{count} tagged fields at byte {position}, at most {_MOST_TAGS} are accepted"
        )
    return count, position


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """Skips tagged fields, all of which are unknown."""
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += len(_take(buffer, position, size))
    return position


def _lengths(flexible: bool) -> tuple[Reader, Writer]:
    return _COMPACT if flexible else (read_int32, write_int32)


_COMPACT: tuple[Reader, Writer] = (_read_compact_length, _write_compact_length)


def _underflow(buffer: memoryview, position: int, expected: int) -> ProtocolError:
    return ProtocolError(
        f"the message ends at byte {len(buffer)}, {expected} more expected at byte {position}"
    )
