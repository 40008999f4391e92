"""`penstock load` and its options."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import click

import columns.system_memory  # noqa: F401  must come first
from client.errors import ClientError
from ground.printable import one_line
from loader.config import LoaderConfig
from loader.errors import LoaderError, StoreError, cure_of, reason_of
from loader.run.load_context import LoadRequest
from loader.spark.java_classes import JavaClasses
from loader.spark.packing import cache_directory, pack_environment
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder, hour_in_folder
from penstock.cli.event_log import LogFormat
from penstock.cli.output import json_option, print_json, print_table
from penstock.cli.time_arguments import EveryType
from penstock.config.options import configuration_options, configured, log_format_option
from penstock.services.load.program import LoadProgram
from penstock.services.load.progress import watching
from penstock.services.load.spark import SparkJvm
from penstock.services.load.summary import EndedLoad, document, show, show_plan
from schemas.errors import RegistryError

_HOURS_OF_A_DAY: Final = 24


class HoursType(click.ParamType[tuple[Hour, ...]]):
    """The folder of an hour or of a day."""

    name = "hours"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Hour, ...]:
        hours = _hours(value.strip("/"))
        if not hours:
            self.fail(f"{value!r} is not a folder such as dt=2026-11-20/hour=07, or dt=2026-11-20")
        return hours


class CheckedHoursType(click.ParamType[tuple[Hour, ...]]):
    """The folder of an hour or of a day, or `all`, for which the result is empty."""

    name = "hours"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Hour, ...]:
        return () if value == "all" else HoursType().convert(value, param, ctx)


class NamesType(click.ParamType[tuple[str, ...]]):
    """Names or patterns, separated by commas."""

    name = "names"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name")
        return names


def _hours(folder: str) -> tuple[Hour, ...]:
    """The hours of a folder; none if it is not named exactly like the loader's folders."""
    first_hour = folder if "/" in folder else f"{folder}/hour=00"
    try:
        start = hour_in_folder(first_hour)
    except ValueError:
        return ()
    if hour_folder(start) != first_hour:
        return ()
    count = 1 if first_hour is folder else _HOURS_OF_A_DAY
    return tuple(Hour(start + index * HOUR_MILLIS) for index in range(count))


def sorted_once(options: tuple[tuple[Hour, ...], ...]) -> tuple[Hour, ...]:
    """Returns the hours of all options, sorted and without repetition."""
    return tuple(sorted({hour for hours in options for hour in hours}))


@click.command()
@configuration_options
@click.option(
    "--topics",
    type=NamesType(),
    multiple=True,
    metavar="NAME,…",
    help="Only these of the configured tables: names, or patterns such as app.*; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be read, and write nothing.")
