"""Responses to unsupported requests: UNSUPPORTED_VERSION, in the form that the client reads.

If the response has an error code at its top, the rest is empty. If it has one for each element,
there is one for each element of the request. Field names show how elements in request and response
correspond: `name` is `topic_name`, `partition` is `partition_index`, and each of `group_ids` is a
`group_id`.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_origin

import msgspec
from kio.schema.index import api_key_map, schema_name_map

from wire.errors import ErrorCode
from wire.framing.codec import entity, without_none
from wire.framing.primitives import MessageBuffer
from wire.framing.requests import read_client_id
from wire.kio_schemas import request_schema, response_schema

_LONGEST: Final = 512  # bytes of a request; the elements of a longer one would delay others
_EMPTY: Final[dict[str, Any]] = {"string": "", "bytes": b"", "records": b"", "uuid": None}


def refusal(key: int, version: int, frame: memoryview) -> tuple[MessageBuffer, bool] | None:
    """Returns the response, and whether its header has tags; None if the API is unknown, or the
    request has too many elements to refuse each. Raises `ProtocolError`."""
    if version not in schema_name_map.get(api_key_map.get(key, ""), ()):
        return None
    request_kind, response_kind = request_schema(key, version), response_schema(key, version)
    shape = _shape(response_kind)
    request = None
    if not any(field.is_error for field in shape.fields):
        if len(frame) > _LONGEST:
            return None
        _, body = read_client_id(frame, flexible=request_kind.__flexible__)
        request, _ = entity(request_kind, _shape(request_kind).ours)[0](body, 0)
    out = MessageBuffer()
    entity(response_kind, shape.ours)[1](out, _refused(shape, (request,)))
    return out, response_kind.__header_schema__.__version__ == 1


class _Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    default: Any
    is_error: bool
    is_array: bool
    is_nullable: bool
    is_tagged: bool
    structure: "_Shape | None"
    """The field's structure, or that of its elements."""

    @property
    def is_name(self) -> bool:
        """Whether the field may identify an element."""
        return not self.is_array and self.structure is None and not self.name.startswith("error_")


class _Shape(msgspec.Struct, frozen=True, eq=False):
    """One of kio's classes, and our class with the same fields."""

    fields: tuple[_Field, ...]
    ours: type[msgspec.Struct]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields if field.is_name]


@functools.cache
def _shape(schema: Any) -> _Shape:
    shape_fields: list[_Field] = []
    members: list[tuple[str, Any, Any]] = []
    for field in fields(schema):
        schema_type, is_nullable = without_none(field.type)
        is_array = get_origin(schema_type) is tuple
        element: Any = get_args(schema_type)[0] if is_array else schema_type
        is_structure = is_dataclass(element)
        structure = _shape(element) if is_structure else None
        kind = field.metadata.get("kafka_type", "")
        default = () if is_array else None if structure else _EMPTY.get(kind, 0)
        type_: Any = structure.ours if structure else Any
        members.append((field.name, tuple[type_, ...] if is_array else type_, default))
        shape_fields.append(
            _Field(
                name=field.name,
                default=default,
                is_error=kind == "error_code",
                is_array=is_array,
                is_nullable=is_nullable,
                is_tagged="tag" in field.metadata,
                structure=structure,
            )
        )
    message_class = msgspec.defstruct(schema.__name__, members, kw_only=True)
    return _Shape(tuple(shape_fields), message_class)


def _refused(shape: _Shape, path: Sequence[Any]) -> msgspec.Struct:
    """`path` leads from the request to the element that the response is about."""
    values: dict[str, Any] = {}
    for field in shape.fields:
        structure = field.structure
        if field.is_tagged:
            continue
        if field.is_error:
            values[field.name] = ErrorCode.unsupported_version
        elif structure is None:
            values[field.name] = () if field.is_array else _named(field, path)
        elif field.is_array:
            elements = _elements(structure.names, path[-1])
            values[field.name] = tuple(
                _refused(structure, (*path, element)) for element in elements
            )
        else:
            values[field.name] = None if field.is_nullable else _refused(structure, path)
    return shape.ours(**values)


def _elements(names: Sequence[str], parent: Any) -> Iterator[Any]:
    """Yields the request's elements that those of the response are about, given the names of their
    identifying fields: the outermost ones with a corresponding field, and bare values."""
    if not isinstance(parent, msgspec.Struct):
        return
    for value in _values(parent):
        for element in value if isinstance(value, tuple) else ():
            if not isinstance(element, msgspec.Struct) or not names or _has_one_of(element, names):
                yield element
            else:
                yield from _elements(names, element)


def _has_one_of(element: msgspec.Struct, names: Sequence[str]) -> bool:
    return any(
        _is_called(name, field_name)
        for field_name, value in zip(element.__struct_fields__, _values(element), strict=True)
        if not isinstance(value, tuple | msgspec.Struct)
        for name in names
    )


def _named(field: _Field, path: Sequence[Any]) -> Any:
    """Returns the value with a corresponding name, innermost first; otherwise the default."""
    for level in reversed(path):
        if isinstance(level, msgspec.Struct):
            for name, value in zip(level.__struct_fields__, _values(level), strict=True):
                if type(value) is type(field.default) and _is_called(field.name, name):
                    return value
        elif type(level) is type(field.default):
            return level
    return field.default


def _values(structure: msgspec.Struct) -> list[Any]:
    return [getattr(structure, name) for name in structure.__struct_fields__]


@functools.cache
def _is_called(name: str, other: str) -> bool:
    """Whether the names are equal, or one has one more word at an end."""
    short_name, long_name = sorted((name, other), key=len)
    return (
        short_name == long_name
        or long_name.startswith(f"{short_name}_")
        or long_name.endswith(f"_{short_name}")
    )
