"""`penstock consume`: prints messages as lines, or writes them into an Avro container file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from client.connection.brokers import Brokers
from client.reading.consumer import Consumer
from client.reading.offsets import AtOffset, AtTime, Beginning, End, Start
from penstock.cli.output import json_option
from penstock.cli.time_arguments import time_millis
from penstock.connections.cluster import bootstrap_option, connected, existing_topics
from penstock.connections.registry import registry_at, registry_option
from penstock.connections.zookeeper import needed_zookeeper, zookeeper_at, zookeeper_options
from penstock.schemas.arguments import VERSION, Which
from penstock.topics.avro_files.new_file import STDOUT, check_destination
from penstock.topics.message_lines import Decode, MessageLines

# The default comes first: every implementation of Avro reads it, and it is smaller than `null`.
AVRO_CODECS: Final = ("deflate", "null", "snappy", "zstandard", "bzip2")


class StartType(click.ParamType[Start]):
    """The type of the option for the position at which reading starts."""

    name = "start"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start:
        if value in {"beginning", "end"}:
            return Beginning() if value == "beginning" else End()
        if value.isascii() and value.isdigit() and len(value) < 19:
            return AtOffset(int(value))
        try:
            return AtTime(time_millis(value))
        except ValueError:
            self.fail(
                f"{value!r} is not beginning, end, an offset, or a time such as "
                "2026-11-20T07:00:00Z"
            )


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="end",
    show_default=True,
    metavar="beginning|end|OFFSET|TIME",
    help="Where to start in each partition; times are UTC unless they carry an offset.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after this many messages.")
@click.option("--to-end", is_flag=True, help="Stop at the present end of the topic.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; may be repeated.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Share the partitions with the other members of this group, and continue where it "
    "stopped. Needs --zookeeper.",
)
@click.option("--key-separator", metavar="TEXT", help="Print the key and TEXT before each value.")
@click.option(
    "--events",
    is_flag=True,
    help="Decode events with the registry's schemas, and print them as JSON.",
)
@click.option(
    "--avro-file",
    "avro_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write events into this Avro container file instead (- for stdout).",
)
@click.option(
    "--schema-version",
    type=VERSION,
    metavar="N|latest",
    help="The version of the topic's schema for the file; default: the latest.",
)
@click.option(
    "--codec",
    type=click.Choice(AVRO_CODECS),
    help=f"The compression of the file's blocks; default: {AVRO_CODECS[0]}.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@bootstrap_option
@zookeeper_options("The brokers' ZooKeeper, by which a group's members share the topic.")
@registry_option
@json_option
def command(
    *,
    topic: str,
    start: Start,
    count: int | None,
    to_end: bool,
    partitions: tuple[int, ...],
    group: str | None,
    key_separator: str | None,
    events: bool,
    avro_file: Path | None,
    schema_version: Which | None,
    codec: str | None,
    overwrite: bool,
    bootstrap: str,
    zookeeper: str | None,
    zookeeper_secret_file: Path | None,
    registry: str,
    as_json: bool,
) -> int:
    """Read a topic and print each message's value as a line, until Ctrl-C.

    Without --from, prints only new messages. On a terminal, each message's time (UTC) precedes it.

    Agents write events in Avro: --events fetches their schemas from the registry, and prints each
    event as a JSON object. Messages that are not events are skipped, with a line on stderr.

    With --json, each line is an object: partition, offset, timestamp, key, value, headers. Bytes
    that are not UTF-8 appear in base64 as key_base64 and value_base64. With --events, the object
    has event in place of value.

    With --avro-file, the events go into a container file for Hive, Spark and Java's tools, all in
    one version of the topic's schema. With --count or --to-end, the file appears when it is
    complete; otherwise it grows until Ctrl-C. Messages that do not fit the schema are reported on
    stderr, skipped and counted, and the exit code is 1.

    With --group, all consumers of that name share the topic's partitions. Printed messages are
    committed, so that a restarted consumer, or another that takes over, continues there. --from
    applies to partitions that the group has not read yet.

    \b
    Example:
        penstock consume page_views --from beginning --count 10 --events
        penstock consume page_views --from beginning --to-end | wc -l
        penstock consume page_views --from 2026-11-20T07:00:00Z --count 10 --json
        penstock consume page_views --from beginning --to-end --avro-file page_views.avro
        penstock consume page_views --group reports --zookeeper 127.0.0.1:2181/penstock
    """
    messages = _Range(topic, start, partitions, count, to_end=to_end)
    zookeeper_address = zookeeper_at(zookeeper, zookeeper_secret_file)
    if group is not None:
        zookeeper_address = zookeeper_address or needed_zookeeper(None, None)
        if to_end or partitions or avro_file is not None:
            raise click.UsageError(
                "--group excludes --to-end, --partition and --avro-file: the group assigns the "
                "partitions"
            )
    elif zookeeper_address is not None:
        raise click.UsageError("--zookeeper needs --group")
    if avro_file is not None:
        if events or key_separator is not None:
            raise click.UsageError("--avro-file excludes --events and --key-separator")
        if as_json and avro_file == STDOUT:
            raise click.UsageError("--json needs a file, but - is stdout")
        check_destination(avro_file, overwrite=overwrite)
        destination = _Destination(avro_file, schema_version or "latest", codec, overwrite)
        return _write_file(messages, destination, bootstrap, registry, as_json=as_json)
    if schema_version is not None or codec is not None or overwrite:
        raise click.UsageError("--schema-version, --codec and --overwrite need --avro-file")
    separator = key_separator.encode() if key_separator is not None else None
    with connected(bootstrap) as brokers, _decoding(registry if events else None) as decode:
        lines = MessageLines(topic, decode, separator, as_json=as_json)
        if group is None or zookeeper_address is None:
            _print_all(messages, lines, brokers)
        else:
            # Imported here because it needs kazoo, which other reads do not.
            from penstock.topics.consume_group import print_shared  # noqa: PLC0415

            print_shared(lines, brokers, zookeeper_address, group, start, count=count)
    return 0


class _Range(NamedTuple):
    """The messages to read."""

    topic: str
    start: Start
    partitions: tuple[int, ...]  # empty: all
    limit: int | None  # of messages
    to_end: bool

    def consumer(self, brokers: Brokers) -> Consumer:
        partitions = self.partitions or None
        return Consumer(brokers, self.topic, self.start, partitions, to_end=self.to_end)


class _Destination(NamedTuple):
    """The container file to write."""

    path: Path
    schema_version: Which
    codec: str | None
    overwrite: bool


def _write_file(
    messages: _Range, destination: _Destination, bootstrap: str, registry: str, *, as_json: bool
) -> int:
    # Imported here because Apache's avro is slow to import.
    from penstock.topics.avro_files.consume_to_file import FileConsumer  # noqa: PLC0415
    from penstock.topics.avro_files.topic_schema import version_of  # noqa: PLC0415

    with (
        connected(bootstrap) as brokers,
        registry_at(registry) as client,
        messages.consumer(brokers) as consumer,
    ):
        file_consumer = FileConsumer(
            messages.topic,
            destination.path,
            version_of(client, messages.topic, destination.schema_version),
            client,
            codec=destination.codec or AVRO_CODECS[0],
            overwrite=destination.overwrite,
            count=messages.limit,
            has_end=messages.to_end or messages.limit is not None,
        )
        return file_consumer.run(consumer, as_json=as_json)


def _print_all(messages: _Range, lines: MessageLines, brokers: Brokers) -> None:
    remaining_count = messages.limit
    with messages.consumer(brokers) as consumer:
        while not consumer.finished and remaining_count != 0:
            for message in consumer.poll(1.0):
                if remaining_count == 0:
                    break
                remaining_count = None if remaining_count is None else remaining_count - 1
                lines.add(message.partition, message.record)
            sys.stdout.flush()


@contextmanager
def _decoding(registry: str | None) -> Iterator[Decode | None]:
    """The decoder of events, if there is a registry."""
    if registry is None:
        yield None
        return
    # Imported here because reading bytes needs no Avro.
    from penstock.topics.event_lines import EventLines  # noqa: PLC0415

    with registry_at(registry) as client:
        yield EventLines(client).event
