"""`penstock consume`: messages in, lines out."""

import base64
import sys
from datetime import UTC, datetime

import click

from client.consumer import Consumer, Message
from client.offsets import AtOffset, AtTime, Beginning, End, Start
from penstock.connecting import bootstrap_option, connected
from penstock.json_option import json_option
from penstock.output import print_json


class StartType(click.ParamType[Start]):
    """Where to begin."""

    name = "start"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start:
        if value in {"beginning", "end"}:
            return Beginning() if value == "beginning" else End()
        if value.isascii() and value.isdigit() and len(value) < 19:
            return AtOffset(int(value))
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is none of beginning, end, an offset, a time like 2026-11-20T07:00:00Z"
            )
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return AtTime(int(time.timestamp() * 1000))


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="end",
    show_default=True,
    metavar="beginning|end|OFFSET|TIME",
    help="Where to begin in each partition; a time is UTC unless it says otherwise.",
)
@click.option("--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--to-end", is_flag=True, help="Stop where the topic ends now.")
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="May be repeated."
)
@click.option("--key-separator", metavar="TEXT", help="Print the key and this before each value.")
@bootstrap_option
@json_option
def command(
    *,
    topic: str,
    start: Start,
    count: int | None,
    to_end: bool,
    partitions: tuple[int, ...],
    key_separator: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Read a topic: each message's value as a line, as it comes, until Ctrl-C.

    With --json a line is an object: partition, offset, timestamp, key, value, headers; bytes that
    are no UTF-8 are there in base64, under key_base64 and value_base64.

    \b
    Example:
        penstock consume page_views --from beginning --to-end | wc -l
        penstock consume page_views --from 2026-11-20T07:00:00Z --count 10 --json
    """
    separator = key_separator.encode() if key_separator is not None else None
    # A message must not be able to command the terminal.
    shown = _printable if sys.stdout.isatty() else bytes
    left = count
    with (
        connected(bootstrap) as brokers,
        Consumer(brokers, topic, start, partitions or None, to_end=to_end) as consumer,
    ):
        while not consumer.finished and left != 0:
            for message in consumer.poll(1.0):
                if left == 0:
                    break
                left = None if left is None else left - 1
                if as_json:
                    print_json(_document(message))
                else:
                    sys.stdout.buffer.write(shown(_line(message, separator)) + b"\n")
            sys.stdout.flush()


def _line(message: Message, separator: bytes | None) -> bytes:
    value = message.record.value or b""
    return value if separator is None else (message.record.key or b"") + separator + value


def _printable(line: bytes) -> bytes:
    text = line.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text).encode()


def _document(message: Message) -> dict[str, object]:
    record = message.record
    headers = [{"name": name, **_bytes("value", value)} for name, value in record.headers]
    return {
        "partition": message.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes("key", record.key),
        **_bytes("value", record.value),
        "headers": headers,
    }


def _bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
