"""Encodes and decodes messages of any supported version.

Rule 1: kio's generated classes describe each version on the wire: its fields, their order and
        types. They are read as a schema, once per message and version, on first use.

Rule 2: Penstock's own classes in `wire/messages` are the superset of all supported versions, with
        the same field names. A field that a version lacks gets its default in decoding, and is
        omitted in encoding. So handlers need not know the version.

Rule 3: any bytes either become one message or raise `ProtocolError`. Bytes after a response are an
        error. Bytes after a request are not, as in Kafka: librdkafka writes "all topics" of
        Metadata as four zero bytes instead of one, which leaves three over.

Rule 4: a field of Penstock's own has a `Tag` of at least 10,000, which Kafka's clients skip. It is
        sent in versions with tagged fields.

Rule 5: messages with many elements can be read and written in pieces (`…_in_pieces`).

kio's own reader is not used: it allocates what an array's count claims before it checks the bytes,
and a count of 2³¹−1 aborts the process.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Generator
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from wire.errors import ProtocolError
from wire.framing import primitives
from wire.framing.primitives import InPieces, MessageBuffer, Reader, Writer
from wire.kio_schemas import request_schema, response_schema

Request = TypeVar("Request")
Response = TypeVar("Response")

_FIXED_WIDTH: dict[str, tuple[Reader, Writer]] = {
    "bool": (primitives.read_bool, primitives.write_bool),
    "int8": (primitives.read_int8, primitives.write_int8),
    "int16": (primitives.read_int16, primitives.write_int16),
    "int32": (primitives.read_int32, primitives.write_int32),
    "int64": (primitives.read_int64, primitives.write_int64),
    "uint16": (primitives.read_uint16, primitives.write_uint16),
    "float64": (primitives.read_float64, primitives.write_float64),
    "uuid": (primitives.read_uuid, primitives.write_uuid),
    "error_code": (primitives.read_error_code, primitives.write_error_code),
    "timedelta_i32": (primitives.read_int32, primitives.write_int32),
    "timedelta_i64": (primitives.read_int64, primitives.write_int64),
    "datetime_i64": (primitives.read_int64, primitives.write_int64),
}
_SIZED: dict[str, Callable[..., tuple[Reader, Writer]]] = {
    "string": primitives.string,
    "bytes": primitives.byte_string,
    "records": primitives.record_bytes,
}


class Tag(NamedTuple):
    """Marks a string field that only Penstock knows: `state: Annotated[str, Tag(10_000)] = ""`."""

    number: int


@dataclass(frozen=True, eq=False)
class Api(Generic[Request, Response]):
    """One of Kafka's APIs: its key, the supported versions, and its two messages."""

    key: int
    name: str
    versions: range
    request: type[Request]
    response: type[Response]
    _request_codecs: dict[int, tuple[Reader, Writer]] = dataclasses.field(
        default_factory=dict, repr=False
    )
    _response_codecs: dict[int, tuple[Reader, Writer]] = dataclasses.field(
        default_factory=dict, repr=False
    )

    def decode_request(self, version: int, body: memoryview) -> Request:
        read, _ = self._request_codec(version)
        return self.levelled(version, read(body, 0)[0])

    def decode_request_in_pieces(
        self, version: int, body: memoryview
    ) -> Generator[None, None, Request]:
        in_pieces = entity_in_pieces(request_schema(self.key, version), self.request)
        if in_pieces is None:
            return self.decode_request(version, body)
        request, _ = yield from in_pieces.read(body, 0)
        return self.levelled(version, request)

    def levelled(self, version: int, request: Request) -> Request:
        """Converts an older version's request to the newest version's form."""
        return request

    def encode_request(self, version: int, request: Request) -> MessageBuffer:
        out = MessageBuffer()
        self._request_codec(version)[1](out, request)
        return out

    def decode_response(self, version: int, body: memoryview) -> Response:
        read, _ = self._response_codec(version)
        response: Response
        response, end = read(body, 0)
        if end != len(body):
            raise ProtocolError(f"{len(body) - end} bytes after the end of the message")
        return response

    def encode_response(self, version: int, response: Response) -> MessageBuffer:
        out = MessageBuffer()
        self._response_codec(version)[1](out, self.lowered(version, response))
        return out

    def encode_response_in_pieces(
        self, version: int, response: Response
    ) -> Generator[None, None, MessageBuffer]:
        in_pieces = entity_in_pieces(response_schema(self.key, version), self.response)
        if in_pieces is None:
            return self.encode_response(version, response)
        out = MessageBuffer()
        yield from in_pieces.write(out, self.lowered(version, response))
        return out

    def lowered(self, version: int, response: Response) -> Response:
        """Converts a response to an older version's form."""
        return response

    def _request_codec(self, version: int) -> tuple[Reader, Writer]:
        codec = self._request_codecs.get(version)
        if codec is None:
            codec = entity(request_schema(self.key, version), self.request)
            self._request_codecs[version] = codec
        return codec

    def _response_codec(self, version: int) -> tuple[Reader, Writer]:
        codec = self._response_codecs.get(version)
        if codec is None:
            codec = entity(response_schema(self.key, version), self.response)
            self._response_codecs[version] = codec
        return codec

    def is_flexible(self, version: int) -> bool:
        """Returns whether request and response of this version have tagged fields."""
        return version >= self._first_flexible

    @cached_property
    def _first_flexible(self) -> int:
        """Once flexible, an API stays so: bisection loads the schemas of a few versions, not of
        all. Each is a kio module, and loading it blocks the event loop."""

        def is_flexible(version: int) -> bool:
            return request_schema(self.key, version).__flexible__

        return self.versions.start + bisect_left(self.versions, True, key=is_flexible)


