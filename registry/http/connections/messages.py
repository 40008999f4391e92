"""HTTP requests and responses as values."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from registry.access.callers import NO_PEER, Peer
from registry.errors import malformed_path, malformed_query
from registry.http.connections import media_types

_MOST_PARAMETERS: Final = 100
_PIECE: Final = 64 * 1024
_SUSPICIOUS: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_WRONG_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

encode = msgspec.json.Encoder().encode


class HttpResponse(NamedTuple):
    """A response. A long body is an iterator of pieces, each produced once the previous one is
    sent."""

    status: int
    body: bytes | Iterator[bytes]
    content_type: str | None = None  # None: negotiated
    headers: tuple[tuple[str, str], ...] = ()


def long_answer(items: Iterable[Any]) -> HttpResponse:
    """Returns a list of any length, encoded in pieces, so that memory holds one piece at a time."""
    return HttpResponse(HTTPStatus.OK, _pieces(items))


def _pieces(items: Iterable[Any]) -> Iterator[bytes]:
    piece = bytearray(b"[")
    for position, item in enumerate(items):
        if position:
            piece += b","
        piece += encode(item)
        if len(piece) > _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + b"]")


def answer(value: Any, status: int = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, encode(value))


class _Error(msgspec.Struct):
    error_code: int
    message: str


def error_answer(status: int, code: int, message: str) -> HttpResponse:
    return HttpResponse(status, encode(_Error(code, message)))


@dataclass
class HttpRequest:
    """A request. `target` is taken from the request line; header names are in lower case.

    `dropped` is the reason why the body was not kept: it is too large, or all bodies together are.
    Not to be modified; a frozen class would take longer to create than the request to parse.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool = True
    dropped: HTTPStatus | None = None
    takes_chunks: bool = True
    peer: Peer = NO_PEER

    @property
    def segments(self) -> tuple[str, ...]:
        """The path, split at slashes before decoding, since a name may contain an encoded slash.

        Raises ErrorAnswer for a path that proxies and libraries may interpret differently.
        """
        path = self.target.partition("?")[0].removeprefix("/").removesuffix("/")
        return tuple(map(_segment, path.split("/"))) if path else ()

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The query's parameters; for a repeated parameter, its first value."""
        return dict(reversed(self._pairs))

    def values(self, name: str) -> list[str]:
        """Returns all values of a parameter that may be repeated."""
        return [value for key, value in self._pairs if key == name]

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        text = self.target.partition("?")[2]
        try:
            return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise malformed_query(_MOST_PARAMETERS) from None

    @property
    def answer_type(self) -> str | None:
        """The content type of the answer; None if the client accepts no supported type."""
        return media_types.negotiated(self.headers.get("accept", ""))

    @property
    def has_known_body(self) -> bool:
        """Whether the body's declared type is accepted, or none is declared.

        Browsers send JSON to another site only after asking it, but a body without a declared type
        right away. They send an `Origin` header; other clients do not.
        """
        declared_type = self.headers.get("content-type")
        if declared_type is None:
            return "origin" not in self.headers
        return media_types.is_known(declared_type)

    @property
    def json(self) -> bytes:
        """Returns the body in UTF-8. Raises ErrorAnswer for an unsupported charset."""
        declared_type = self.headers.get("content-type", "")
        return media_types.in_utf8(self.body, media_types.charset(declared_type))


def _segment(text: str) -> str:
    name, _, _ = text.partition(";")
    try:
        segment = unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise malformed_path() from None
    if _SUSPICIOUS.search(segment) or _WRONG_PERCENT.search(name) or segment in {"", ".."}:
        raise malformed_path()
    return segment
