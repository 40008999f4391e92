"""Prints messages as lines: values, keys and values, or everything as JSON. On a terminal, each
line begins with the time of its message."""

import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from ground.printable import one_line
from penstock.cli.output import print_json
from schemas.errors import BadMessage
from wire.record_batches.records import Record

Decode = Callable[[bytes | None], Any]


class MessageLines:
    """Prints messages to stdout."""

    def __init__(
        self, topic: str, decode: Decode | None, separator: bytes | None, *, as_json: bool
    ) -> None:
        self.topic = topic
        self._decode = decode
        self._separator = separator
        self._as_json = as_json
        # A message must not be able to command the terminal.
        self._on_terminal = sys.stdout.isatty()
        self._shown = _printable if self._on_terminal else bytes

    def add(self, partition: int, record: Record) -> None:
        """Adds a message, which appears when stdout is flushed."""
        try:
            value = record.value if self._decode is None else self._decode(record.value)
        except BadMessage as error:
            where = f"{self.topic}-{partition}, offset {record.offset}"
            click.echo(f"penstock: {where}: {one_line(str(error))}", err=True)
            return
        if self._as_json:
            print_json(_document(partition, record, value, is_event=self._decode is not None))
        else:
            line = self._shown(_line(record, value, self._separator))
            time = _time(record.timestamp) if self._on_terminal else b""
            sys.stdout.buffer.write(time + line + b"\n")


def _line(record: Record, value: Any, separator: bytes | None) -> bytes:
    text = value or b"" if isinstance(value, bytes | None) else _json(value)
    return text if separator is None else (record.key or b"") + separator + text


def _time(millis: int) -> bytes:
    """A message's time in a column of constant width, also if there is none."""
    try:
        time = datetime.fromtimestamp(millis / 1000, UTC) if millis >= 0 else None
    except (ValueError, OverflowError, OSError):
        time = None
    text = "-" if time is None else f"{time:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03d}Z"
    return f"{text:24}  ".encode()


def _json(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode()


def _printable(line: bytes) -> bytes:
    text = line.decode(errors="backslashreplace")
    return "\t".join(map(one_line, text.split("\t"))).encode()


def _document(partition: int, record: Record, value: Any, *, is_event: bool) -> dict[str, object]:
    headers = [{"name": name, **_bytes("value", value)} for name, value in record.headers]
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes("key", record.key),
        **({"event": value} if is_event else _bytes("value", value)),
        "headers": headers,
    }


def _bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
