"""Groups of the paper's kind in ZooKeeper: members that coordinate without a coordinator.

    /consumers/{group}                      GroupNode: its kind is PENSTOCK, nobody coordinates it
    /consumers/{group}/ids/{member}         ephemeral: which topics a member subscribes to
    /consumers/{group}/owners/{topic}       which topic of that name is read
    /consumers/{group}/owners/{topic}/{p}   ephemeral: who owns, and so reads, the partition
    /consumers/{group}/offsets/{topic}/{p}  as in groups of the other kind

Rule 1: a member's id is never used again: its next session has another. So a transaction that
        checks the node of an id happens in the lifetime of that session, or not at all. All that
        is written here checks it. Who has lost his session, and does not know, is Fenced.
Rule 2: nobody but a member removes its claim, as long as its session lives. So whoever has created
        an owner's node is the only owner until he deletes it or his session ends.
Rule 3: a commit checks the owner's node of each partition, and which topic of that name it is.
Rule 4: a claim that is given up is given up once: if the answer was lost, what is to be deleted is
        read anew, since another member's claim may stand there by now.

When a topic was deleted and another one has its name, the first member that sees it removes the
offsets of the one before. Everything blocks; any thread may call it, one at a time for each member.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from cluster import groups, nodes, paths
from cluster.errors import (
    Cause,
    Conflict,
    Fenced,
    GroupHasMembers,
    MapMissing,
    OtherGroupKind,
    Unanswered,
    Unavailable,
)
from cluster.nodes import GroupNode, MemberNode, OwnedTopicNode, OwnerNode, TopicNode
from cluster.operations import Check, Create, Delete, Operation, Set, in_transactions
from cluster.session import OnChange, Session
from cluster.values import (
    NOBODY,
    CommittedOffset,
    GroupInfo,
    GroupKind,
    Membership,
    OwnedTopic,
    TopicPartition,
)

_ATTEMPTS: Final = 10  # at what others change at the same time
_TOGETHER: Final = 1_000  # partitions of one transaction

T = TypeVar("T")


def join(session: Session, group: str, member: str, topics: Iterable[str]) -> Membership:
    """Register, under an id that nobody has ever had; the group is made if it is not there.

    Raises OtherGroupKind; Unavailable if the session ends meanwhile.
    """
    path, ids = paths.group_id(group, member), paths.group_ids(group)
    data = nodes.encode(MemberNode(topics=tuple(sorted(topics))))
    for attempt in range(_ATTEMPTS):
        _make_group(session, group)
        create = Create(path, data, ephemeral=True)
        operations = [*_not_empty(session, group), Check(ids), create]
        try:
            session.write(operations, done=partial(_stands, session, create))
        except Conflict as conflict:
            passes = conflict.cause in {Cause.MISSING, Cause.CHANGED}
            if not passes or attempt == _ATTEMPTS - 1:
                raise
            session.sync()
        else:
            break
    node, session_id = session.read(path), session.session_id
    if node is None or session_id is None or node.owner != session_id:
        raise Unavailable(f"the session with {session.address} ended while {member} joined")
    return Membership(group, member, session_id)


def leave(session: Session, membership: Membership, claims: Collection[TopicPartition]) -> None:
    """Give up all claims, and then the membership. That it was lost is no error."""
    try:
        release(session, membership, claims)
        path = paths.group_id(membership.group, membership.member)
        session.write([Delete(path)], done=lambda: not session.exists(path))
    except Conflict:  # it has ended by itself
        return


def members(
    session: Session,
    group: str,
    known: Mapping[str, tuple[str, ...]],
    on_change: OnChange | None = None,
) -> dict[str, tuple[str, ...]]:
    """Who is there, and subscribes to what; only those who are not `known` are read."""
    ids = paths.group_ids(group)
    names = session.start_children(ids, on_change).get(session.timeout_s) or ()
    present = {paths.member_of(name): f"{ids}/{name}" for name in names}
    unknown = [member for member in present if member not in known]
    found = {member: known[member] for member in present if member in known}
    nodes_found = session.read_all([present[member] for member in unknown])
    for member, node in zip(unknown, nodes_found, strict=True):
        if node is not None:  # else: it has gone again, and the watch says so
            found[member] = nodes.decode(present[member], node.data, MemberNode).topics
    return found


def topic_of(
    session: Session, topic: str, on_change: OnChange | None = None
) -> tuple[UUID, int] | None:
    """A topic's id and how many partitions it has; None while there is none."""
    path = paths.topic(topic)
    while (node := session.start_read(path, on_change).get(session.timeout_s)) is None:
        if not session.start_exists(path, on_change).get(session.timeout_s):
            return None
    found = nodes.decode(path, node.data, TopicNode)
    return None if found.replicas is None else (found.topic_id, len(found.replicas))


