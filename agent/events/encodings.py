"""Bytes of a file to lines in UTF-8: where lines end, and what they say, in any encoding.

1. A line ends at a line feed; a carriage return before it belongs to the line break.
2. Line feeds are looked for in the bytes, before decoding: what is no text cannot swallow one.
3. What is not valid becomes U+FFFD. A byte order mark at the file's first byte is no text.
4. In encodings of two or four bytes, units are counted from the file's beginning. `utf-16` and
   `utf-32` need no mark: a unit that is a line feed in one byte order is no character in the other.
"""

import codecs
from itertools import pairwise
from typing import Final

import msgspec

from agent.events.splitting import ALL, lines_of

_NO_LINES: Final = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
_SHIFTING: Final = ("iso2022", "hz", "utf-7")
_MARK: Final = b"\xef\xbb\xbf"
_REPLACEMENT: Final = "\ufffd"
_REPLACEMENT_UTF8: Final = _REPLACEMENT.encode()


class Lines(msgspec.Struct):
    """Complete lines as UTF-8, without line breaks. `positions` has one more: where the last ends.

    `rest` is how many bytes of the chunk follow them, and `longest` the size of the longest line
    in the file. `unfinished`: the last one has no line break. `replaced` says how many characters
    of a line became U+FFFD, by the line's position, where there are any.
    """

    bodies: list[bytes]
    positions: list[int]
    rest: int
    longest: int
    unfinished: bool = False
    unit: int = 1
    replaced: dict[int, int] = {}

    @property
    def begun(self) -> int:
        """How many bytes of the next line are there: half a unit may become a line feed."""
        return self.rest - self.rest % self.unit

    def first(self, count: int) -> "Lines":
        """As if what follows were no lines yet."""
        if count >= len(self.bodies):
            return self
        positions = self.positions[: count + 1]
        rest = self.rest + self.positions[-1] - positions[-1]
        return Lines(
            self.bodies[:count],
            positions,
            rest,
            self.longest,
            unit=self.unit,
            replaced=self.replaced,
        )


class ByteLines:
    """Encodings in which a line feed is one byte, and no part of any other character."""

    unit = 1

    def __init__(self, name: str) -> None:
        self._name = name
        self._newline = "\n".encode(name)
        every = bytes(range(128))
        self._ascii = not name.startswith(_SHIFTING) and _decoded(every, name)[0] == every

    def lines(self, chunk: bytes, position: int, most: int | None, *, final: bool) -> Lines:
        """At most so many. `final`: the last one may lack its line break."""
        some = ALL if most is None else most
        bodies, positions, longest = lines_of(chunk, self._newline[0], position, some)
        rest = position + len(chunk) - positions[-1]
        unfinished = final and rest > 0 and len(bodies) < some
        if unfinished:
            bodies.append(chunk[len(chunk) - rest :])
            positions.append(position + len(chunk))
            longest = max(longest, rest)
            rest = 0
        found = Lines(bodies, positions, rest, longest, unfinished)
        self._to_utf8(found, chunk, len(chunk) - rest)
        return found

    def head(self, raw: bytes, position: int) -> tuple[bytes, int]:
        """The beginning of a line that was cut anywhere, as UTF-8: half a character is left out.
        And how many characters were replaced."""
        text, replaced = _head(raw, self._name)
        return text if position else text.removeprefix(_MARK), replaced

    def without_break(self, raw: bytes) -> bytes:
        """A line of the file without its line break, otherwise as it is."""
        return raw.removesuffix(self._newline).removesuffix(b"\r")

    def _to_utf8(self, lines: Lines, chunk: bytes, end: int) -> None:
        if not (self._ascii and chunk.isascii()):
            _decode_all(lines, self._name)
        lines.bodies = _without_carriage_returns(lines.bodies)


class Utf8Lines(ByteLines):
    """UTF-8: lines are their own bytes, if they are valid."""

    def __init__(self) -> None:
        super().__init__("utf-8")

    def _to_utf8(self, lines: Lines, chunk: bytes, end: int) -> None:
        if not chunk.isascii() and lines.bodies:
            if not _is_utf8(chunk, end):
                _decode_all(lines, "utf-8")
            if not lines.positions[0]:
                lines.bodies[0] = lines.bodies[0].removeprefix(_MARK)
        if b"\r" in chunk:
            lines.bodies = _without_carriage_returns(lines.bodies)


