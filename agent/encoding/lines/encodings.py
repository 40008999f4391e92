"""Splits bytes of a file in any encoding into lines, and decodes them to UTF-8.

1. A line ends at a line feed; a carriage return before it belongs to the line break.
2. Line feeds are searched in the bytes, before decoding, so invalid bytes cannot swallow one.
3. Invalid bytes become U+FFFD. A byte order mark at the beginning of the file is not text.
4. In encodings of two or four bytes, units are counted from the file's beginning. `utf-16` and
   `utf-32` need no mark: a line feed in one byte order is not a valid character in the other.
"""

import codecs
from itertools import pairwise
from typing import Final

import msgspec

from agent.encoding.lines.splitting import ALL, lines_of

_NO_LINES: Final = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
_SHIFTING: Final = ("iso2022", "hz", "utf-7")
_MARK: Final = b"\xef\xbb\xbf"
_REPLACEMENT: Final = "\ufffd"
_REPLACEMENT_UTF8: Final = _REPLACEMENT.encode()


class Lines(msgspec.Struct):
    """Complete lines as UTF-8, without line breaks. `positions` also has the end of the last line.

    `rest` is the number of bytes in the chunk after them, and `longest` the size of the longest
    line in the file. `unfinished`: the last line has no line break. `replaced` has the number of
    characters that became U+FFFD, by the position of the line.
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
        """The size so far of the incomplete line at the end, without an incomplete unit, which may
        become a line feed."""
        return self.rest - self.rest % self.unit

    def first(self, count: int) -> "Lines":
        """Returns only the first `count` lines; the others count as `rest`."""
        if count >= len(self.bodies):
            return self
        positions = self.positions[: count + 1]
        rest_size = self.rest + self.positions[-1] - positions[-1]
        return Lines(
            self.bodies[:count],
            positions,
            rest_size,
            self.longest,
            unit=self.unit,
            replaced=self.replaced,
        )


class ByteLines:
    """Encodings in which a line feed is one byte that is not part of any other character."""

    unit = 1

    def __init__(self, name: str) -> None:
        self._name = name
        self._newline = "\n".encode(name)
        ascii_bytes = bytes(range(128))
        self._ascii = (
            not name.startswith(_SHIFTING) and _decoded(ascii_bytes, name)[0] == ascii_bytes
        )

    def lines(self, chunk: bytes, position: int, most: int | None, *, final: bool) -> Lines:
        """Splits off at most `most` lines. `final`: the last line may lack its line break."""
        limit = ALL if most is None else most
        bodies, positions, longest_size = lines_of(chunk, self._newline[0], position, limit)
        rest_size = position + len(chunk) - positions[-1]
        is_unfinished = final and rest_size > 0 and len(bodies) < limit
        if is_unfinished:
            bodies.append(chunk[len(chunk) - rest_size :])
            positions.append(position + len(chunk))
            longest_size = max(longest_size, rest_size)
            rest_size = 0
        lines = Lines(bodies, positions, rest_size, longest_size, is_unfinished)
        self._to_utf8(lines, chunk, len(chunk) - rest_size)
        return lines

    def head(self, raw: bytes, position: int) -> tuple[bytes, int]:
        """The beginning of a cut line as UTF-8, without half a character at its end; and the number
        of replaced characters."""
        text, replaced_count = _head(raw, self._name)
        return text if position else text.removeprefix(_MARK), replaced_count

    def without_break(self, raw: bytes) -> bytes:
        """The raw line without its line break."""
        return raw.removesuffix(self._newline).removesuffix(b"\r")

    def _to_utf8(self, lines: Lines, chunk: bytes, end: int) -> None:
        if not (self._ascii and chunk.isascii()):
            _decode_all(lines, self._name)
        lines.bodies = _without_carriage_returns(lines.bodies)


class Utf8Lines(ByteLines):
    """UTF-8: valid lines need no decoding."""

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
    """Encodings in units of two or four bytes, in a byte order that is given or detected."""

    def __init__(self, name: str, unit: int) -> None:
        self.unit = unit
        byte_orders = [name] if name.endswith(("le", "be")) else [f"{name}-le", f"{name}-be"]
        self._newlines = {"\n".encode(byte_order): byte_order for byte_order in byte_orders}

    def lines(self, chunk: bytes, position: int, most: int | None, *, final: bool) -> Lines:
        break_positions = sorted(
            break_position
            for newline in self._newlines
            for break_position in self._breaks(newline, chunk, position)
        )
        bodies: list[bytes] = []
        positions, start, replaced_counts = [position], 0, dict[int, int]()
        for break_position in break_positions if most is None else break_positions[:most]:
            byte_order = self._newlines[chunk[break_position : break_position + self.unit]]
            bodies.append(
                self._text(
                    chunk[start:break_position], position + start, byte_order, replaced_counts
                )
            )
            start = break_position + self.unit
            positions.append(position + start)
        sizes = [end - start - self.unit for start, end in pairwise(positions)]
        rest_size = len(chunk) - start
        is_unfinished = final and rest_size > 0 and (most is None or len(bodies) < most)
        if is_unfinished:
            raw_line = chunk[start:]
            bodies.append(
                self._text(raw_line, position + start, self._order_of(raw_line), replaced_counts)
            )
            positions.append(position + len(chunk))
            sizes.append(rest_size)
            rest_size = 0
        bodies = _without_carriage_returns(bodies)
        longest_size = max(sizes, default=0)
        return Lines(
            bodies, positions, rest_size, longest_size, is_unfinished, self.unit, replaced_counts
        )

    def head(self, raw: bytes, position: int) -> tuple[bytes, int]:
        text, replaced_count = _head(raw[-position % self.unit :], self._order_of(raw))
        return text if position else text.removeprefix(_MARK), replaced_count

    def without_break(self, raw: bytes) -> bytes:
        for newline in self._newlines:
            raw = raw.removesuffix(newline)
        return raw

    def _breaks(self, newline: bytes, chunk: bytes, position: int) -> list[int]:
        break_positions = []
        break_position = chunk.find(newline)
        while break_position >= 0:
            if not (position + break_position) % self.unit:
                break_positions.append(break_position)
            # Line feeds do not overlap.
            break_position = chunk.find(newline, break_position + self.unit)
        return break_positions

    def _text(self, raw: bytes, position: int, order: str, replaced: dict[int, int]) -> bytes:
        partial_bytes = -position % self.unit  # bytes of a unit that began in another event
        text, count = _decoded(raw[partial_bytes:], order)
        if count:
            replaced[position] = count
        return text if position else text.removeprefix(_MARK)

    def _order_of(self, raw: bytes) -> str:
        """The byte order of text without a line feed: by its mark, or by where most zeros are."""
        byte_orders = list(self._newlines.values())
        if len(byte_orders) == 1 or raw.startswith("\ufeff".encode(byte_orders[0])):
            return byte_orders[0]
        if raw.startswith("\ufeff".encode(byte_orders[1])):
            return byte_orders[1]
        first, last = (raw[index :: self.unit].count(0) for index in (0, self.unit - 1))
        return byte_orders[0] if last >= first else byte_orders[1]


LineEncoding = ByteLines | WideLines


def line_encoding(name: str) -> LineEncoding:
    """The decoder for an encoding. Raises ValueError if it is not for text files."""
    codec_name = codecs.lookup(name).name
    if codec_name.replace("-", "_") in _NO_LINES:
        raise ValueError(f"`encoding: {name}` is not an encoding of text files")
    if codec_name in {"utf-8", "utf-8-sig"}:
        return Utf8Lines()
    for prefix, unit in (("utf-16", 2), ("utf-32", 4)):
        if codec_name.startswith(prefix):
            return WideLines(codec_name, unit)
    try:
        size = len("\n".encode(codec_name))
    except (LookupError, UnicodeError):
        raise ValueError(f"`encoding: {name}` is not a text encoding") from None
    if size != 1:
        raise ValueError(f"`encoding: {name}` encodes line feeds in an unsupported way")
    return ByteLines(codec_name)


def utf8(text: str) -> bytes:
    """The text as UTF-8; half a surrogate pair, which some decoders accept, becomes ?."""
    return text.encode("utf-8", "replace")


def _decode_all(lines: Lines, name: str) -> None:
    texts = [body.decode(name, "replace") for body in lines.bodies]
    for index in [index for index, text in enumerate(texts) if _REPLACEMENT in text]:
        if count := _replaced(texts[index], lines.bodies[index], name):
            lines.replaced[lines.positions[index]] = count
    lines.bodies = list(map(utf8, texts))


def _decoded(raw: bytes, name: str) -> tuple[bytes, int]:
    """The text as UTF-8, and the number of replaced characters."""
    text = raw.decode(name, "replace")
    return utf8(text), _replaced(text, raw, name)


def _replaced(text: str, raw: bytes, name: str) -> int:
    """The number of U+FFFD in the text, without those in the file itself."""
    if _REPLACEMENT not in text:
        return 0
    if name == "utf-8":
        return text.count(_REPLACEMENT) - raw.count(_REPLACEMENT_UTF8)
    return text.count(_REPLACEMENT) - raw.decode(name, "ignore").count(_REPLACEMENT)


def _head(raw: bytes, name: str) -> tuple[bytes, int]:
    decoder = codecs.getincrementaldecoder(name)
    text = decoder("replace").decode(raw)
    own_count = decoder("ignore").decode(raw).count(_REPLACEMENT) if _REPLACEMENT in text else 0
    return utf8(text), text.count(_REPLACEMENT) - own_count


def _is_utf8(chunk: bytes, end: int) -> bool:
    try:
        str(memoryview(chunk)[:end], "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _without_carriage_returns(bodies: list[bytes]) -> list[bytes]:
    return [body[:-1] if body.endswith(b"\r") else body for body in bodies]
