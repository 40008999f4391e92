"""`penstock consume`: messages in, lines out, or a container file of Avro's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

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

# The first is what every implementation of Avro can read, and smaller than the next.
AVRO_CODECS: Final = ("deflate", "null", "snappy", "zstandard", "bzip2")


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
            return AtTime(time_millis(value))
        except ValueError:
            self.fail(
                f"{value!r} is none of beginning, end, an offset, a time like 2026-11-20T07:00:00Z"
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
    help="Where to begin in each partition; a time is UTC unless it says otherwise.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after this many messages.")
@click.option("--to-end", is_flag=True, help="Stop where the topic ends now.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this one; may be repeated.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Share the topic with the others of this group, and go on where it stopped. Needs "
    "--zookeeper.",
)
@click.option("--key-separator", metavar="TEXT", help="Print the key and this before each value.")
@click.option("--events", is_flag=True, help="Print events as JSON, by the schemas they name.")
@click.option(
    "--avro-file",
    "avro_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write events into this container file of Avro's instead (- for stdout).",
)
@click.option(
    "--schema-version",
    type=VERSION,
    metavar="N|latest",
    help="The version of the topic's schema that the file has; without it, the latest.",
)
@click.option(
    "--codec",
    type=click.Choice(AVRO_CODECS),
    help=f"How the file's blocks are compressed; without it, {AVRO_CODECS[0]}.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there already.")
@bootstrap_option
@zookeeper_options("The brokers' ZooKeeper, through which a group's members share the topic.")
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
    """Read a topic: each message's value as a line, as it comes, until Ctrl-C.

    Without --from it begins with what is written from now on. On a terminal each message's time
    (UTC) stands before it.

    What agents write are events in Avro: --events asks the registry for their schemas, and prints
    each as an object. A message that is not an event is skipped, with a line on stderr.

    With --json a line is an object: partition, offset, timestamp, key, value, headers; bytes that
    are no UTF-8 are there in base64, under key_base64 and value_base64. With --events, too, it has
    event in place of value.

    With --avro-file the events go into a container file, as Hive, Spark and Java's tools read it,
    all by one version of the topic's schema. With --count or --to-end the file is there when it is
    complete; otherwise it grows until Ctrl-C. What cannot be in it is said on stderr, passed over
    and counted, and the exit code is 1.

    With --group all that run with the same name share the topic's partitions, each of which one of
    them reads; what was printed is committed, so that who is started again, or takes over, goes on
    there. --from is for partitions that the group has not read yet.

    \b
    Example:
        penstock consume page_views --from beginning --count 10 --events
        penstock consume page_views --from beginning --to-end | wc -l
        penstock consume page_views --from 2026-11-20T07:00:00Z --count 10 --json
        penstock consume page_views --from beginning --to-end --avro-file page_views.avro
        penstock consume page_views --group reports --zookeeper 127.0.0.1:2181/penstock
    """
    there = zookeeper_at(zookeeper, zookeeper_secret_file)
    if group is not None:
        there = there or needed_zookeeper(None, None)
        if to_end or partitions or avro_file is not None:
            raise click.UsageError(
                "--group goes with none of --to-end, --partition and --avro-file: which partitions "
                "one reads, the group says"
            )
    elif there is not None:
        raise click.UsageError("--zookeeper goes with --group")
    if avro_file is not None:
        if events or key_separator is not None:
            raise click.UsageError("--avro-file goes with neither --events nor --key-separator")
        if as_json and avro_file == STDOUT:
            raise click.UsageError("--json goes with a file, and - is stdout")
        check_destination(avro_file, overwrite=overwrite)
        # Nobody else waits for Apache's avro to be imported.
        from penstock.topics.avro_files.consume_to_file import Receiving  # noqa: PLC0415
        from penstock.topics.avro_files.topic_schema import version_of  # noqa: PLC0415

        with (
            connected(bootstrap) as brokers,
            registry_at(registry) as client,
            Consumer(brokers, topic, start, partitions or None, to_end=to_end) as consumer,
        ):
            receiving = Receiving(
                topic,
                avro_file,
                version_of(client, topic, schema_version or "latest"),
                client,
                codec=codec or AVRO_CODECS[0],
                overwrite=overwrite,
                count=count,
                has_end=to_end or count is not None,
            )
            return receiving.run(consumer, as_json=as_json)
    if schema_version is not None or codec is not None or overwrite:
        raise click.UsageError("--schema-version, --codec and --overwrite go with --avro-file")
    separator = key_separator.encode() if key_separator is not None else None
    with connected(bootstrap) as brokers, _decoding(registry if events else None) as decode:
        lines = MessageLines(topic, decode, separator, as_json=as_json)
        if group is not None and there is not None:
            # Whoever reads alone needs no kazoo.
            from penstock.topics.consume_group import print_shared  # noqa: PLC0415

            print_shared(lines, brokers, there, group, start, count=count)
            return 0
        left = count
        with Consumer(brokers, topic, start, partitions or None, to_end=to_end) as consumer:
            while not consumer.finished and left != 0:
                for message in consumer.poll(1.0):
                    if left == 0:
                        break
                    left = None if left is None else left - 1
                    lines.add(message.partition, message.record)
                sys.stdout.flush()
    return 0


@contextmanager
def _decoding(registry: str | None) -> Iterator[Decode | None]:
    """What makes events of values, if there is a registry to be asked."""
    if registry is None:
        yield None
        return
    # Whoever wants bytes waits for no Avro to be imported.
    from penstock.topics.event_lines import EventLines  # noqa: PLC0415

    with registry_at(registry) as client:
        yield EventLines(client).event
