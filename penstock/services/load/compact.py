"""`penstock compact`: joins the small files of a table's complete hours."""

import sys
from pathlib import Path

import click

import columns.system_memory  # noqa: F401  must come first
from loader.config import LoaderConfig
from loader.errors import LoaderError
from loader.run.load_context import Compaction, LoadRequest
from penstock.cli.event_log import LogFormat
from penstock.cli.output import json_option, print_json
from penstock.cli.size_arguments import SizeType
from penstock.cli.time_arguments import DurationType
from penstock.config.options import configuration_options, configured, log_format_option
from penstock.services.load.command import config_options, failed
from penstock.services.load.program import LoadProgram
from penstock.services.load.progress import watching
from penstock.services.load.summary import document, show_compacted


@click.command()
@click.argument("tables", metavar="TABLE…", nargs=-1, required=True)
@configuration_options
@click.option(
    "--older-than",
    type=DurationType(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Only hours that ended this long ago: 36h, 7d, 0s.",
)
@click.option(
    "--target-size",
    type=SizeType(),
    default="256MB",
    show_default=True,
    metavar="SIZE",
    help="Join files smaller than this to files of about this size.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be joined, and write nothing.")
@click.option("--pack-env", is_flag=True, help="Ship this Python environment to Spark's executors.")
@log_format_option
@json_option
def command(
    *,
    tables: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
    older_than: int,
    target_size: float,
    dry_run: bool,
    pack_env: bool,
    log_format: LogFormat,
    as_json: bool,
) -> int:
    """Join the small files of complete hours of these tables to fewer, larger files.

    A load merges the files of an hour when it closes the hour, to `completeness.merge_to`. This is
    for files that came later, or that are still too small for other reasons. It reads no topic.

    Up to 24 hours are rewritten at a time, each as a whole: rows and values are compared before
    the old files go, and _SUCCESS is away for the moment in which files are replaced. It can be
    stopped or killed, and continues with the hours that are left. An hour whose files are not as
    committed is left alone.

    The configuration is that of `penstock load`.

    Exit code 1: some hours could not be compacted; 3: there was nothing to do; 5: a loader is
    working on the table; 7: Spark failed; 8: landed files differ from what was committed.

    \b
    Example:
        penstock compact page_views --config loader.yaml --dry-run
        penstock compact page_views --config loader.yaml
        penstock compact page_views --config loader.yaml --older-than 30d --target-size 1GB
    """
    configuration = configured(LoaderConfig, config, overrides)
    request = LoadRequest(
        tables=tables,
        dry_run=dry_run,
        compaction=Compaction(older_than=older_than, target_bytes=int(target_size)),
        config_options=() if config is None else config_options(config, overrides),
    )
    try:
        with LoadProgram(
            configuration,
            request,
            watching(log_format),
            pack=pack_env,
            hurried=sys.stderr.isatty(),
        ) as program:
            ended_load = program.once()
    except LoaderError as error:
        return failed(error, error.exit_code)
    if as_json:
        print_json(document(ended_load, configuration))
    elif ended_load.error is None:
        show_compacted(ended_load.outcomes, dry_run=dry_run)
    if ended_load.error is not None:
        return failed(ended_load.error, ended_load.exit_code)
    return ended_load.exit_code
