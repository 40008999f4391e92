"""`penstock mirror`: runs a worker. Its subcommands are in `mirrors/commands.py`."""

from pathlib import Path

import click

from mirror.config import MirrorConfig
from mirror.program import run
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.cli.lazy_group import Lazy, LazyGroup
from penstock.config.options import configuration_options, configured, log_format_option


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    sections={
        "Commands": {
            "status": Lazy("penstock.mirrors.commands:status", "Show a worker's progress."),
            "promote": Lazy("penstock.mirrors.commands:promote", "Open a copy for writing."),
            "demote": Lazy("penstock.mirrors.commands:demote", "Make a topic a copy again."),
            "pause": Lazy("penstock.mirrors.commands:pause", "Pause a copy."),
            "resume": Lazy("penstock.mirrors.commands:resume", "Resume a paused copy."),
        }
    },
)
@configuration_options
@click.option(
    "--accept-gap",
    "gaps",
    multiple=True,
    metavar="TOPIC[:PARTITION]",
    help="Continue after one gap in each of these partitions; may be repeated.",
)
@log_format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    gaps: tuple[str, ...],
    log_format: LogFormat,
) -> int:
    """Copy topics into another cluster until SIGTERM or Ctrl-C, or manage a copy.

    A copy has the same partitions, offsets and bytes.

    `penstock keys mirror` and docs/mirror-configuration.md explain the keys of the file.

    \b
    Example:
        penstock mirror --config mirror.yaml
        penstock mirror --config mirror.yaml --accept-gap dc1.page_views:3
        penstock mirror status --config mirror.yaml
        penstock mirror promote dc1.page_views --config mirror.yaml
    """
    if context.invoked_subcommand is not None:
        if config or overrides or gaps:
            raise click.UsageError(f"pass options after {context.invoked_subcommand}")
        return 0
    configuration = configured(MirrorConfig, config, overrides)
    accepted_gaps = [_gap(gap) for gap in gaps]
    log_to_stderr(log_format)
    return run(configuration, accepted_gaps)


def _gap(text: str) -> tuple[str, int | None]:
    topic, separator, partition = text.rpartition(":")
    if not separator:
        return text, None
    if not topic or not partition.isascii() or not partition.isdigit():
        raise click.UsageError(f"--accept-gap {text}: must be TOPIC or TOPIC:PARTITION")
    return topic, int(partition)
