"""The members of a group, and its lag and its reader in each partition."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.connection.brokers import Brokers
from client.groups.lag import Lag, lag
from client.groups.offsets import (
    Committed,
    GroupOfMembers,
    ListedGroup,
    MemberOfGroup,
    committed_offsets,
    describe_groups,
)
from client.producing.delivery import TopicPartition
from penstock.cli.failures import Failed

GROUP_COLUMNS = ("name", "kind", "state", "members", "coordinator")
PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "member")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")
WHY = "why"  # shown where there is something to say

_NAMED = 5  # of the members that are in the way

Row = dict[str, Any]


def listed_rows(
    listed: Iterable[ListedGroup], described: Mapping[str, GroupOfMembers]
) -> list[Row]:
    """Of a group that may not be described less is known; one that its coordinator lists and does
    not describe speaks a newer protocol."""
    return [_group(listing, described.get(listing.name)) for listing in listed]


def existing(brokers: Brokers, names: Sequence[str]) -> dict[str, GroupOfMembers]:
    """These groups, which there are."""
    found = describe_groups(brokers, names)
    missing = [name for name, group in found.items() if not group.is_there]
    if missing:
        raise Failed(f"no group {', '.join(missing)}: `penstock groups list` shows those there are")
    return found


def without_members(group: GroupOfMembers) -> None:
    """Raises Failed, which says who is in the way."""
    if not group.has_members:
        return
    count = len(group.members)
    names = [_named(member) for member in group.members[:_NAMED]]
    if count > _NAMED:
        names.append(f"and {count - _NAMED} more")
    raise Failed(
        f"group {group.name} has {count} member{'' if count == 1 else 's'}, who would go on where "
        f"they are: stop {'it' if count == 1 else 'them'} first: {', '.join(names) or group.state}"
    )


def standings(brokers: Brokers, names: Sequence[str]) -> list[Row]:
    groups = existing(brokers, names)
    committed = committed_offsets(brokers, groups)
    lags = lag(brokers, committed, time.time())
    return [
        {
            **_row(group),
            "rebalancing": group.is_rebalancing,
            "partitions": _partitions(group, committed[name], lags),
            "membership": [_member(member) for member in group.members],
        }
        for name, group in groups.items()
    ]


def _named(member: MemberOfGroup) -> str:
    who = member.instance_id or member.client_id
    return f"{who} at {member.host}" if member.host else who


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
    """Those that were committed, and those that somebody reads."""
    reader = {
        partition: member for member in group.members for partition in member.partitions or ()
    }
    rows = []
    for target in sorted({*committed, *reader}):
        member = reader.get(target)
        found = lags.get((group.name, target))
        rows.append(
            {
                "topic": target.topic,
                "partition": target.partition,
                "committed": committed[target].offset if target in committed else None,
                "end": found.end if found else None,
                "lag": found.messages if found else None,
                "lag_seconds": _rounded(found.seconds) if found else None,
                "member": member.member_id if member else None,
                WHY: _why(found),
            }
        )
    return rows


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _why(found: Lag | None) -> str:
    if found is None:
        return "nothing committed yet"
    if found.unknown:
        return found.unknown
    if found.begins is not None and found.committed < found.begins:
        missed = found.begins - found.committed
        return f"{missed:,} were removed before the group had read them"
    if found.end is not None and found.committed > found.end:
        return "the log ends before that: it has lost its end, or is another one"
    return ""
