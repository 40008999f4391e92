"""`penstock changes`: shows entries of administration logs, from files or from a topic."""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from ground.administration.entries import OK, Entry, Kind
from penstock.changes.filters import COLUMNS, EntryFilter, SinceType, entry_time, row
from penstock.changes.log_files import LogFile, default_places
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, existing_topics
from penstock.connections.registry import registry_option


@click.command()
@click.argument(
    "files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE]…"
)
@click.option(
    "--since", type=SinceType(), metavar="TIME", help="Only since this time: a time, 2h, 7d."
)
@click.option("--until", type=SinceType(), metavar="TIME", help="Only before this time.")
@click.option("--who", metavar="NAME", help="Only by this principal or from this address.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([str(kind) for kind in Kind]),
    multiple=True,
    help="Only changes of this kind; may be repeated.",
)
@click.option(
    "--name", metavar="NAME", help="Only of this topic, user, subject …; * is a wildcard."
)
@click.option("--refused", is_flag=True, help="Only refused requests.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N.")
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=existing_topics,
    help="Read the records in this topic instead of files.",
)
@bootstrap_option
@registry_option
@json_option
def command(
    *,
    files: tuple[Path, ...],
    since: int | None,
    until: int | None,
    who: str | None,
    kinds: tuple[str, ...],
    name: str | None,
    refused: bool,
    last: int | None,
    topic: str | None,
    bootstrap: str,
    registry: str,
    as_json: bool,
) -> None:
    """Show who changed which topic, config, ACL, user, quota or schema: when, from where, how.

    Brokers and registries record changes in files named administration.log. Without FILE, the
    command reads those of this machine: of the `penstock up` whose `environment` the shell has
    read, or else of that in this directory, and below /var/lib/penstock, which needs sudo. Rotated
    files are included. With --topic, it reads the records that agents have shipped from all
    brokers.

    Entries are shown oldest first, including refused requests. --who and --name may contain *. With
    --json, each line is an object, as in the log.

    \b
    Example:
        penstock changes --since 2h
        penstock changes --name page_views --kind topic_config
        penstock changes administration.log --refused --last 20
        penstock changes --topic administration --who alice --since yesterday
    """
    entry_filter = EntryFilter(
        since="" if since is None else entry_time(since),
        until="" if until is None else entry_time(until),
        who=who or "",
        kinds=kinds,
        name=name or "",
        refused=refused,
    )
    if topic is not None:
        if files:
            raise click.UsageError("--topic excludes files")
        # Imported here because files need no Avro.
        from penstock.changes.shipped_logs import ShippedEntries  # noqa: PLC0415

        shipped_entries = ShippedEntries(bootstrap, registry, topic, since)
        _show(shipped_entries, entry_filter, last, as_json=as_json)
        _report_skipped(topic, shipped_entries.others)
        return
    logs = [LogFile(path) for path in files or default_places()]
    if not logs:
        raise Failed(
            "no administration log of `penstock up` here (read its `environment`) or below "
            "/var/lib/penstock: pass a file (a broker's is in its `data_dir`), or --topic"
        )
    _show(heapq.merge(*logs, key=lambda entry: entry.time), entry_filter, last, as_json=as_json)
    for log in logs:
        _report_skipped(str(log.path), log.others)


def _show(
    entries: Iterable[Entry], entry_filter: EntryFilter, last: int | None, *, as_json: bool
) -> None:
    chosen_entries: Iterable[Entry] = filter(entry_filter.takes, entries)
    if last is not None:
        chosen_entries = deque(chosen_entries, maxlen=last)
    if as_json:
        for entry in chosen_entries:
            print_json(msgspec.to_builtins(entry))
        return
    listed_entries: Sequence[Entry] = tuple(chosen_entries)
    if listed_entries:
        colours = {entry.result: "red" for entry in listed_entries if entry.result != OK}
        print_table(COLUMNS, [row(entry) for entry in listed_entries], styles=colours)
    else:
        click.echo("no changes", err=True)


def _report_skipped(where: str, count: int) -> None:
    if count:
        click.echo(f"penstock: {where}: skipped {count} lines that are not entries", err=True)
