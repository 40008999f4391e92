"""A request and an answer, as values."""

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
from registry.http import media_types

_MOST_PARAMETERS: Final = 100
_PIECE: Final = 64 * 1024
_SUSPICIOUS: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_WRONG_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

encode = msgspec.json.Encoder().encode


class HttpResponse(NamedTuple):
    """A long body comes in pieces, each made when the one before it is on its way."""

    status: int
    body: bytes | Iterator[bytes]
    content_type: str | None = None  # None: as the request accepts it
    headers: tuple[tuple[str, str], ...] = ()


def long_answer(items: Iterable[Any]) -> HttpResponse:
    """A list, of whatever length: no more than a piece of it is in memory."""
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
    """`target` is what stood in the request line; header names are in lower case.

    `dropped` says why the body was not kept: it is too large, or too much is held already. Nobody
    changes one; to have that enforced, Python would take longer than to read the request.
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
        """The path, cut at its slashes and only then decoded: a name may hold a slash itself.

        Answered for a path that proxies and libraries would understand in different ways.
        """
        path = self.target.partition("?")[0].removeprefix("/").removesuffix("/")
        return tuple(map(_segment, path.split("/"))) if path else ()

    @cached_property
    def query(self) -> Mapping[str, str]:
        """Of a parameter that comes twice, the first."""
        return dict(reversed(self._pairs))

    def values(self, name: str) -> list[str]:
        """All values of a parameter that may come more than once."""
        return [value for each, value in self._pairs if each == name]

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        text = self.target.partition("?")[2]
        try:
            return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise malformed_query(_MOST_PARAMETERS) from None

    @property
    def answer_type(self) -> str | None:
        """The content type of the answer; None if the client takes none that we have."""
        return media_types.negotiated(self.headers.get("accept", ""))

    @property
    def has_known_body(self) -> bool:
        """Whether the body is declared as something that is read here, or not at all.

        A browser asks first whether a page of another site may send JSON, but not if the page does
        not say what it sends. Browsers name the page's origin; other clients name none.
        """
        declared = self.headers.get("content-type")
        if declared is None:
            return "origin" not in self.headers
        return media_types.is_known(declared)

    @property
    def json(self) -> bytes:
        """The body in UTF-8. Answered if it is in a charset that is not read here."""
        declared = self.headers.get("content-type", "")
        return media_types.in_utf8(self.body, media_types.charset(declared))


def _segment(written: str) -> str:
    name, _, _ = written.partition(";")
    try:
        segment = unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise malformed_path() from None
    if _SUSPICIOUS.search(segment) or _WRONG_PERCENT.search(name) or segment in {"", ".."}:
        raise malformed_path()
    return segment
