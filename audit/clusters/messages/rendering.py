"""Renders records, decoded by their schemas, as text, or in hexadecimal. Pure, except that it may
request schemas from the registry.

At most `MOST_SHOWN` characters of a value are shown, with a flag if it is cut. They are plain text,
whatever they look like: the page shows control characters, and never interprets HTML.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from audit.clusters.messages.answers import MessageKind, ShownField, ShownMessage
from client.reading.excerpt import Content, Piece
from schemas.bodies.plain_values import plain
from schemas.envelope import Decoder, schema_id_of
from schemas.errors import BadMessage, RegistryError
from schemas.event_schemas import DEAD_LETTER
from schemas.parsing import AvroSchema
from wire.record_batches.records import Record

MOST_SHOWN: Final = 16 * 1024
MOST_DECODED: Final = 1024 * 1024  # bytes of a value, which may take twenty times as many decoded
_KEY: Final = 1_024
_HEX: Final = 512  # bytes
_LINE: Final = 16  # bytes of a line in hexadecimal
_MOST_FIELDS: Final = 500
_FIRST: Final = ("reason", "raw")  # of a dead letter
_KINDS: Final = {
    Content.GAP: MessageKind.GAP,
    Content.DAMAGED: MessageKind.DAMAGED,
    Content.LONG: MessageKind.LONG,
}

Lookup = Callable[[int], AvroSchema | None]


class Showing:
    """Renders the messages of one request. Once the registry fails to answer, no further schema is
    requested."""

    def __init__(self, lookup: Lookup) -> None:
        self._ask = lookup
        self._decoder = Decoder(self._lookup)
        self._away: RegistryError | None = None
        self._names: dict[int, str] = {}  # of schemas, by id

    def message(self, record: Record) -> ShownMessage:
        value = record.value
        fields: dict[str, Any] = {"kind": MessageKind.EMPTY}
        if value is not None:
            try:
                fields = self._event(value)
            except (BadMessage, RegistryError, RecursionError) as error:
                # A value that does not begin like an event is not faulty.
                reason = str(error) if value[:1] == b"\0" else ""
                fields = {**_raw(value), "remark": _cut(reason, _KEY)[0]}
        headers = [
            ShownField(_cut(name, _KEY)[0], _cut(_text(content or b""), _KEY)[0])
            for name, content in record.headers[:_MOST_FIELDS]
        ]
        return ShownMessage(
            offset=record.offset,
            end=record.offset + 1,
            time=record.timestamp,
            key=_cut(_text(record.key or b""), _KEY)[0],
            headers=headers,
            size=-1 if value is None else len(value),
            **fields,
        )

    def _lookup(self, schema_id: int) -> AvroSchema | None:
        if self._away is not None:
            raise self._away
        try:
            schema = self._ask(schema_id)
        except RegistryError as error:
            self._away = error
            raise
        if schema is not None:
            self._names[schema_id] = schema.full_name or ""
        return schema

    def _event(self, value: bytes) -> dict[str, Any]:
        """Raises BadMessage, RegistryError."""
        schema_id = schema_id_of(value)
        if len(value) > MOST_DECODED:
            raise BadMessage(f"values of more than {MOST_DECODED:,} bytes are not decoded here")
        event = self._decoder.decode(value)
        kind = MessageKind.EVENT
        header: Mapping[str, Any] = {}
        if isinstance(event, Mapping):
            header = _header(event.get("header"))
            event = {
                name: field_value
                for name, field_value in event.items()
                if name != "header" or not header
            }
            if self._names.get(schema_id) == DEAD_LETTER:
                kind = MessageKind.DEAD
                event = {name: event[name] for name in _FIRST if name in event} | event
        else:
            event = {"": event}
        fields, is_cut = _fields(event)
        return {"kind": kind, "schema_id": schema_id, "fields": fields, "cut": is_cut, **header}


def instead(piece: Piece) -> ShownMessage:
    """Renders a replacement for messages that are not shown."""
    kind = _KINDS[piece.content]
    data = bytes(piece.data[:_HEX]) if kind is MessageKind.DAMAGED else b""
    return ShownMessage(
        offset=piece.first,
        end=piece.end,
        kind=kind,
        size=piece.size or -1,
        text=hexadecimal(data),
        cut=bool(data) and len(data) < piece.size,
        remark=piece.why,
    )


def hexadecimal(data: bytes) -> str:
    """Formats bytes in lines of 16: the position, the bytes, and their ASCII characters."""
    lines = []
    for start in range(0, len(data), _LINE):
        row = data[start : start + _LINE]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:04x}  {row.hex(' '):{3 * _LINE - 1}}  {characters}")
    return "\n".join(lines)


def _header(value: Any) -> Mapping[str, Any]:
    """Returns the header of an event; empty if it is something else."""
    if not isinstance(value, Mapping):
        return {}
    texts = {name: value.get(name) for name in ("host", "app", "source")}
    numbers = {name: value.get(name) for name in ("seq", "position")}
    if not all(isinstance(text, str) for text in texts.values()):
        return {}
    if not all(isinstance(number, int) for number in numbers.values()):
        return {}
    return {name: _cut(str(text), _KEY)[0] for name, text in texts.items()} | numbers


def _fields(event: Mapping[Any, Any]) -> tuple[list[ShownField], bool]:
    """Renders fields as text, and returns whether something is left out."""
    room = MOST_SHOWN
    fields: list[ShownField] = []
    for name, value in event.items():
        if room <= 0 or len(fields) == _MOST_FIELDS:
            return fields, True
        shown_name, name_is_cut = _cut(str(name), min(room, _KEY))
        text, text_is_cut = _cut(_field(value), max(0, room - len(shown_name)))
        fields.append(ShownField(shown_name, text))
        room -= len(shown_name) + len(text)
        if name_is_cut or text_is_cut:
            return fields, True
    return fields, False


def _field(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            return _text(value)
        case _:
            return json.dumps(plain(value), ensure_ascii=False)


def _raw(value: bytes) -> dict[str, Any]:
    """Renders a value that is not an event. A broken event is never text, whatever its bytes."""
    try:
        text, is_cut = _cut("" if value[:1] == b"\0" else value.decode(), MOST_SHOWN)
    except UnicodeDecodeError:
        text, is_cut = "", False
    if text or not value:
        return {"kind": MessageKind.TEXT, "text": text, "cut": is_cut}
    hex_text = hexadecimal(value[:_HEX])
    return {"kind": MessageKind.BYTES, "text": hex_text, "cut": len(value) > _HEX}


def _text(data: bytes) -> str:
    """Returns UTF-8 as text, anything else as hexadecimal of its first bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        suffix = f"\n… {len(data) - _HEX:,} more bytes" if len(data) > _HEX else ""
        return hexadecimal(data[:_HEX]) + suffix


def _cut(text: str, most: int) -> tuple[str, bool]:
    return (text, False) if len(text) <= most else (text[:most], True)
