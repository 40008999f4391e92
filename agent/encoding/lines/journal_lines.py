"""The lines in which the agent keeps entries of systemd's journal until they are shipped: a JSON
object for each entry. The cursor comes last, so that it is found without parsing the line.

Values may contain bytes that are not UTF-8. They are left as they are, so that reading the line
replaces and counts them as in any other file."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from agent.encoding.lines.containers import MessagePiece
from agent.encoding.lines.faults import LineFault

MOST_FIELD_BYTES: Final = 64 * 1024
"""The longest value of a field other than the message; the rest is left out."""

_LONGEST_ESCAPE: Final = 6
_FRAME: Final = 4096  # names, time, stream and cursor
_NAME: Final = 256
_ESCAPED: Final = re.compile(rb'["\\\x00-\x1f]')
_CURSOR: Final = b',"cursor":"'
_END: Final = b'"}\n'


def longest_line(message_bytes: int, fields: int) -> int:
    """The length of the longest line of messages up to `message_bytes`, with so many fields."""
    values = message_bytes + fields * (MOST_FIELD_BYTES + _NAME)
    return _LONGEST_ESCAPE * values + _FRAME


def line_of(
    message: bytes,
    fields: Mapping[bytes, bytes],
    *,
    micros: int,
    stream: bytes,
    cursor: bytes,
    is_cut: bool,
) -> bytes:
    parts = [
        b'{"message":%b,"micros":%d,"stream":%b,"fields":{'
        % (quoted(message), micros, quoted(stream)),
        b",".join(b"%b:%b" % (quoted(name), quoted(value)) for name, value in fields.items()),
        b"}",
        b',"is_cut":true' if is_cut else b"",
        _CURSOR,
        cursor,
        _END,
    ]
    return b"".join(parts)


def cursor_of(line: bytes) -> bytes:
    """The cursor of a complete line; empty if it has none."""
    start = line.rfind(_CURSOR)
    return line[start + len(_CURSOR) : -len(_END)] if start >= 0 and line.endswith(_END) else b""


def quoted(value: bytes) -> bytes:
    return b'"%b"' % _ESCAPED.sub(_escape, value)


def _escape(match: re.Match[bytes]) -> bytes:
    character = match[0]
    return b"\\" + character if character in b'"\\' else b"\\u%04x" % character[0]


class _JournalLine(msgspec.Struct):
    message: str
    micros: int
    stream: str
    fields: dict[str, str]
    is_cut: bool = False


_decode: Final = msgspec.json.Decoder(_JournalLine).decode


def journal_piece(line: bytes) -> MessagePiece:
    """The message of an entry; its time, in microseconds, and its fields are attributes."""
    try:
        decoded = _decode(line)
    except (ValueError, RecursionError) as error:
        raise LineFault("format", f"not an entry of the journal: {error}") from None
    if decoded.is_cut:
        raise LineFault("format", "the entry's message is longer than max_line_bytes")
    attributes: dict[str, object] = {**decoded.fields, JOURNAL_TIME: decoded.micros}
    return MessagePiece(decoded.stream, "", decoded.message.encode(), more=False, attrs=attributes)


JOURNAL_TIME: Final = "__REALTIME_TIMESTAMP"
"""The field with the time of an entry: no schema has a field of this name by accident."""
