"""`penstock produce`: lines in, messages out.

What has been read is sent when a batch is full, or when no more input is waiting: a file goes out
in large batches, and a line that somebody types goes out at once.
"""

import os
import select
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from client.producer import BATCH_BYTES, Acks, Delivered, Producer
from penstock.connecting import bootstrap_option, connected, existing_topics
from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from wire.records import Codec

ACKS = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}
_CHUNK = 256 * 1024
_LINGER_SECONDS = 0.01


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read this instead of stdin.",
)
@click.option("--key-separator", metavar="TEXT", help="A line is key, this text, value.")
@click.option(
    "--partition", type=click.IntRange(0), metavar="N", help="Write to this partition only."
)
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Who must have a batch before it counts: all replicas in sync, the leader, nobody.",
)
@click.option(
    "--codec",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option(
    "--batch",
    "batch_bytes",
    type=click.IntRange(1),
    default=BATCH_BYTES,
    show_default=True,
    metavar="BYTES",
    help="How much to collect before it is sent.",
)
@bootstrap_option
@json_option
def command(
    *,
    topic: str,
    path: Path | None,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    codec: str,
    batch_bytes: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write lines into a topic, one message each, without the newline.

    Lines with equal keys go to the same partition, where their order is kept.

    \b
    Example:
        penstock produce page_views --file views.json --codec zstd
        tail -F app.log | penstock produce app_logs
    """
    separator = key_separator.encode() if key_separator else None
    started = time.monotonic()
    counted = _Counted()
    if path is None and sys.stdin.isatty():
        click.echo("Each line is sent as it is typed; Ctrl-D ends.", err=True)
    with _opened(path) as source, connected(bootstrap) as brokers:
        producer = Producer(
            brokers, topic, acks=ACKS[acks], codec=Codec[codec.upper()], batch_bytes=batch_bytes
        )
        for line in _lines(source):
            if line is None:
                counted.add(producer.flush())
                continue
            key, value = _split(line, separator)
            if delivered := producer.send(value, key, partition=partition):
                counted.add(delivered)
        counted.add(producer.flush())
    seconds = time.monotonic() - started
    if as_json:
        print_json({"topic": topic, "messages": counted.messages, "partitions": counted.offsets})
    elif sys.stderr.isatty():
        said = f"{counted.messages:,} messages to {topic} in {seconds:.1f} s"
        click.echo(said, err=True)


class _Counted:
    """What was delivered: how many messages, and the first and last offset in each partition."""

    def __init__(self) -> None:
        self.messages = 0
        self.offsets: dict[int, dict[str, int]] = defaultdict(dict)

    def add(self, delivered: list[Delivered]) -> None:
        for each in delivered:
            self.messages += each.messages
            if each.base_offset is not None:
                offsets = self.offsets[each.partition]
                offsets.setdefault("first", each.base_offset)
                offsets["last"] = each.base_offset + each.messages - 1


def _opened(path: Path | None) -> IO[bytes]:
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False) if path is None else path.open("rb")
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None


def _lines(source: IO[bytes]) -> Iterator[bytes | None]:
    """The lines, without their newlines; None when no more is waiting right now."""
    descriptor = source.fileno()
    rest = b""
    while chunk := os.read(descriptor, _CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if not select.select([descriptor], [], [], _LINGER_SECONDS)[0]:
            yield None
    if rest:
        yield rest


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise Failed(
            f"no {separator.decode()!r} in the line {line[:80].decode(errors='replace')!r}"
        )
    return key, value