def open_topic(
    session: Session, membership: Membership, topic: str, topic_id: UUID, partitions: int
) -> OwnedTopic:
    """The topic as the group reads it, which may have begun with another one of that name.

    Raises Fenced.
    """
    path = paths.topic_owners(membership.group, topic)
    for attempt in range(_ATTEMPTS):
        node = session.read(path)
        if node is None:
            new = nodes.encode(OwnedTopicNode(topic_id=topic_id, partitions=partitions))
            operations: list[Operation] = [Create(path, new)]
            before: list[Operation] = []
        else:
            known = nodes.decode(path, node.data, OwnedTopicNode)
            if known.topic_id == topic_id:
                return OwnedTopic(topic, node.version, known.partitions)
            # Nobody has chosen where to begin in what has taken the topic's place.
            new = nodes.encode(OwnedTopicNode(topic_id=topic_id, partitions=0))
            operations = [Set(path, new, node.version)]
            offsets = paths.topic_offsets(membership.group, topic)
            before = [Delete(f"{offsets}/{each}") for each in session.children(offsets) or ()]
            if len(before) <= _TOGETHER:
                operations, before = [*before, *operations], []
        try:
            for piece in in_transactions(before):
                _write(session, membership, [Check(path, node.version if node else -1), *piece])
            _write(session, membership, operations)
        except Fenced:
            raise
        except Conflict:  # another member has done the same
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    raise AssertionError("unreachable")


def owned(
    session: Session, group: str, topic: str, on_change: OnChange | None = None
) -> frozenset[int]:
    """Which partitions have an owner."""
    path = paths.topic_owners(group, topic)
    names = session.start_children(path, on_change).get(session.timeout_s) or ()
    return frozenset(int(name) for name in names if name.isdecimal())


def claim(
    session: Session, membership: Membership, topic: OwnedTopic, partitions: Iterable[int]
) -> frozenset[int]:
    """Become the owner of these partitions, as far as nobody else is; which of them one owns now.

    Raises Fenced.
    """
    claimed: set[int] = set()
    for together in _pieces(sorted(partitions)):
        claimed |= _claim(session, membership, topic, together)
    if session.session_id != membership.session_id:
        raise fenced(session, membership.member, membership.group)
    return frozenset(claimed)


def release(session: Session, membership: Membership, partitions: Iterable[TopicPartition]) -> None:
    """Give them up; what is not owned (any more) is none of our business. Raises Fenced."""
    left = {paths.partition_owner(membership.group, *each): None for each in sorted(partitions)}
    for together in _pieces(list(left)):
        for attempt in range(_ATTEMPTS):
            mine = _mine(session, membership, together)
            if not mine:
                break
            try:
                _write(session, membership, [Delete(path) for path in mine])
                break
            except Fenced:
                raise
            except (Conflict, Unanswered):
                if attempt == _ATTEMPTS - 1:
                    raise
                session.sync()


def commit(
    session: Session,
    membership: Membership,
    topics: Mapping[str, OwnedTopic],
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> None:
    """Write down how far these partitions were read, if they are ours: all of at most 1,000 in one
    transaction, or else nothing and Fenced."""
    for together in _pieces(sorted(offsets)):
        _commit(session, membership, topics, {each: offsets[each] for each in together})


def delete_group(session: Session, name: str) -> bool:
    """Remove a group of this kind that has no members; whether there was one.

    Raises GroupHasMembers, OtherGroupKind.
    """
    taken = groups.take_over(session, name, NOBODY, GroupKind.PENSTOCK)
    if taken is None:
        return False
    ids = paths.group_ids(name)
    try:
        session.write([Delete(ids)], done=lambda: not session.exists(ids))
    except Conflict as conflict:
        if conflict.cause is not Cause.MISSING:
            raise GroupHasMembers(
                f"group {name!r} has members: it can be deleted when they have left"
            ) from None
    groups.delete_group(session, taken[0])
    return True


def _make_group(session: Session, name: str) -> None:
    """With all that is in one of this kind. Raises OtherGroupKind."""
    path = paths.group(name)
    below = [paths.group_offsets(name), paths.group_ids(name), paths.group_owners(name)]
    while True:
        node = session.read(path)
        if node is not None:
            kind = nodes.decode(path, node.data, GroupNode).kind
            if kind is not GroupKind.PENSTOCK:
                raise OtherGroupKind(
                    f"group {name!r} is one of {kind.value}'s consumers, "
                    f"{GroupKind.PENSTOCK.value}'s cannot join it: use another group, or delete "
                    "this one"
                )
        there = [session.exists(each) for each in below]
        missing = [
            Create(each) for each, is_there in zip(below, there, strict=True) if not is_there
        ]
        if node is not None and not missing:
            return
        new = GroupInfo(name=name, kind=GroupKind.PENSTOCK, coordinator=NOBODY)
        first = [] if node is not None else [Create(path, nodes.encode(nodes.group_node(new)))]
        try:
            session.write([*first, *missing], done=lambda: False)
        except Conflict as conflict:
            if not session.exists(paths.CONSUMERS):
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {paths.CONSUMERS}: no broker has "
                    "used it yet, or it was wiped"
                ) from None
            if conflict.cause not in {Cause.EXISTS, Cause.MISSING}:
                raise
            session.sync()  # somebody does the same just now