class WideLines:
    """Encodings in units of two or four bytes, in a byte order that is known or can be seen."""

    def __init__(self, name: str, unit: int) -> None:
        self.unit = unit
        orders = [name] if name.endswith(("le", "be")) else [f"{name}-le", f"{name}-be"]
        self._newlines = {"\n".encode(order): order for order in orders}

    def lines(self, chunk: bytes, position: int, most: int | None, *, final: bool) -> Lines:
        breaks = sorted(
            at for newline in self._newlines for at in self._found(newline, chunk, position)
        )
        bodies: list[bytes] = []
        positions, start, replaced = [position], 0, dict[int, int]()
        for at in breaks if most is None else breaks[:most]:
            order = self._newlines[chunk[at : at + self.unit]]
            bodies.append(self._text(chunk[start:at], position + start, order, replaced))
            start = at + self.unit
            positions.append(position + start)
        sizes = [end - start - self.unit for start, end in pairwise(positions)]
        rest = len(chunk) - start
        unfinished = final and rest > 0 and (most is None or len(bodies) < most)
        if unfinished:
            raw = chunk[start:]
            bodies.append(self._text(raw, position + start, self._order_of(raw), replaced))
            positions.append(position + len(chunk))
            sizes.append(rest)
            rest = 0
        bodies = _without_carriage_returns(bodies)
        longest = max(sizes, default=0)
        return Lines(bodies, positions, rest, longest, unfinished, self.unit, replaced)

    def head(self, raw: bytes, position: int) -> tuple[bytes, int]:
        text, replaced = _head(raw[-position % self.unit :], self._order_of(raw))
        return text if position else text.removeprefix(_MARK), replaced

    def without_break(self, raw: bytes) -> bytes:
        for newline in self._newlines:
            raw = raw.removesuffix(newline)
        return raw

    def _found(self, newline: bytes, chunk: bytes, position: int) -> list[int]:
        found = []
        at = chunk.find(newline)
        while at >= 0:
            if not (position + at) % self.unit:
                found.append(at)
            at = chunk.find(newline, at + self.unit)  # two of them do not overlap
        return found

    def _text(self, raw: bytes, position: int, order: str, replaced: dict[int, int]) -> bytes:
        over = -position % self.unit  # bytes of a unit that another event has taken the rest of
        text, count = _decoded(raw[over:], order)
        if count:
            replaced[position] = count
        return text if position else text.removeprefix(_MARK)

    def _order_of(self, raw: bytes) -> str:
        """Of text without a line feed: by its mark, or by where most of the zeros are."""
        orders = list(self._newlines.values())
        if len(orders) == 1 or raw.startswith("\ufeff".encode(orders[0])):
            return orders[0]
        if raw.startswith("\ufeff".encode(orders[1])):
            return orders[1]
        first, last = (raw[place :: self.unit].count(0) for place in (0, self.unit - 1))
        return orders[0] if last >= first else orders[1]


LineEncoding = ByteLines | WideLines


def line_encoding(name: str) -> LineEncoding:
    """Raises ValueError for an encoding that text files are not in."""
    known = codecs.lookup(name).name
    if known.replace("-", "_") in _NO_LINES:
        raise ValueError(f"`encoding: {name}` is none that log files are in")
    if known in {"utf-8", "utf-8-sig"}:
        return Utf8Lines()
    for prefix, unit in (("utf-16", 2), ("utf-32", 4)):
        if known.startswith(prefix):
            return WideLines(known, unit)
    try:
        size = len("\n".encode(known))
    except (LookupError, UnicodeError):
        raise ValueError(f"`encoding: {name}` is none of text") from None
    if size != 1:
        raise ValueError(f"`encoding: {name}` writes line feeds in a way that is not supported")
    return ByteLines(known)


def utf8(text: str) -> bytes:
    """Whatever a text holds: half a surrogate pair, which some decoders let through, becomes ?."""
    return text.encode("utf-8", "replace")


def _decode_all(lines: Lines, name: str) -> None:
    texts = [body.decode(name, "replace") for body in lines.bodies]
    for at in [at for at, text in enumerate(texts) if _REPLACEMENT in text]:
        if count := _replaced(texts[at], lines.bodies[at], name):
            lines.replaced[lines.positions[at]] = count
    lines.bodies = list(map(utf8, texts))


def _decoded(raw: bytes, name: str) -> tuple[bytes, int]:
    """As UTF-8, and how many characters were replaced."""
    text = raw.decode(name, "replace")
    return utf8(text), _replaced(text, raw, name)


def _replaced(text: str, raw: bytes, name: str) -> int:
    """Without those that the file has itself."""
    if _REPLACEMENT not in text:
        return 0
    if name == "utf-8":
        return text.count(_REPLACEMENT) - raw.count(_REPLACEMENT_UTF8)
    return text.count(_REPLACEMENT) - raw.decode(name, "ignore").count(_REPLACEMENT)


def _head(raw: bytes, name: str) -> tuple[bytes, int]:
    decoder = codecs.getincrementaldecoder(name)
    text = decoder("replace").decode(raw)
    own = decoder("ignore").decode(raw).count(_REPLACEMENT) if _REPLACEMENT in text else 0
    return utf8(text), text.count(_REPLACEMENT) - own


def _is_utf8(chunk: bytes, end: int) -> bool:
    try:
        str(memoryview(chunk)[:end], "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _without_carriage_returns(bodies: list[bytes]) -> list[bytes]:
    return [body[:-1] if body.endswith(b"\r") else body for body in bodies]
