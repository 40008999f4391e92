"""The members of groups, and their lag and reader in each partition."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.lag import Lag, lag
from client.groups.offsets import (
    Committed,
    GroupOfMembers,
    ListedGroup,
    MemberOfGroup,
    committed_offsets,
    describe_groups,
    list_groups,
)
from client.producing.delivery import TopicPartition
from ground.similar_names import did_you_mean
from penstock.cli.failures import Failed

GROUP_COLUMNS = ("name", "kind", "state", "members", "coordinator")
PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "member")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")
WHY = "why"  # shown if any row has it

_NAMED = 5  # members named in an error

Row = dict[str, Any]


def listed_rows(
    listed: Iterable[ListedGroup], described: Mapping[str, GroupOfMembers]
) -> list[Row]:
    """Returns rows of groups. Some columns are empty if the user may not describe a group, or if
    its members use a newer protocol."""
    return [_group(listing, described.get(listing.name)) for listing in listed]


def existing(brokers: Brokers, names: Sequence[str]) -> dict[str, GroupOfMembers]:
    """Returns the groups with these names. Raises Failed if one does not exist."""
    groups = describe_groups(brokers, names)
    missing_groups = [name for name, group in groups.items() if not group.is_there]
    if missing_groups:
        raise Failed(f"no group {', '.join(missing_groups)}{_like(brokers, missing_groups[0])}")
    return groups


def _like(brokers: Brokers, group: str) -> str:
    """The nearest name of a group, or how to list them, for the end of a message."""
    try:
        suggestion = did_you_mean(group, [listing.name for listing in list_groups(brokers)])
    except ClientError:
        suggestion = ""
    return suggestion or ": see `penstock groups list`"


def without_members(group: GroupOfMembers) -> None:
    """Checks that the group has no members. Raises Failed, naming them, if it has."""
    if not group.has_members:
        return
    count = len(group.members)
    names = [_named(member) for member in group.members[:_NAMED]]
    if count > _NAMED:
        names.append(f"and {count - _NAMED} more")
    raise Failed(
        f"group {group.name} has {count} member{'' if count == 1 else 's'}, which would overwrite "
        f"the offsets: stop {'it' if count == 1 else 'them'} first: "
        f"{', '.join(names) or group.state}"
    )


def described_rows(brokers: Brokers, names: Sequence[str]) -> list[Row]:
    groups = existing(brokers, names)
    offsets = committed_offsets(brokers, groups)
    lags = lag(brokers, offsets, time.time())
    return [
        {
            **_row(group),
            "rebalancing": group.is_rebalancing,
            "partitions": _partitions(group, offsets[name], lags),
            "membership": [_member(member) for member in group.members],
        }
        for name, group in groups.items()
    ]


def _named(member: MemberOfGroup) -> str:
    name = member.instance_id or member.client_id
    return f"{name} at {member.host}" if member.host else name


def _group(listed: ListedGroup, described: GroupOfMembers | None) -> Row:
    if described is not None and described.is_there:
        return _row(described)
    return {
        "name": listed.name,
        "kind": None if described is None else described.kind,
        "protocol_type": listed.protocol_type,
        "state": listed.state,
        "members": None,
        "coordinator": listed.coordinator,
    }


def _row(group: GroupOfMembers) -> Row:
    return {
        "name": group.name,
        "kind": group.kind,
        "protocol_type": group.protocol_type,
        "state": group.state,
        "members": len(group.members),
        "coordinator": group.coordinator,
    }


def _member(member: MemberOfGroup) -> Row:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host or None,
        "instance": member.instance_id,
        "topics": None if member.topics is None else list(member.topics),
        "partitions": None if member.partitions is None else [*map(str, member.partitions)],
    }


def _partitions(
    group: GroupOfMembers,
    committed: Mapping[TopicPartition, Committed],
    lags: Mapping[tuple[str, TopicPartition], Lag],
) -> list[Row]:
    """Rows of all partitions that have a committed offset or a reader."""
    reader = {
        partition: member for member in group.members for partition in member.partitions or ()
    }
    rows = []
    for target in sorted({*committed, *reader}):
        member = reader.get(target)
        partition_lag = lags.get((group.name, target))
        rows.append(
            {
                "topic": target.topic,
                "partition": target.partition,
                "committed": committed[target].offset if target in committed else None,
                "end": partition_lag.end if partition_lag else None,
                "lag": partition_lag.messages if partition_lag else None,
                "lag_seconds": _rounded(partition_lag.seconds) if partition_lag else None,
                "member": member.member_id if member else None,
                WHY: _why(partition_lag),
            }
        )
    return rows


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _why(partition_lag: Lag | None) -> str:
    if partition_lag is None:
        return "nothing committed yet"
    if partition_lag.unknown:
        return partition_lag.unknown
    if partition_lag.begins is not None and partition_lag.committed < partition_lag.begins:
        deleted_count = partition_lag.begins - partition_lag.committed
        return f"{deleted_count:,} messages were deleted before the group read them"
    if partition_lag.end is not None and partition_lag.committed > partition_lag.end:
        return "the log ends before that: it was truncated or recreated"
    return ""
