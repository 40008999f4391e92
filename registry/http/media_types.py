"""Which content types a request may have and its answer gets, and in which charset a body is.

Read as Jersey and Jackson read them, which answer in Confluent's registry: clients write `*` where
they mean `*/*`. Where those take nonsense, or refuse all for a part of it, the part is passed over.
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

_QUOTED: Final = r'"(?:\\.|[^"\\])*"?'  # one without an end ends with the header
_ELEMENT: Final = re.compile(rf'(?:{_QUOTED}|[^,"])+', re.DOTALL)
_PIECE: Final = re.compile(rf'(?:{_QUOTED}|[^;"])+', re.DOTALL)
_RANGE: Final = re.compile(r"([\w!#$%&'*+.^`|~-]+)(?:/([\w!#$%&'*+.^`|~-]+))?", re.ASCII)
_QUALITY: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")

# Without their hyphens and underscores, which clients leave out or exchange.
_UNICODE: Final = frozenset(
    {"", "usascii", "ascii", "utf8"}
    | {"utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be"}
)
_LATIN_1: Final = frozenset({"iso88591", "latin1"})


class _Range(NamedTuple):
    """What a client takes: a type, or `*/*` or `application/*`; and how gladly, from 0 to 1."""

    kind: str
    quality: float


@lru_cache(256)
def negotiated(accept: str) -> str | None:
    """Ours that the header wants most; of equals, the first of ours; None if it wants none.

    What is said of a type itself outweighs what is said of `application/*`, and that, of `*/*`.
    """
    elements = [element for element in _ELEMENT.findall(accept) if element.strip()]
    if not elements:
        return V1
    wanted: dict[str, float] = {}
    for kind, quality in filter(None, map(_range, elements)):
        wanted[kind] = max(quality, wanted.get(kind, 0.0))
    qualities = [
        next((wanted[kind] for kind in (ours, "application/*", "*/*") if kind in wanted), 0.0)
        for ours in _ANSWERED
    ]
    best = max(qualities)
    return _ANSWERED[qualities.index(best)] if best > 0 else None


def _range(element: str) -> _Range | None:
    """None if it is malformed."""
    written, *_ = element.split(";", 1)
    found = _RANGE.fullmatch(written.strip().lower())
    quality = _QUALITY.fullmatch(next(_parameters(element, "q"), "1"))
    if found is None or quality is None:
        return None
    kind, subkind = found[1], found[2] or "*"
    return _Range("*/*" if kind == "*" else f"{kind}/{subkind}", min(float(quality[0]), 1.0))


def _parameters(element: str, wanted: str) -> Iterator[str]:
    """The values that a parameter has, in whatever case its name is written."""
    for piece in _PIECE.findall(element.partition(";")[2]):
        name, _, value = piece.partition("=")
        if name.strip().lower() == wanted:
            yield value.strip().strip('"')


def is_known(content_type: str) -> bool:
    """Whether a body that is declared as this is read here."""
    return content_type.partition(";")[0].strip().lower() in _TAKEN


def charset(content_type: str) -> str:
    """The one that is named; "" if none is."""
    return next(_parameters(content_type, "charset"), "")


def in_utf8(body: bytes, charset: str) -> bytes:
    """The same JSON in UTF-8, or almost: what is meant to be UTF-8 already is not looked at.

    Which Unicode it is, JSON shows by itself, since it begins with a letter of ASCII: that is more
    certain than a header, where `utf-16` does not say which half of a letter comes first.
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
        raise malformed_body(f"it is no {encoding.upper()}: {error.reason}") from None