@click.option(
    "--every",
    type=EveryType(),
    metavar="TIME",
    help="Load now, and then at all multiples of 30m, 1h, 1d … since midnight UTC.",
)
@click.option(
    "--max-records",
    type=click.IntRange(1),
    metavar="N",
    help="Load at most about N records of each table.",
)
@click.option(
    "--accept-gap/--fail-on-gap",
    default=False,
    show_default=True,
    help="Whether to continue after messages that the brokers have lost.",
)
@click.option(
    "--rebuild",
    type=HoursType(),
    multiple=True,
    metavar="HOUR",
    help="Rewrite whole hours: dt=2026-11-20/hour=07, or dt=2026-11-20; may be repeated.",
)
@click.option(
    "--remove-rows",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Let a rebuild remove up to N rows that the brokers no longer have.",
)
@click.option(
    "--check-files",
    type=CheckedHoursType(),
    multiple=True,
    metavar="HOUR|all",
    help="Load nothing, and compare the files of these hours with what was committed.",
)
@click.option(
    "--upgrade-schema",
    is_flag=True,
    help="Load, then rewrite all hours whose files lack columns or have narrower ones.",
)
@click.option("--pack-env", is_flag=True, help="Ship this Python environment to Spark's executors.")
@click.option(
    "--stage-spark",
    is_flag=True,
    help="Load nothing, and copy Spark, and what --pack-env ships, to `spark.staged` for YARN.",
)
@log_format_option
@json_option
def command(
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    topics: tuple[tuple[str, ...], ...],
    dry_run: bool,
    every: int | None,
    max_records: int | None,
    accept_gap: bool,
    rebuild: tuple[tuple[Hour, ...], ...],
    remove_rows: int,
    check_files: tuple[tuple[Hour, ...], ...],
    upgrade_schema: bool,
    pack_env: bool,
    stage_spark: bool,
    log_format: LogFormat,
    as_json: bool,
) -> int:
    """Load the events of topics into a Hadoop filesystem, each exactly once.

    `penstock keys loader` explains every key of the file, as docs/loader-configuration.md does.

    --rebuild waits up to ten minutes for a loader on this host that is loading the table. It
    removes no rows that the brokers no longer have, unless --remove-rows allows for as many; the
    replaced files then stay below _penstock/TABLE/replaced for 30 days.

    --upgrade-schema rewrites the files of former schemas, so that each file has all columns of the
    table in their present types, for readers that cannot combine files. It can be stopped, and
    continues with the hours that are left.

    Exit code 3: there was nothing to do; 4: the brokers have lost events; 5: another loader is
    running; 6: too many events cannot be decoded; 7: Spark failed; 8: landed files differ from what
    was committed.

    \b
    Example:
        penstock load --config loader.yaml
        penstock load --config loader.yaml --dry-run
        penstock load --config loader.yaml --every 1h
        penstock load --config loader.yaml --topics page_views --rebuild dt=2026-11-20/hour=07
        penstock load --config loader.yaml --check-files all
        penstock load --config loader.yaml --topics page_views --upgrade-schema
        penstock load --config loader.yaml --stage-spark --pack-env
    """
    if check_files and (every or max_records or accept_gap or rebuild or dry_run or upgrade_schema):
        raise click.UsageError("--check-files loads nothing: it can be combined with --topics only")
    if rebuild and (every or max_records):
        raise click.UsageError("--rebuild excludes --every and --max-records")
    if upgrade_schema and (every or rebuild or dry_run):
        raise click.UsageError("--upgrade-schema excludes --every, --rebuild and --dry-run")
    if rebuild and not topics:
        raise click.UsageError("--rebuild needs --topics: the tables with these hours")
    if remove_rows and not rebuild:
        raise click.UsageError("--remove-rows needs --rebuild")
    if every and accept_gap:
        raise click.UsageError(
            "--every excludes --accept-gap, which would also accept all future losses"
        )
    if stage_spark and (topics or every or max_records or rebuild or check_files or dry_run):
        raise click.UsageError("--stage-spark loads nothing: it can be combined with --pack-env")
    configuration = configured(LoaderConfig, config, overrides)
    if stage_spark:
        return _stage(configuration, pack=pack_env, as_json=as_json)
    request = LoadRequest(
        tables=tuple(chain.from_iterable(topics)),
        accept_gap=accept_gap,
        max_records=max_records,
        rebuild=sorted_once(rebuild),
        remove_rows=remove_rows,
        check_files=_hours_to_check(check_files),
        dry_run=dry_run,
        upgrade_schema=upgrade_schema,
        config_options=() if config is None else config_options(config, overrides),
        every=every or 0,
    )
    tell = partial(_tell, config=configuration, as_json=as_json, dry_run=dry_run)
    try:
        with LoadProgram(
            configuration,
            request,
            watching(log_format),
            pack=pack_env,
            hurried=every is not None or sys.stderr.isatty(),
        ) as program:
            if every:
                return program.repeatedly(every, tell)
            ended_load = program.once()
        tell(ended_load)
    except LoaderError as error:
        return failed(error, error.exit_code)
    if ended_load.error is not None:
        return failed(ended_load.error, ended_load.exit_code)
    return ended_load.exit_code


def _stage(config: LoaderConfig, *, pack: bool, as_json: bool) -> int:
    try:
        if not config.spark.staged:
            raise LoaderError("`spark.staged` must name the folder, such as hdfs:///apps/penstock")
        packed = pack_environment(cache_directory(os.environ)) if pack else None
        with SparkJvm(config, JavaClasses(None, makes=False)) as jvm:
            files = jvm.stage(packed)
    except LoaderError as error:
        click.echo(f"penstock: {one_line(reason_of(error))}", err=True)
        return error.exit_code
    rows = [
        {"file": file.uri, "bytes": file.bytes, "state": "uploaded" if file.is_new else "exists"}
        for file in files
    ]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table(("file", "bytes", "state"), rows)
    return 0


def config_options(config: Path, overrides: Sequence[str]) -> tuple[str, ...]:
    """The options that name the configuration and, as it decides what is repaired, the root. Other
    overrides may be secrets."""
    roots = [override for override in overrides if override.startswith("root=")]
    return ("--config", str(config.absolute()), *chain(*(("--set", root) for root in roots[-1:])))


def _hours_to_check(options: tuple[tuple[Hour, ...], ...]) -> tuple[Hour, ...] | None:
    """The hours of --check-files; empty for all, None without the option."""
    if not options:
        return None
    return sorted_once(options) if all(options) else ()


def failed(error: Exception, exit_code: int) -> int:
    click.echo(f"penstock: {one_line(reason_of(error))}", err=True)
    if isinstance(error, (StoreError, ClientError, RegistryError)):
        click.echo(f"  what to do: {cure_of(error, '')}", err=True)
    return exit_code


def _tell(ended: EndedLoad, *, config: LoaderConfig, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(document(ended, config))
    elif ended.error is None and dry_run:
        show_plan(ended.outcomes)
    elif ended.error is None:
        show(ended.outcomes)
