"""Content negotiation: media types of requests and answers, and the charset of bodies.

Follows Jersey and Jackson, on which Confluent's registry is built: clients write `*` where they
mean `*/*`. Where those accept nonsense or reject a header for one bad part, the part is ignored.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from registry.errors import malformed_body, unsupported_charset

V1: Final = "application/vnd.schemaregistry.v1+json"
_ANSWERED: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
_TAKEN: Final = frozenset({*_ANSWERED, "application/octet-stream"})

_QUOTED: Final = r'"(?:\\.|[^"\\])*"?'  # unterminated: up to the end of the header
_ELEMENT: Final = re.compile(rf'(?:{_QUOTED}|[^,"])+', re.DOTALL)
_PIECE: Final = re.compile(rf'(?:{_QUOTED}|[^;"])+', re.DOTALL)
_RANGE: Final = re.compile(r"([\w!#$%&'*+.^`|~-]+)(?:/([\w!#$%&'*+.^`|~-]+))?", re.ASCII)
_QUALITY: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")

# Without hyphens and underscores, which clients omit or exchange.
_UNICODE: Final = frozenset(
    {"", "usascii", "ascii", "utf8"}
    | {"utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be"}
)
_LATIN_1: Final = frozenset({"iso88591", "latin1"})


class _Range(NamedTuple):
    """A type that a client accepts, or `*/*` or `application/*`, with its quality from 0 to 1."""

    kind: str
    quality: float


@lru_cache(256)
def negotiated(accept: str) -> str | None:
    """Returns the supported media type that the header prefers; None if it accepts none.

    Of equal ones, the first in our order. A type outweighs `application/*`, which outweighs `*/*`.
    """
    elements = [element for element in _ELEMENT.findall(accept) if element.strip()]
    if not elements:
        return V1
    quality_by_type: dict[str, float] = {}
    for kind, quality in filter(None, map(_range, elements)):
        quality_by_type[kind] = max(quality, quality_by_type.get(kind, 0.0))
    qualities = [
        next(
            (
                quality_by_type[kind]
                for kind in (media_type, "application/*", "*/*")
                if kind in quality_by_type
            ),
            0.0,
        )
        for media_type in _ANSWERED
    ]
    best_quality = max(qualities)
    return _ANSWERED[qualities.index(best_quality)] if best_quality > 0 else None


def _range(element: str) -> _Range | None:
    """Parse one element; None if malformed."""
    media_type, *_ = element.split(";", 1)
    match = _RANGE.fullmatch(media_type.strip().lower())
    quality = _QUALITY.fullmatch(next(_parameters(element, "q"), "1"))
    if match is None or quality is None:
        return None
    kind, subtype = match[1], match[2] or "*"
    return _Range("*/*" if kind == "*" else f"{kind}/{subtype}", min(float(quality[0]), 1.0))


def _parameters(element: str, wanted: str) -> Iterator[str]:
    """The values of a parameter, whose name is compared without case."""
    for piece in _PIECE.findall(element.partition(";")[2]):
        name, _, value = piece.partition("=")
        if name.strip().lower() == wanted:
            yield value.strip().strip('"')


def is_known(content_type: str) -> bool:
    """Whether bodies of this content type are accepted."""
    return content_type.partition(";")[0].strip().lower() in _TAKEN


def charset(content_type: str) -> str:
    """Returns the declared charset, or "" if there is none."""
    return next(_parameters(content_type, "charset"), "")


def in_utf8(body: bytes, charset: str) -> bytes:
    """Converts the JSON body to UTF-8. A body that claims to be UTF-8 is not validated.

    The encoding is detected from the first bytes, which are ASCII in JSON: that is more reliable
    than the header, where `utf-16` leaves the byte order open.
    """
    name = charset.lower().replace("-", "").replace("_", "")
    if name in _LATIN_1:
        return body.decode("latin-1").encode()
    if name not in _UNICODE:
        raise unsupported_charset(charset)
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise malformed_body(f"not {encoding.upper()}: {error.reason}") from None
