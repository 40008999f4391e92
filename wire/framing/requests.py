"""Request headers, and the frames of requests and responses.

    request    size i32 | api key i16 | version i16 | correlation id i32 | client id | [tags] | body
    response   size i32 | correlation id i32 | [tags] | body

Flexible versions have tags. But the client id is never compact, and the response to ApiVersions
never has tags, so that a client can read it before it knows the broker.
"""

import struct
from typing import Any, NamedTuple

from wire.errors import ProtocolError
from wire.framing import primitives
from wire.framing.codec import Api
from wire.framing.primitives import MessageBuffer, Part
from wire.framing.slices import FileSlice

API_VERSIONS_KEY = 18

_FIXED = struct.Struct(">hhi")
_CLIENT_ID_SIZE = struct.Struct(">h")
_RESPONSE = struct.Struct(">ii")
_read_client_id, _write_client_id = primitives.string(flexible=False, nullable=True)


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int


def read_header(frame: memoryview) -> RequestHeader:
    """Reads the part of the header that is the same in all versions."""
    return RequestHeader._make(_FIXED.unpack_from(frame))


def read_client_id(frame: memoryview, *, flexible: bool) -> tuple[str | None, memoryview]:
    """Returns the client id, and the body after the header."""
    client_id, position = _read_client_id(frame, _FIXED.size)
    if flexible:
        position = primitives.skip_tagged_fields(frame, position)
    return client_id, frame[position:]


def read_body(frame: memoryview, *, flexible: bool) -> memoryview:
    """Returns the body without decoding the client id."""
    try:
        (size,) = _CLIENT_ID_SIZE.unpack_from(frame, _FIXED.size)
    except struct.error:
        raise ProtocolError("the request ends within its header") from None
    if size < -1:
        raise ProtocolError(f"invalid client id length {size}")
    position = _FIXED.size + 2 + max(size, 0)
    if flexible:
        position = primitives.skip_tagged_fields(frame, position)
    return frame[position:]


def request_frame(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    out = MessageBuffer()
    out += _FIXED.pack(api.key, version, correlation_id)
    _write_client_id(out, client_id)
    if api.is_flexible(version):
        primitives.write_unsigned_varint(out, 0)
    return (len(out) + len(body)).to_bytes(4, "big") + out + body


def response_frame(correlation_id: int, body: MessageBuffer, *, tagged_header: bool) -> list[Part]:
    """Returns the response as the bytes and file slices to send."""
    parts = body.parts()
    size = (
        4
        + tagged_header
        + sum(part.length if isinstance(part, FileSlice) else len(part) for part in parts)
    )
    parts.insert(0, _RESPONSE.pack(size, correlation_id) + b"\x00" * tagged_header)
    return parts


def read_response(frame: memoryview, *, tagged_header: bool) -> tuple[int, memoryview]:
    """Returns correlation id and body of a response frame."""
    correlation_id, position = primitives.read_int32(frame, 0)
    if tagged_header:
        position = primitives.skip_tagged_fields(frame, position)
    return correlation_id, frame[position:]


def has_tagged_header(api: Api[Any, Any], version: int) -> bool:
    """Returns whether the response of this version has tags in its header."""
    return api.key != API_VERSIONS_KEY and api.is_flexible(version)
