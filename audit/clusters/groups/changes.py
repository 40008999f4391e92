"""What changed in consumer groups from one look to the next: members that came or went, partitions
that others have now. Pure.

Kafka's protocol does not tell a group's generation to those outside of it. So a rebalance is seen
by its result: while a group rebalances nothing is compared, and after it who has which partitions
is held against what was before. One that gives everybody what he had is not seen.
"""

from collections.abc import Mapping
from typing import Final

from audit.api.answers import Mark
from audit.clusters.groups.lags import GroupsSeen
from client.groups.offsets import EMPTY, STABLE, GroupOfMembers

_MOST_TOPICS: Final = 20  # of a group, in which it is marked
_MOST_MARKS: Final = 1_000  # of a look

Settled = Mapping[str, GroupOfMembers | None]  # groups as they were last at rest; None: no members


def settled(before: Settled, seen: GroupsSeen) -> dict[str, GroupOfMembers | None]:
    """Of a group that rebalances just now, or was not described, as it was before."""
    found: dict[str, GroupOfMembers | None] = {}
    for name, listed in seen.groups.items():
        group = seen.members.get(name)
        if listed.state == EMPTY:
            found[name] = None
        elif group is not None and group.state == STABLE:
            found[name] = group
        elif name in before:
            found[name] = before[name]
    return found


def changes(cluster: str, before: Settled, now: Settled, seen: GroupsSeen) -> list[Mark]:
    """One mark for each topic that a changed group reads. Groups that were not known before are
    none."""
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
    """Empty if nothing changed."""
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
    return frozenset((each.member_id, each.partitions) for each in group.members)