class Kept(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A part of messages that is sent to many clients repeatedly; caches each of its encoded
    forms."""

    @cached_property
    def _forms(self) -> dict[Writer, bytes]:
        return {}

    def encoded(self, write: Writer) -> bytes:
        encoded_form = self._forms.get(write)
        if encoded_form is None:
            out = MessageBuffer()
            write(out, self)
            encoded_form = self._forms[write] = bytes(out)
        return encoded_form


class _TaggedField(msgspec.Struct, frozen=True):
    name: str
    read: Reader
    write: Writer
    default: Any


_compiled: dict[tuple[type[Any], type[Any]], tuple[Reader, Writer]] = {}


def entity(schema: type[Any], message: type[Any]) -> tuple[Reader, Writer]:
    """Returns reader and writer of `message` in the form that `schema` describes."""
    codec = _compiled.get((schema, message))
    if codec is None:
        codec = _compiled[schema, message] = _compile(schema, message)
    return codec


_compiled_in_pieces: dict[tuple[type[Any], type[Any]], InPieces | None] = {}


def entity_in_pieces(schema: type[Any], message: type[Any]) -> InPieces | None:
    """Returns a reader and a writer that work in pieces; None if the message has no array, or is
    `Kept`."""
    key = schema, message
    if key not in _compiled_in_pieces:
        _compiled_in_pieces[key] = _compile_in_pieces(schema, message)
    return _compiled_in_pieces[key]


def _compile_in_pieces(schema: type[Any], message: type[Any]) -> InPieces | None:
    if issubclass(message, Kept):
        return None
    types = get_type_hints(message)
    arrays: dict[str, InPieces] = {}
    for field in fields(schema):
        schema_type, nullable = without_none(field.type)
        if get_origin(schema_type) is tuple and "tag" not in field.metadata:
            message_type, _ = without_none(types[field.name])
            arrays[field.name] = _array_in_pieces(
                schema, field, schema_type, message_type, nullable=nullable
            )
    if not arrays:
        return None
    plain_fields, tagged_fields = _fields(schema, message)
    read_tags, write_tags = _tags(tagged_fields)
    flexible: bool = schema.__flexible__

    def read(buffer: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = {}
        for name, read_field, _ in plain_fields:
            if name in arrays:
                values[name], position = yield from arrays[name].read(buffer, position)
            else:
                values[name], position = read_field(buffer, position)
        if flexible:
            position = read_tags(buffer, position, values)
        return message(**values), position

    def write(out: MessageBuffer, value: Any) -> Generator[None, None, None]:
        for name, _, write_field in plain_fields:
            if name in arrays:
                yield from arrays[name].write(out, getattr(value, name))
            else:
                write_field(out, getattr(value, name))
        if flexible:
            write_tags(out, value)

    return InPieces(read, write)


def _array_in_pieces(
    schema: type[Any], field: Field[Any], theirs: Any, ours: Any, *, nullable: bool
) -> InPieces:
    element_type, _ = without_none(get_args(theirs)[0])
    our_type, flexible = get_args(ours)[0], schema.__flexible__
    element = _element(field, element_type, our_type, flexible, nullable=False)
    codec_in_pieces = None
    if is_dataclass(element_type):
        codec_in_pieces = entity_in_pieces(element_type, our_type)  # type: ignore[arg-type]  # a class
    return primitives.array_in_pieces(
        element, codec_in_pieces, flexible=flexible, nullable=nullable
    )


def _compile(schema: type[Any], message: type[Any]) -> tuple[Reader, Writer]:
    plain_fields, tagged_fields = _fields(schema, message)
    read_tags, write_tags = _tags(tagged_fields)
    readers = [(name, read_field) for name, read_field, _ in plain_fields]
    writers = [(name, write) for name, _, write in plain_fields]
    flexible: bool = schema.__flexible__

    def read_entity(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_field in readers:
            values[name], position = read_field(buffer, position)
        if flexible:
            position = read_tags(buffer, position, values)
        return message(**values), position

    def write_entity(out: MessageBuffer, value: Any) -> None:
        for name, write in writers:
            write(out, getattr(value, name))
        if flexible:
            write_tags(out, value)

    return read_entity, _kept_writer(write_entity) if issubclass(message, Kept) else write_entity


def _fields(
    schema: type[Any], message: type[Any]
) -> tuple[list[tuple[str, Reader, Writer]], dict[int, _TaggedField]]:
    """Returns the sequential fields, and the tagged fields by tag."""
    types = get_type_hints(message)
    message_fields = {field.name: field for field in msgspec.structs.fields(message)}
    if unknown_names := {field.name for field in fields(schema)} - message_fields.keys():
        raise TypeError(
            f"{message.__qualname__} lacks {', '.join(sorted(unknown_names))} of {schema}"
        )

    plain_fields: list[tuple[str, Reader, Writer]] = []
    tagged_fields: dict[int, _TaggedField] = {}
    for field in fields(schema):
        read, write = _field(schema, field, types[field.name])
        if (tag := field.metadata.get("tag")) is None:
            plain_fields.append((field.name, read, write))
        else:
            tagged_fields[tag] = _TaggedField(
                field.name, read, write, _default(message, message_fields[field.name])
            )
    missing_names = message_fields.keys() - {field.name for field in fields(schema)}
    annotations = get_type_hints(message, include_extras=True) if missing_names else {}
    for name in missing_names:
        default = _default(message, message_fields[name])
        for mark in getattr(annotations[name], "__metadata__", ()):
            if isinstance(mark, Tag):
                codec = primitives.string(flexible=True, nullable=False)
                tagged_fields[mark.number] = _TaggedField(name, *codec, default)
    return plain_fields, tagged_fields


def _tags(
    tagged: dict[int, _TaggedField],
) -> tuple[Callable[[memoryview, int, dict[str, Any]], int], Writer]:
    tags = sorted(tagged.items())

    def read_tags(buffer: memoryview, position: int, values: dict[str, Any]) -> int:
        if not tagged:
            return primitives.skip_tagged_fields(buffer, position)
        count, position = primitives.read_tag_count(buffer, position)
        for _ in range(count):
            tag, position = primitives.read_unsigned_varint(buffer, position)
            size, position = primitives.read_unsigned_varint(buffer, position)
            end = position + size
            if end > len(buffer):
                raise ProtocolError(f"tagged field {tag} of {size} bytes reaches past the end")
            if tag in tagged:
                field = tagged[tag]
                values[field.name], value_end = field.read(buffer, position)
                if value_end != end:
                    raise ProtocolError(f"tagged field {field.name} is not {size} bytes long")
            position = end
        return position

    def write_tags(out: MessageBuffer, value: Any) -> None:
        present_fields = [
            (tag, field) for tag, field in tags if getattr(value, field.name) != field.default
        ]
        primitives.write_unsigned_varint(out, len(present_fields))
        for tag, field in present_fields:
            body = MessageBuffer()
            field.write(body, getattr(value, field.name))
            primitives.write_unsigned_varint(out, tag)
            primitives.write_unsigned_varint(out, len(body))
            out += body

    return read_tags, write_tags


def _kept_writer(write: Writer) -> Writer:
    def write_kept(out: MessageBuffer, value: Kept) -> None:
        out += value.encoded(write)

    return write_kept


def _field(schema: type[Any], field: Field[Any], message_type: Any) -> tuple[Reader, Writer]:
    schema_type, nullable = without_none(field.type)
    message_type, _ = without_none(message_type)
    flexible: bool = schema.__flexible__
    if get_origin(schema_type) is tuple:
        element_type, _ = without_none(get_args(schema_type)[0])
        element = _element(field, element_type, get_args(message_type)[0], flexible, nullable=False)
        return primitives.array(element, flexible=flexible, nullable=nullable)
    # A tagged field that is null is absent.
    nullable = nullable and "tag" not in field.metadata
    return _element(field, schema_type, message_type, flexible, nullable=nullable)


def _element(
    field: Field[Any], theirs: Any, ours: Any, flexible: bool, *, nullable: bool
) -> tuple[Reader, Writer]:
    if is_dataclass(theirs):
        codec = entity(theirs, ours)  # type: ignore[arg-type]  # both are classes
        return primitives.nullable_structure(codec) if nullable else codec
    kind: str = field.metadata["kafka_type"]
    if kind in _SIZED:
        return _SIZED[kind](flexible=flexible, nullable=nullable)
    return _FIXED_WIDTH[kind]


def without_none(annotation: Any) -> tuple[Any, bool]:
    """Returns the type without None, and whether it had None."""
    if get_origin(annotation) in {Union, UnionType}:
        other_types = [part for part in get_args(annotation) if part is not NoneType]
        if len(other_types) == 1:
            return other_types[0], True
    return annotation, False


def _default(message: type[Any], field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    raise TypeError(f"{message.__qualname__}.{field.name} needs a default: some version lacks it")