def _not_empty(session: Session, name: str) -> list[Operation]:
    """To take back that it is without members, if somebody has noted that."""
    path = paths.group(name)
    node = session.read(path)
    info = nodes.group_info(name, nodes.decode(path, node.data, GroupNode)) if node else None
    if node is None or info is None or info.empty_since_ms is None:
        return []
    present = nodes.group_node(replace(info, empty_since_ms=None))
    return [Set(path, nodes.encode(present), node.version)]


def _claim(
    session: Session, membership: Membership, topic: OwnedTopic, partitions: Sequence[int]
) -> set[int]:
    data = nodes.encode(OwnerNode(member=membership.member))
    by_path = {
        paths.partition_owner(membership.group, topic.name, each): each for each in partitions
    }
    claimed: set[int] = set()
    for _ in range(_ATTEMPTS):
        found = zip(by_path, session.read_all(list(by_path)), strict=True)
        free: list[Operation] = []
        for path, node in found:
            if node is None:
                free.append(Create(path, data, ephemeral=True))
            elif node.data == data and node.owner == membership.session_id:
                claimed.add(by_path[path])
            elif node.owner == membership.session_id:  # a claim of our own, of no use to anybody
                free += [Delete(path, node.version), Create(path, data, ephemeral=True)]
        if not free:
            return claimed
        try:
            _write(session, membership, [_check(membership, topic), *free])
        except Fenced:
            raise
        except Conflict as conflict:
            if conflict.path == paths.topic_owners(membership.group, topic.name):
                return claimed  # another topic by now
            session.sync()
        except Unanswered:
            session.sync()
        else:
            return claimed | {by_path[each.path] for each in free if isinstance(each, Create)}
    return claimed


def _commit(
    session: Session,
    membership: Membership,
    topics: Mapping[str, OwnedTopic],
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> None:
    group = membership.group
    names = sorted({each.topic for each in offsets})
    checks: list[Operation] = [_check(membership, topics[name]) for name in names]
    owners = {each: paths.partition_owner(group, *each) for each in offsets}
    checks += [Check(path) for path in owners.values()]
    guarded = {each.path for each in checks}
    data = {each: nodes.encode_offset(offset) for each, offset in offsets.items()}
    there = set(offsets)  # almost always
    for attempt in range(_ATTEMPTS):
        writes: list[Operation] = []
        for name in names:
            parent = paths.topic_offsets(group, name)
            wanted = [each for each in offsets if each.topic == name]
            if there.isdisjoint(wanted) and not session.exists(parent):
                writes.append(Create(parent))
            writes += [
                (Set if each in there else Create)(f"{parent}/{each.partition}", data[each])
                for each in wanted
            ]
        try:
            return _write(
                session, membership, [*checks, *writes], partial(session.stand, tuple(writes))
            )
        except Fenced:
            raise
        except Conflict as conflict:
            if conflict.path in guarded:
                raise fenced(session, membership.member, membership.group, conflict) from None
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
            there = _with_offset(session, group, list(offsets))
    return None


def _with_offset(
    session: Session, group: str, partitions: Sequence[TopicPartition]
) -> set[TopicPartition]:
    nodes_of = [f"{paths.topic_offsets(group, topic)}/{number}" for topic, number in partitions]
    found = zip(partitions, session.read_all(nodes_of), strict=True)
    return {each for each, node in found if node is not None}


def _check(membership: Membership, topic: OwnedTopic) -> Check:
    return Check(paths.topic_owners(membership.group, topic.name), topic.version)


def _mine(session: Session, membership: Membership, owners: Sequence[str]) -> list[str]:
    """Those nodes of owners that are this member's."""
    data = nodes.encode(OwnerNode(member=membership.member))
    found = zip(owners, session.read_all(owners), strict=True)
    return [path for path, node in found if node is not None and node.data == data]


def _write(
    session: Session,
    membership: Membership,
    operations: Sequence[Operation],
    done: Callable[[], bool] | None = None,
) -> None:
    """In one transaction, if the membership stands; else Fenced."""
    path = paths.group_id(membership.group, membership.member)
    try:
        session.write([Check(path), *operations], done)
    except Conflict as conflict:
        if conflict.path != path:
            raise
        raise fenced(session, membership.member, membership.group, conflict) from None


def fenced(session: Session, member: str, group: str, conflict: Conflict | None = None) -> Fenced:
    """What is raised when a member's id, or its claim, is not there any more."""
    return Fenced(
        f"{member} of group {group!r} has lost its session or its claim at {session.address}",
        conflict.path if conflict else paths.group_id(group, member),
        conflict.cause if conflict else Cause.MISSING,
    )


def _pieces(sequence: Sequence[T]) -> Iterable[Sequence[T]]:
    return (sequence[at : at + _TOGETHER] for at in range(0, len(sequence), _TOGETHER))


def _stands(session: Session, create: Create) -> bool:
    node = session.read(create.path)
    return node is not None and node.data == create.data
