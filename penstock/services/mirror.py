"""`penstock mirror`: one worker that copies topics of a cluster into another one."""

from pathlib import Path

import click

from mirror.config import MirrorConfig
from mirror.program import run
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.config.options import configuration_options, configured, log_format_option


@click.command
@configuration_options
@click.option(
    "--accept-gap",
    "gaps",
    multiple=True,
    metavar="TOPIC[:PARTITION]",
    help="Go on behind one gap in each of its partitions; may be repeated.",
)
@log_format_option
def command(
    *, config: Path | None, overrides: tuple[str, ...], gaps: tuple[str, ...], log_format: LogFormat
) -> int:
    """Copy topics of a cluster into another one until SIGTERM or Ctrl-C: same partitions, same
    offsets, same bytes.

    `penstock keys mirror` explains every key of the file, as docs/mirror.md does.

    \b
    Example:
        penstock mirror --config mirror.yaml
        penstock mirror --config mirror.yaml --accept-gap dc1.page_views:3
    """
    loaded = configured(MirrorConfig, config, overrides)
    accepted = [_gap(each) for each in gaps]
    log_to_stderr(log_format)
    return run(loaded, accepted)


def _gap(text: str) -> tuple[str, int | None]:
    topic, colon, partition = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not partition.isascii() or not partition.isdigit():
        raise click.UsageError(f"--accept-gap {text}: give TOPIC or TOPIC:PARTITION")
    return topic, int(partition)
