"""Answers to requests that are not served: UNSUPPORTED_VERSION, in the form that the client reads.

Where a response has an error at its top, it is empty else. Where it has one for each element, there
is one for each that was asked about. What an element is called, in the request and in the response,
the names of their fields tell: `name` is `topic_name`, `partition` is `partition_index`, and of
`group_ids` each is `group_id`.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_origin

import msgspec
from kio.schema.index import api_key_map, schema_name_map

from wire.codec import entity, without_none
from wire.errors import ErrorCode
from wire.kio_schemas import request_schema, response_schema
from wire.primitives import MessageBuffer
from wire.requests import read_client_id

_LONGEST: Final = 512  # bytes of a request: the elements of a longer one would hold up others
_EMPTY: Final[dict[str, Any]] = {"string": "", "bytes": b"", "records": b"", "uuid": None}


def refusal(key: int, version: int, frame: memoryview) -> tuple[MessageBuffer, bool] | None:
    """The answer to this request, and whether its header has tags. None where that is not known, or
    is too long to be told by elements. Raises `ProtocolError`."""
    if version not in schema_name_map.get(api_key_map.get(key, ""), ()):
        return None
    asked, answered = request_schema(key, version), response_schema(key, version)
    shape = _shape(answered)
    request = None
    if not any(field.is_error for field in shape.fields):
        if len(frame) > _LONGEST:
            return None
        _, body = read_client_id(frame, flexible=asked.__flexible__)
        request, _ = entity(asked, _shape(asked).ours)[0](body, 0)
    out = MessageBuffer()
    entity(answered, shape.ours)[1](out, _refused(shape, (request,)))
    return out, answered.__header_schema__.__version__ == 1


class _Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    default: Any
    is_error: bool
    is_array: bool
    is_nullable: bool
    is_tagged: bool
    structure: "_Shape | None"
    """Of it, or of its elements."""

    @property
    def is_name(self) -> bool:
        """Whether it may tell one element from the others."""
        return not self.is_array and self.structure is None and not self.name.startswith("error_")


class _Shape(msgspec.Struct, frozen=True, eq=False):
    """One of kio's classes, and one of our own with the same fields."""

    fields: tuple[_Field, ...]
    ours: type[msgspec.Struct]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields if field.is_name]


@functools.cache
def _shape(schema: Any) -> _Shape:
    found: list[_Field] = []
    members: list[tuple[str, Any, Any]] = []
    for field in fields(schema):
        theirs, is_nullable = without_none(field.type)
        is_array = get_origin(theirs) is tuple
        element: Any = get_args(theirs)[0] if is_array else theirs
        is_structure = is_dataclass(element)
        structure = _shape(element) if is_structure else None
        kind = field.metadata.get("kafka_type", "")
        default = () if is_array else None if structure else _EMPTY.get(kind, 0)
        type_: Any = structure.ours if structure else Any
        members.append((field.name, tuple[type_, ...] if is_array else type_, default))
        found.append(
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
    ours = msgspec.defstruct(schema.__name__, members, kw_only=True)
    return _Shape(tuple(found), ours)


def _refused(shape: _Shape, asked: Sequence[Any]) -> msgspec.Struct:
    """`asked` is what was asked for: the request, the element, one within that."""
    values: dict[str, Any] = {}
    for field in shape.fields:
        structure = field.structure
        if field.is_tagged:
            continue
        if field.is_error:
            values[field.name] = ErrorCode.unsupported_version
        elif structure is None:
            values[field.name] = () if field.is_array else _named(field, asked)
        elif field.is_array:
            elements = _elements(structure.names, asked[-1])
            values[field.name] = tuple(_refused(structure, (*asked, each)) for each in elements)
        else:
            values[field.name] = None if field.is_nullable else _refused(structure, asked)
    return shape.ours(**values)


def _elements(names: Sequence[str], within: Any) -> Iterator[Any]:
    """What the elements of a response are about, which are told by these names: the outermost of
    the request that have something by one of them, or are nothing but a name."""
    if not isinstance(within, msgspec.Struct):
        return
    for listed in _values(within):
        for each in listed if isinstance(listed, tuple) else ():
            if not isinstance(each, msgspec.Struct) or not names or _has_one_of(each, names):
                yield each
            else:
                yield from _elements(names, each)


def _has_one_of(element: msgspec.Struct, names: Sequence[str]) -> bool:
    return any(
        _is_called(name, theirs)
        for theirs, value in zip(element.__struct_fields__, _values(element), strict=True)
        if not isinstance(value, tuple | msgspec.Struct)
        for name in names
    )


def _named(field: _Field, asked: Sequence[Any]) -> Any:
    """The value that the request has by this name, the innermost first; else nothing."""
    for within in reversed(asked):
        if isinstance(within, msgspec.Struct):
            for name, value in zip(within.__struct_fields__, _values(within), strict=True):
                if type(value) is type(field.default) and _is_called(field.name, name):
                    return value
        elif type(within) is type(field.default):
            return within
    return field.default


def _values(structure: msgspec.Struct) -> list[Any]:
    return [getattr(structure, name) for name in structure.__struct_fields__]


@functools.cache
def _is_called(name: str, other: str) -> bool:
    """By the same name, or with one word more."""
    short, long = sorted((name, other), key=len)
    return short == long or long.startswith(f"{short}_") or long.endswith(f"_{short}")
