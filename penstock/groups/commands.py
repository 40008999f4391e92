"""`penstock groups list`, `describe`, `delete`: asked of a cluster's brokers."""

from collections.abc import Iterable
from contextlib import suppress

import click

from client.connection.brokers import Brokers
from client.errors import ErrorCode, NotAllowed, Refused
from client.groups.changes import delete_group
from client.groups.offsets import GroupOfMembers, describe_groups, list_groups
from penstock.cli.completion import words
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.output import json_option, print_json, print_table, say
from penstock.connections.cluster import bootstrap_option, connected, typed_bootstrap
from penstock.groups.progress import (
    GROUP_COLUMNS,
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    WHY,
    Row,
    existing,
    listed_rows,
    standings,
    without_members,
)


def existing_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For completion: the cluster's groups, if it answers quickly."""

    def groups() -> Iterable[str]:
        with connected(typed_bootstrap(context)) as brokers:
            return [list_group.name for list_group in list_groups(brokers)]

    with context.scope(cleanup=False):  # whose options name the credentials
        return words(groups, incomplete)


@click.command()
@bootstrap_option
@json_option
def list_groups_command(bootstrap: str, as_json: bool) -> None:
    """List all groups, of both kinds.

    Members of a `kafka` group are told by a broker what to read: those of Kafka's clients, and of
    Kafka Connect and others. Members of a `penstock` group find it out by ZooKeeper: `penstock
    consume --group`. A group without members has its offsets until they expire.

    \b
    Example:
        penstock groups list
        penstock groups list --json | jq -r '.[] | select(.state == "Empty").name'
    """
    with connected(bootstrap) as brokers:
        listed = list_groups(brokers)
        described: dict[str, GroupOfMembers] = {}
        with suppress(NotAllowed):  # who may list all groups need not be one who may look into them
            described = describe_groups(brokers, [listing.name for listing in listed])
        rows = listed_rows(listed, described)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(GROUP_COLUMNS, rows)
    else:
        click.echo("no groups", err=True)


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…", shell_complete=existing_groups)
@bootstrap_option
@json_option
def describe(groups: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show groups: how far each is in each partition, who reads it, and who its members are.

    `committed` is the next offset to be read, `end` where the log ends. `lag` is how many messages
    are between, and `lag seconds` how long ago the first of them was written.

    \b
    Example:
        penstock groups describe billing
        penstock groups describe billing --json | jq '[.[].partitions[].lag] | add'
    """
    with connected(bootstrap) as brokers:
        found = standings(brokers, list(dict.fromkeys(groups)))
    if as_json:
        print_json(found)
        return
    for number, row in enumerate(found):
        if number:
            print()
        _print(row)


def _print(row: Row) -> None:
    print_table(GROUP_COLUMNS, [row])
    if row["rebalancing"]:
        say(f"{row['name']} rebalances: who reads what is known when all its members have come")
    partitions = row["partitions"]
    if partitions:
        print()
        is_well = not any(partition[WHY] for partition in partitions)
        print_table(PARTITION_COLUMNS if is_well else (*PARTITION_COLUMNS, WHY), partitions)
    members = [
        member | {"partitions": None if member["partitions"] is None else len(member["partitions"])}
        for member in row["membership"]
    ]
    if members:
        print()
        print_table(MEMBER_COLUMNS, members)


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…", shell_complete=existing_groups)
@yes_option
@bootstrap_option
@json_option
def delete(*, groups: tuple[str, ...], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete groups without members, and how far they have read.

    Who comes back under that name begins where a new group does.

    \b
    Example:
        penstock groups delete billing
        penstock groups delete billing reports --yes
    """
    with connected(bootstrap) as brokers:
        for group in existing(brokers, groups).values():
            without_members(group)
        if not yes:
            confirm_deletion(f"{', '.join(groups)} and all offsets, for good")
        for name in dict.fromkeys(groups):
            _delete(brokers, name)
            if not as_json:
                say(f"deleted {name}")
    if as_json:
        print_json({"deleted": list(dict.fromkeys(groups))})


def _delete(brokers: Brokers, name: str) -> None:
    try:
        delete_group(brokers, name)
    except Refused as error:
        if error.code is ErrorCode.non_empty_group:  # since it was looked at
            without_members(existing(brokers, [name])[name])
        raise
