"""`penstock groups list`, `describe` and `delete`."""

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
    described_rows,
    existing,
    listed_rows,
    without_members,
)


def existing_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Returns the cluster's groups for completion, if the cluster answers quickly."""

    def groups() -> Iterable[str]:
        with connected(typed_bootstrap(context)) as brokers:
            return [group.name for group in list_groups(brokers)]

    with context.scope(cleanup=False):  # its options name the credentials
        return words(groups, incomplete)


@click.command()
@bootstrap_option
@json_option
def list_groups_command(bootstrap: str, as_json: bool) -> None:
    """List all groups, of both kinds.

    The partitions of a `kafka` group are assigned by a broker: it is a group of Kafka's clients, of
    Kafka Connect or the like. Members of a `penstock` group (`penstock consume --group`) share them
    through ZooKeeper. A group without members keeps its offsets until they expire.

    \b
    Example:
        penstock groups list
        penstock groups list --json | jq -r '.[] | select(.state == "Empty").name'
    """
    with connected(bootstrap) as brokers:
        listings = list_groups(brokers)
        descriptions: dict[str, GroupOfMembers] = {}
        with suppress(NotAllowed):  # describing groups is another right than listing them
            descriptions = describe_groups(brokers, [listing.name for listing in listings])
        rows = listed_rows(listings, descriptions)
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
    """Show groups: their progress and reader in each partition, and their members.

    `committed` is the next offset to read, `end` the end of the log. `lag` is the number of
    messages between them, and `lag seconds` the age of the first of these.

    \b
    Example:
        penstock groups describe billing
        penstock groups describe billing --json | jq '[.[].partitions[].lag] | add'
    """
    with connected(bootstrap) as brokers:
        rows = described_rows(brokers, list(dict.fromkeys(groups)))
    if as_json:
        print_json(rows)
        return
    for index, row in enumerate(rows):
        if index:
            print()
        _print(row)


def _print(row: Row) -> None:
    print_table(GROUP_COLUMNS, [row])
    if row["rebalancing"]:
        say(f"{row['name']} is rebalancing: partitions are assigned when all members have joined")
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
    """Delete groups without members, along with their offsets.

    A consumer that returns under that name starts like a new group.

    \b
    Example:
        penstock groups delete billing
        penstock groups delete billing reports --yes
    """
    with connected(bootstrap) as brokers:
        for group in existing(brokers, groups).values():
            without_members(group)
        if not yes:
            confirm_deletion(f"{', '.join(groups)} with all offsets, irreversibly")
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
        if error.code is ErrorCode.non_empty_group:  # a member has joined since the check
            without_members(existing(brokers, [name])[name])
        raise
