"""Parses systemd's export format incrementally. Does no I/O.

An entry is a sequence of fields, and an empty line. A field is a line `NAME=value`, or, for values
that are not printable text, a line `NAME`, the length as 64 bits (little-endian), the value, and a
line feed. Nothing is trusted: values are cut at a limit, whatever their length, and only the fields
that were asked for are kept.

If journalctl cannot read an entry to its end, since its file was damaged or is being removed, it
writes the first fields without the empty line. Such an entry is left out: the cursor, the first
field of each entry, shows that the next one begins.
"""

from collections.abc import Iterator, Set
from typing import Final

import msgspec

_LENGTH: Final = 8
_MOST_NAME: Final = 256

CURSOR: Final = b"__CURSOR"
REALTIME: Final = b"__REALTIME_TIMESTAMP"
SEQNUM: Final = b"__SEQNUM"
SEQNUM_ID: Final = b"__SEQNUM_ID"
_ALWAYS: Final = frozenset({CURSOR, REALTIME, SEQNUM, SEQNUM_ID})


class Entry(msgspec.Struct, frozen=True):
    """An entry of the journal: its first value for each field, and the names of cut fields.

    `number` counts the entries that share a `numbering`; 0 if it is unknown. `is_exact`: systemd
    says so, and the number is not only derived from the cursor.
    """

    cursor: bytes
    micros: int
    numbering: str
    number: int
    is_exact: bool
    fields: dict[bytes, bytes]
    cut: frozenset[bytes]


class ExportParser:
    """Takes the output of `journalctl --output=export`, in pieces of any size."""

    def __init__(self, wanted: Set[bytes], most_value_bytes: int) -> None:
        self._wanted = wanted | _ALWAYS
        self._most = most_value_bytes
        self._buffer = bytearray()
        self._fields: dict[bytes, bytes] = {}
        self._cut: set[bytes] = set()
        self._binary: bytes | None = None  # the name of a field whose value is being read
        self._left = 0  # of that value, and its line feed
        self._value = bytearray()
        self._skips_line = False

    def feed(self, data: bytes) -> Iterator[Entry]:
        """The entries that `data` completes."""
        buffer = self._buffer
        buffer += data
        position = 0
        while position < len(buffer):
            if self._binary is not None and self._left:
                position = self._take_binary(position)
                continue
            if self._binary is not None:
                length_end = position + _LENGTH
                if length_end > len(buffer):
                    break
                self._left = int.from_bytes(buffer[position:length_end], "little") + 1
                position = length_end
                continue
            end = buffer.find(b"\n", position)
            if end < 0:
                if len(buffer) - position <= self._most + _MOST_NAME:
                    break
                if not self._skips_line:
                    self._keep(*bytes(buffer[position:]).partition(b"=")[::2])
                    self._skips_line = True
                position = len(buffer)
            elif self._skips_line:
                self._skips_line = False
                position = end + 1
            elif buffer.startswith(b"--", position):  # a remark, such as -- No entries --
                position = end + 1
            elif end == position:
                position = end + 1
                entry = self._entry()
                if entry is not None:
                    yield entry
            else:
                self._take_line(bytes(buffer[position:end]))
                position = end + 1
        del buffer[:position]

    def _take_line(self, line: bytes) -> None:
        name, equals, value = line.partition(b"=")
        if name == CURSOR:
            self._fields, self._cut = {}, set()
        if equals:
            self._keep(name, value)
        else:
            self._binary, self._left = name[:_MOST_NAME], 0
            self._value.clear()

    def _take_binary(self, position: int) -> int:
        """Takes what there is of a binary value. Returns the position after it."""
        taken = min(self._left, len(self._buffer) - position)
        self._left -= taken
        if len(self._value) <= self._most:
            room = self._most + 1 - len(self._value)
            self._value += self._buffer[position : position + min(taken, room)]
        if not self._left:
            assert self._binary is not None
            if len(self._value) <= self._most:
                del self._value[-1:]  # the line feed
            self._keep(self._binary, bytes(self._value))
            self._binary = None
        return position + taken

    def _keep(self, name: bytes, value: bytes) -> None:
        if name not in self._wanted or name in self._fields:
            return
        if len(value) > self._most:
            self._cut.add(name)
        self._fields[name] = value[: self._most]

    def _entry(self) -> Entry | None:
        """The entry that an empty line ends; None if there was nothing, or it has no cursor."""
        fields, cut = self._fields, frozenset(self._cut)
        self._fields, self._cut = {}, set()
        cursor = fields.get(CURSOR, b"")
        if not is_cursor(cursor):
            return None
        numbering, number = numbers_of(cursor)
        seqnum = number_in(fields.get(SEQNUM, b""))
        is_exact = seqnum > 0 and SEQNUM_ID in fields
        if is_exact:
            numbering, number = fields[SEQNUM_ID].decode("ascii", "replace"), seqnum
        micros = number_in(fields.get(REALTIME, b""))
        return Entry(cursor, micros, numbering, number, is_exact, fields, cut)


def number_in(text: bytes) -> int:
    """A number of at most 64 bits, as systemd writes it; 0 if the text is something else."""
    return int(text) if len(text) <= _MOST_DIGITS and text.isdigit() else 0


_MOST_DIGITS: Final = 20


_MOST_CURSOR: Final = 1024
_CURSOR_BYTES: Final = frozenset(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ=;-_"
)


def is_cursor(text: bytes) -> bool:
    """Whether the text can be a cursor: it becomes an argument of journalctl, and part of JSON."""
    return 0 < len(text) <= _MOST_CURSOR and _CURSOR_BYTES.issuperset(text)


def numbers_of(cursor: bytes) -> tuple[str, int]:
    """The numbering and number in a cursor; ("", 0) if it has another form. Systemd documents
    cursors as opaque: this is evidence, not proof."""
    parts = _parts_of(cursor)
    try:
        return parts["s"], int(parts["i"], 16)
    except (KeyError, ValueError):
        return "", 0


def micros_of(cursor: bytes) -> int:
    """The time in a cursor; 0 if it has another form."""
    try:
        return int(_parts_of(cursor)["t"], 16)
    except (KeyError, ValueError):
        return 0


def _parts_of(cursor: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in cursor.decode().split(";") if "=" in part)
