"""`penstock groups reset`, `export` and `import`: reads and sets the offsets of groups."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from client.connection.brokers import Brokers
from client.errors import ErrorCode, Refused
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import committed_offsets, describe_groups, list_groups
from client.producing.delivery import TopicPartition
from client.reading.offsets import AtOffset, AtTime, Beginning, End
from penstock.cli.confirmation import confirm, yes_option
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.cli.time_arguments import DurationType, TimeType
from penstock.connections.cluster import bootstrap_option, connected
from penstock.groups import offset_files
from penstock.groups.commands import existing_groups
from penstock.groups.progress import WHY, existing, without_members
from penstock.groups.targets import (
    Ago,
    Change,
    Given,
    Shift,
    To,
    changes,
    chosen,
)
from penstock.groups.topic_arguments import TopicArgument, topics_option

COLUMNS: Final = ("group", "topic", "partition", "before", "after")

F = TypeVar("F", bound=Callable[..., Any])
Plans = Mapping[str, list[Change]]


def _to_options(command: F) -> F:
    """The options for the new position, of which exactly one is given."""
    file = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option("--to-beginning", is_flag=True, help="The beginning of the log."),
        click.option("--to-end", is_flag=True, help="The end of the log."),
        click.option("--to-offset", type=click.IntRange(0), metavar="N", help="This offset."),
        click.option(
            "--to-time",
            type=TimeType(),
            metavar="TIME",
            help="The first message of this time or later; UTC unless it carries an offset.",
        ),
        click.option(
            "--by-duration",
            type=DurationType(),
            metavar="D",
            help="The first message written within this duration: 90s, 15m, 2h, 7d, P1DT6H.",
        ),
        click.option("--shift", type=int, metavar="N", help="N messages forward; -N is back."),
        click.option(
            "--from-file",
            type=file,
            metavar="FILE",
            help="A file from `groups export` or Kafka's tool.",
        ),
    )[::-1]:
        command = option(command)
    return command


def _changing_options(command: F) -> F:
    dry_run = click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
    return dry_run(yes_option(bootstrap_option(json_option(command))))


@click.command()
@click.argument("group", shell_complete=existing_groups)
@topics_option()
@click.option("--all-topics", is_flag=True, help="All partitions with committed offsets.")
@_to_options
@click.option("--new", is_flag=True, help="Create the group if it does not exist.")
@_changing_options
def reset(
    *,
    group: str,
    topics: tuple[TopicArgument, ...],
    all_topics: bool,
    to_beginning: bool,
    to_end: bool,
    to_offset: int | None,
    to_time: int | None,
    by_duration: int | None,
    shift: int | None,
    from_file: Path | None,
    new: bool,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Set the offsets of a group that has no members.

    Shows the changes and asks for confirmation. An offset outside the log becomes its beginning or
    end.

    \b
    Example:
        penstock groups reset billing --all-topics --to-time 2026-11-20T07:00:00Z --dry-run
        penstock groups reset billing --topic page_views:0,3 --to-beginning
        penstock groups reset billing --all-topics --shift -100 --yes
    """
    target = _one_of(
        {
            "--to-beginning": Beginning() if to_beginning else None,
            "--to-end": End() if to_end else None,
            "--to-offset": None if to_offset is None else AtOffset(to_offset),
            "--to-time": None if to_time is None else AtTime(to_time),
            "--by-duration": None if by_duration is None else Ago(by_duration),
            "--shift": None if shift is None else Shift(shift),
            "--from-file": None if from_file is None else _given(from_file, group),
        }
    )
    if isinstance(target, Given):
        if topics or all_topics:
            raise click.UsageError(
                "--from-file names the partitions: omit --topic and --all-topics"
            )
    elif bool(topics) == all_topics:
        raise click.UsageError("name the topics: pass either --topic or --all-topics")
    with connected(bootstrap) as brokers:
        if new:
            _check_members(brokers, group)
        else:
            without_members(existing(brokers, [group])[group])
        current_offsets = _committed(brokers, group)
        targets = (
            sorted(target.offsets)
            if isinstance(target, Given)
            else chosen(brokers, group, None if all_topics else topics, current_offsets)
        )
        plans = {group: changes(brokers, target, targets, current_offsets)}
        _carry_out(brokers, plans, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command()
@click.argument("groups", nargs=-1, metavar="GROUP…", shell_complete=existing_groups)
@click.option("--all", "all_groups", is_flag=True, help="All groups.")
@bootstrap_option
@json_option
def export(*, groups: tuple[str, ...], all_groups: bool, bootstrap: str, as_json: bool) -> None:
    """Print the offsets of groups, for `import`: lines of group, topic, partition, offset.

    Apache Kafka's tool reads them, too (--reset-offsets --from-file).

    \b
    Example:
        penstock groups export billing > billing.csv
        penstock groups export --all > groups.csv
    """
    if bool(groups) == all_groups:
        raise click.UsageError("name the groups, or pass --all")
    with connected(bootstrap) as brokers:
        if all_groups:
            names = [group.name for group in list_groups(brokers)]
        else:
            names = list(existing(brokers, groups))
        rows = [
            {
                "group": name,
                "topic": target.topic,
                "partition": target.partition,
                "offset": offset.offset,
            }
            for name, offsets in committed_offsets(brokers, names).items()
            for target, offset in offsets.items()
        ]
    if as_json:
        print_json(rows)
    else:
        offset_files.write_csv(sys.stdout, rows)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@_changing_options
def import_offsets(*, file: Path, dry_run: bool, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Set the offsets of groups from the output of `export`. Missing groups are created.

    None of them may have members. All are checked before any is changed.

    \b
    Example:
        penstock groups import groups.csv --dry-run
        penstock groups import groups.csv --yes
    """
    offsets_by_group = offset_files.read(file)
    with connected(bootstrap) as brokers:
        for name in offsets_by_group:
            _check_members(brokers, name)
        plans = {
            name: changes(brokers, Given(offsets), sorted(offsets), _committed(brokers, name))
            for name, offsets in offsets_by_group.items()
        }
        _carry_out(brokers, plans, dry_run=dry_run, yes=yes, as_json=as_json)


def _one_of(options: Mapping[str, To | None]) -> To:
    passed_options = {name: target for name, target in options.items() if target is not None}
    if len(passed_options) != 1:
        surplus = f", not {' and '.join(passed_options)}" if passed_options else ""
        raise click.UsageError(f"pass one of {', '.join(options)}{surplus}")
    return next(iter(passed_options.values()))


def _given(path: Path, group: str) -> Given:
    offsets = offset_files.read(path, alone=group)
    if group not in offsets:
        raise Failed(f"{path}: no offsets of group {group}, only of {', '.join(offsets)}")
    return Given(offsets[group])


def _check_members(brokers: Brokers, name: str) -> None:
    """Raise Failed if the group, which need not exist, has members."""
    without_members(describe_groups(brokers, [name])[name])


def _committed(brokers: Brokers, name: str) -> dict[TopicPartition, int]:
    by_partition = committed_offsets(brokers, [name])[name]
    return {target: offset.offset for target, offset in by_partition.items()}


def _carry_out(brokers: Brokers, plans: Plans, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    rows = [_row(group, change) for group, plan in plans.items() for change in plan]
    if not as_json:
        is_plain = not any(row[WHY] for row in rows)
        print_table(COLUMNS if is_plain else (*COLUMNS, WHY), rows)
    if not dry_run:
        if not yes:
            names = ", ".join(plans)
            confirm(f"set {len(rows)} offsets of {names}?", "nothing was changed")
        for group, plan in plans.items():
            _commit(brokers, group, plan)
            if not as_json:
                say(f"set {group}: offsets {len(plan)}")
    if as_json:
        print_json({"dry_run": dry_run, "offsets": rows})


def _row(group: str, change: Change) -> dict[str, object]:
    return {
        "group": group,
        "topic": change.target.topic,
        "partition": change.target.partition,
        "before": change.before,
        "after": change.after,
        WHY: change.why,
    }


def _commit(brokers: Brokers, group: str, plan: list[Change]) -> None:
    try:
        commit_offsets(brokers, group, {change.target: Consumed(change.after) for change in plan})
    except Refused as error:
        if error.code is ErrorCode.unknown_member_id:  # a member has joined since the check
            _check_members(brokers, group)
        raise
