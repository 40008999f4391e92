"""`penstock groups reset`, `export`, `import`: where a group without members is to go on."""

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
    """Exactly one of them is said."""
    file = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option("--to-beginning", is_flag=True, help="All that the log has, again."),
        click.option("--to-end", is_flag=True, help="Only what is written from now on."),
        click.option("--to-offset", type=click.IntRange(0), metavar="N", help="This offset."),
        click.option(
            "--to-time",
            type=TimeType(),
            metavar="TIME",
            help="The first message of this time or later; it is UTC unless it says otherwise.",
        ),
        click.option(
            "--by-duration",
            type=DurationType(),
            metavar="D",
            help="The first message of so long ago or later: 90s, 15m, 2h, 7d, P1DT6H.",
        ),
        click.option("--shift", type=int, metavar="N", help="So many messages on; -N is back."),
        click.option(
            "--from-file",
            type=file,
            metavar="FILE",
            help="What `groups export`, or Kafka's tool, has written.",
        ),
    )[::-1]:
        command = option(command)
    return command


def _changing_options(command: F) -> F:
    dry = click.option("--dry-run", is_flag=True, help="Only show what would be changed.")
    return dry(yes_option(bootstrap_option(json_option(command))))


@click.command()
@click.argument("group", shell_complete=existing_groups)
@topics_option()
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@_to_options
@click.option("--new", is_flag=True, help="Make the group if there is none of that name.")
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
    """Set where a group goes on, while it has no members.

    What would be changed is shown, and then asked about. An offset that the log does not have
    becomes its beginning or its end.

    \b
    Example:
        penstock groups reset billing --all-topics --to-time 2026-11-20T07:00:00Z --dry-run
        penstock groups reset billing --topic page_views:0,3 --to-beginning
        penstock groups reset billing --all-topics --shift -100 --yes
    """
    to = _one_of(
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
    if isinstance(to, Given):
        if topics or all_topics:
            raise click.UsageError("--from-file says which partitions: leave the topics out")
    elif bool(topics) == all_topics:
        raise click.UsageError("say which topics: either --topic or --all-topics")
    with connected(bootstrap) as brokers:
        if new:
            _check_members(brokers, group)
        else:
            without_members(existing(brokers, [group])[group])
        committed = _committed(brokers, group)
        targets = (
            sorted(to.offsets)
            if isinstance(to, Given)
            else chosen(brokers, group, None if all_topics else topics, committed)
        )
        plans = {group: changes(brokers, to, targets, committed)}
        _carry_out(brokers, plans, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command()
@click.argument("groups", nargs=-1, metavar="GROUP…", shell_complete=existing_groups)
@click.option("--all", "all_groups", is_flag=True, help="All groups that there are.")
@bootstrap_option
@json_option
def export(*, groups: tuple[str, ...], all_groups: bool, bootstrap: str, as_json: bool) -> None:
    """Print how far groups are, for `import`: lines of group, topic, partition, offset.

    Apache Kafka's tool reads them too (--reset-offsets --from-file).

    \b
    Example:
        penstock groups export billing > billing.csv
        penstock groups export --all > groups.csv
    """
    if bool(groups) == all_groups:
        raise click.UsageError("say which groups: either their names or --all")
    with connected(bootstrap) as brokers:
        if all_groups:
            names = [list_group.name for list_group in list_groups(brokers)]
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
    """Set groups to what `export` has written. Those that are not there are made.

    None of them may have members. All are looked at before any is changed.

    \b
    Example:
        penstock groups import groups.csv --dry-run
        penstock groups import groups.csv --yes
    """
    wanted = offset_files.read(file)
    with connected(bootstrap) as brokers:
        for name in wanted:
            _check_members(brokers, name)
        plans = {
            name: changes(brokers, Given(offsets), sorted(offsets), _committed(brokers, name))
            for name, offsets in wanted.items()
        }
        _carry_out(brokers, plans, dry_run=dry_run, yes=yes, as_json=as_json)


def _one_of(said: Mapping[str, To | None]) -> To:
    given = {name: to for name, to in said.items() if to is not None}
    if len(given) != 1:
        which = f", not {' and '.join(given)}" if given else ""
        raise click.UsageError(f"say where to go on with one of {', '.join(said)}{which}")
    return next(iter(given.values()))


def _given(path: Path, group: str) -> Given:
    found = offset_files.read(path, alone=group)
    if group not in found:
        raise Failed(f"{path}: nothing of group {group}, only of {', '.join(found)}")
    return Given(found[group])


def _check_members(brokers: Brokers, name: str) -> None:
    """Of a group that may not be there."""
    without_members(describe_groups(brokers, [name])[name])


def _committed(brokers: Brokers, name: str) -> dict[TopicPartition, int]:
    found = committed_offsets(brokers, [name])[name]
    return {target: committed.offset for target, committed in found.items()}


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
        if error.code is ErrorCode.unknown_member_id:  # somebody has come since
            _check_members(brokers, group)
        raise
