"""Compares consumer groups between two polls: members that joined or left, and partitions that were
reassigned. Pure.

Kafka's protocol does not tell a group's generation to outsiders. So a rebalance is seen by its
result: during the rebalance nothing is compared, and afterwards the assignment is compared with the
one before. A rebalance with the same assignment is not seen.
"""

from collections.abc import Mapping
from typing import Final

from audit.api.answers import Mark
from audit.clusters.groups.lags import GroupsSeen
from client.groups.offsets import EMPTY, STABLE, GroupOfMembers

_MOST_TOPICS: Final = 20  # marks of a group, one for each topic
_MOST_MARKS: Final = 1_000  # of a poll

Settled = Mapping[str, GroupOfMembers | None]  # groups when last stable; None: no members


def settled(before: Settled, seen: GroupsSeen) -> dict[str, GroupOfMembers | None]:
    """Returns the stable state of groups; a group that is rebalancing, or was not described, keeps
    its previous state."""
    groups: dict[str, GroupOfMembers | None] = {}
    for name, listed_group in seen.groups.items():
        group = seen.members.get(name)
        if listed_group.state == EMPTY:
            groups[name] = None
        elif group is not None and group.state == STABLE:
            groups[name] = group
        elif name in before:
            groups[name] = before[name]
    return groups


def changes(cluster: str, before: Settled, now: Settled, seen: GroupsSeen) -> list[Mark]:
    """Returns a mark for each topic that a changed group reads. New groups have no marks."""
    topics: dict[str, list[str]] = {}
    for row in seen.rows:
        topics.setdefault(row.group, []).append(row.topic)
    marks = []
    for name, group in now.items():
        if name not in before or not (words := _words(before[name], group)):
            continue
        marks += [
            Mark(
                time=seen.looked,
                kind="group",
                cluster=cluster,
                topic=topic,
                group=name,
                words=f"Group {name} {words}",
            )
            for topic in sorted(topics.get(name, [""]))[:_MOST_TOPICS]
        ]
    return marks[:_MOST_MARKS]


def _words(before: GroupOfMembers | None, group: GroupOfMembers | None) -> str:
    """Describes the change of a group; empty if there is none."""
    if group is None:
        return "stopped: it has no members" if before is not None else ""
    count = _members(len(group.members))
    if before is None:
        return f"started with {count}"
    if _assigned(before) == _assigned(group):
        return ""
    if len(before.members) != len(group.members):
        return f"rebalanced: {count}, before {len(before.members):,}"
    return f"rebalanced: {count}, as before"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count:,} members"


def _assigned(group: GroupOfMembers) -> frozenset[tuple[object, ...]]:
    return frozenset((member.member_id, member.partitions) for member in group.members)
