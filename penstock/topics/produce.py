"""`penstock produce`: sends lines, or the values of an Avro container file, as messages.

Messages are sent when a batch is full or no more input is waiting: a file in large batches, a typed
line at once.
"""

import os
import select
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final

import click

from client.connection.brokers import Brokers
from client.producing.producer import BATCH_BYTES, Acks, Delivered, Producer
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json
from penstock.connections.cluster import bootstrap_option, connected, existing_topics
from penstock.connections.registry import registry_at, registry_option
from penstock.schemas.arguments import VERSION, Which
from wire.record_batches.records import Codec

ACKS = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}
_STDIN: Final = Path("-")
_CHUNK = 256 * 1024
_LINGER_SECONDS = 0.01


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read this file instead of stdin.",
)
@click.option("--key-separator", metavar="TEXT", help="The text between key and value of a line.")
@click.option(
    "--avro-file",
    "avro_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Send the values of this Avro container file instead (- for stdin).",
)
@click.option(
    "--schema-version",
    type=VERSION,
    metavar="N|latest",
    help="Convert them to this version of the topic's schema; default: the file's own schema.",
)
@click.option(
    "--partition", type=click.IntRange(0), metavar="N", help="Write to this partition only."
)
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Which replicas must have a batch: all in sync, the leader, or none.",
)
@click.option(
    "--codec",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="The compression of batches.",
)
@click.option(
    "--batch",
    "batch_bytes",
    type=click.IntRange(1),
    default=BATCH_BYTES,
    show_default=True,
    metavar="BYTES",
    help="The size of batches.",
)
@bootstrap_option
@registry_option
@json_option
def command(
    *,
    topic: str,
    path: Path | None,
    key_separator: str | None,
    avro_file: Path | None,
    schema_version: Which | None,
    partition: int | None,
    acks: str,
    codec: str,
    batch_bytes: int,
    bootstrap: str,
    registry: str,
    as_json: bool,
) -> None:
    """Write lines into a topic, one message each, without the newline.

    Lines with equal keys go to the same partition, in order. If the command creates the topic,
    which brokers may allow, it says so on stderr.

    With --avro-file, each value of a container file becomes an event. The file's schema must be a
    version of the topic's schema; otherwise it is registered as the next one, if the registry
    allows that. From a damaged file, the values before the damage are sent, and the exit code is 1.

    \b
    Example:
        penstock produce page_views --file views.json --codec zstd
        tail -F app.log | penstock produce app_logs
        penstock produce page_views --avro-file page_views.avro
    """
    if avro_file is not None and (path is not None or key_separator is not None):
        raise click.UsageError("--avro-file excludes --file and --key-separator")
    if schema_version is not None and avro_file is None:
        raise click.UsageError("--schema-version needs --avro-file")
    if sys.stdin.isatty() and avro_file == _STDIN:
        raise click.UsageError("--avro-file - reads binary data: redirect stdin")
    if path is None and avro_file is None and sys.stdin.isatty():
        click.echo("Each line is sent when you press Enter; Ctrl-D ends.", err=True)
    start = time.monotonic()
    tally = _Counted()
    file_document: dict[str, Any] = {}
    failure = ""
    with _opened(path or avro_file) as source, connected(bootstrap) as brokers:
        producer = partial(
            _producer,
            *(brokers, topic),
            acks=ACKS[acks],
            codec=Codec[codec.upper()],
            batch_bytes=batch_bytes,
        )
        if avro_file is None:
            _send_lines(source, producer(), key_separator, partition, tally)
        else:
            # Imported here because Apache's avro is slow to import.
            from penstock.topics.avro_files.produce_from_file import FileProducer  # noqa: PLC0415

            file_producer = FileProducer(topic, avro_file, source)
            with registry_at(registry) as client:
                new_producer = producer()
                file_producer.find_schema(client, schema_version)
            file_producer.run(new_producer, partition, tally.add)
            file_document = file_producer.document
            failure = file_producer.failure(tally.messages)
    seconds = time.monotonic() - start
    if as_json:
        document = {"topic": topic, "messages": tally.messages, "partitions": tally.offsets}
        print_json(document | file_document)
    elif sys.stderr.isatty():
        click.echo(f"{tally.messages:,} messages to {topic} in {seconds:.1f} s", err=True)
    if failure:
        raise Failed(failure)


def _producer(brokers: Brokers, topic: str, **options: Any) -> Producer:
    """A producer; if it creates the topic, say so, as the name may be a typo, and a loader reports
    a topic without a schema until it is deleted."""
    is_new = not brokers.refresh([topic]).has(topic)
    producer = Producer(brokers, topic, **options)
    if is_new:
        partitions = len(brokers.known.topic(topic).partitions)
        count = "1 partition" if partitions == 1 else f"{partitions} partitions"
        click.echo(
            f"penstock: created topic {topic}: {count}; if the name is a typo: "
            f"penstock topics delete {shlex.quote(topic)}",
            err=True,
        )
    return producer


def _send_lines(
    source: IO[bytes],
    producer: Producer,
    key_separator: str | None,
    partition: int | None,
    counted: "_Counted",
) -> None:
    separator = key_separator.encode() if key_separator else None
    for line in _lines(source):
        if line is None:
            counted.add(producer.flush())
            continue
        key, value = _split(line, separator)
        if batches := producer.send(value, key, partition=partition):
            counted.add(batches)
    counted.add(producer.flush())


class _Counted:
    """Counts delivered messages, and keeps the first and last offset of each partition."""

    def __init__(self) -> None:
        self.messages = 0
        self.offsets: dict[int, dict[str, int]] = defaultdict(dict)

    def add(self, delivered: list[Delivered]) -> None:
        for batch in delivered:
            self.messages += batch.messages
            if batch.base_offset is not None:
                offsets = self.offsets[batch.partition]
                offsets.setdefault("first", batch.base_offset)
                offsets["last"] = batch.base_offset + batch.messages - 1


def _opened(path: Path | None) -> BufferedReader:
    try:
        if path is None or path == _STDIN:
            return open(sys.stdin.fileno(), "rb", closefd=False)
        return path.open("rb")
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None


def _lines(source: IO[bytes]) -> Iterator[bytes | None]:
    """The lines, without newlines; None when no more input is waiting."""
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
    key, match, value = line.partition(separator)
    if not match:
        raise Failed(f"no {separator.decode()!r} in line {line[:80].decode(errors='replace')!r}")
    return key, value
