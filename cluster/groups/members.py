"""Penstock's consumer groups in ZooKeeper: members that share partitions without a coordinator.

    /consumers/{group}                      GroupNode of kind PENSTOCK, without a coordinator
    /consumers/{group}/ids/{member}         ephemeral: a member's subscriptions
    /consumers/{group}/owners/{topic}       the id of the topic being read
    /consumers/{group}/owners/{topic}/{p}   ephemeral: the owner, and so the reader, of a partition
    /consumers/{group}/offsets/{topic}/{p}  as in groups of the other kind

Rule 1: a member's id is never reused: its next session has another one. So a transaction that
        checks the id's node happens within that session, or not at all. All writes here check it. A
        member that has lost its session unnoticed is Fenced.
Rule 2: only a member removes its claim while its session lives. So the creator of an owner's node
        is the only owner until it deletes the node or its session ends.
Rule 3: a commit checks the owner's node of each partition, and the topic's id.
Rule 4: a claim is given up once: if the answer was lost, the nodes to delete are read again, since
        another member's claim may be there by now.

When a topic was deleted and recreated, the first member that sees it removes the old offsets.
Everything blocks; any thread may call it, one at a time for each member.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

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
from cluster.groups import groups
from cluster.layout import nodes, paths
from cluster.layout.nodes import GroupNode, MemberNode, OwnedTopicNode, OwnerNode, TopicNode
from cluster.session.operations import Check, Create, Delete, Operation, Set, in_transactions
from cluster.session.session import OnChange, Session
from cluster.values import (
    NOBODY,
    CommittedOffset,
    GroupInfo,
    GroupKind,
    Membership,
    OwnedTopic,
    TopicPartition,
)

_ATTEMPTS: Final = 10  # at concurrently changed nodes
_TOGETHER: Final = 1_000  # partitions per transaction

T = TypeVar("T")


def join(session: Session, group: str, member: str, topics: Iterable[str]) -> Membership:
    """Registers a member under a new id, which is never reused; creates the group if necessary.

    Raises OtherGroupKind; Unavailable if the session ends meanwhile.
    """
    path, ids = paths.group_id(group, member), paths.group_ids(group)
    data = nodes.encode(MemberNode(topics=tuple(sorted(topics))))
    for attempt in range(_ATTEMPTS):
        _make_group(session, group)
        creation = Create(path, data, ephemeral=True)
        operations = [*_not_empty(session, group), Check(ids), creation]
        try:
            session.write(operations, done=partial(_stands, session, creation))
        except Conflict as conflict:
            is_temporary = conflict.cause in {Cause.MISSING, Cause.CHANGED}
            if not is_temporary or attempt == _ATTEMPTS - 1:
                raise
            session.sync()
        else:
            break
    node, session_id = session.read(path), session.session_id
    if node is None or session_id is None or node.owner != session_id:
        raise Unavailable(f"the session with {session.address} ended while {member} joined")
    return Membership(group, member, session_id)


def leave(session: Session, membership: Membership, claims: Collection[TopicPartition]) -> None:
    """Releases all claims of a member, then leaves the group. Does nothing if the membership was
    already lost."""
    try:
        release(session, membership, claims)
        path = paths.group_id(membership.group, membership.member)
        session.write([Delete(path)], done=lambda: not session.exists(path))
    except Conflict:  # already ended
        return


def members(
    session: Session,
    group: str,
    known: Mapping[str, tuple[str, ...]],
    on_change: OnChange | None = None,
) -> dict[str, tuple[str, ...]]:
    """Returns the subscriptions of all members. `known` has those that were read before and need
    not be read again."""
    ids = paths.group_ids(group)
    names = session.start_children(ids, on_change).get(session.timeout_s) or ()
    paths_by_member = {paths.member_of(name): f"{ids}/{name}" for name in names}
    new_members = [member for member in paths_by_member if member not in known]
    subscriptions = {member: known[member] for member in paths_by_member if member in known}
    member_nodes = session.read_all([paths_by_member[member] for member in new_members])
    for member, node in zip(new_members, member_nodes, strict=True):
        if node is not None:  # otherwise it has left again, which triggers the watch
            subscriptions[member] = nodes.decode(
                paths_by_member[member], node.data, MemberNode
            ).topics
    return subscriptions


def topic_of(
    session: Session, topic: str, on_change: OnChange | None = None
) -> tuple[UUID, int] | None:
    """A topic's id and number of partitions; None if it does not exist."""
    path = paths.topic(topic)
    while (node := session.start_read(path, on_change).get(session.timeout_s)) is None:
        if not session.start_exists(path, on_change).get(session.timeout_s):
            return None
    topic_node = nodes.decode(path, node.data, TopicNode)
    return None if topic_node.replicas is None else (topic_node.topic_id, len(topic_node.replicas))


def open_topic(
    session: Session, membership: Membership, topic: str, topic_id: UUID, partitions: int
) -> OwnedTopic:
    """Returns the topic as the group reads it. If the group began with an earlier topic of that
    name, first resets it to the new one.

    Raises Fenced.
    """
    path = paths.topic_owners(membership.group, topic)
    for attempt in range(_ATTEMPTS):
        node = session.read(path)
        if node is None:
            data = nodes.encode(OwnedTopicNode(topic_id=topic_id, partitions=partitions))
            operations: list[Operation] = [Create(path, data)]
            deletions: list[Operation] = []
        else:
            owned_topic = nodes.decode(path, node.data, OwnedTopicNode)
            if owned_topic.topic_id == topic_id:
                return OwnedTopic(topic, node.version, owned_topic.partitions)
            # There are no start offsets for the recreated topic.
            data = nodes.encode(OwnedTopicNode(topic_id=topic_id, partitions=0))
            operations = [Set(path, data, node.version)]
            offsets = paths.topic_offsets(membership.group, topic)
            deletions = [Delete(f"{offsets}/{name}") for name in session.children(offsets) or ()]
            if len(deletions) <= _TOGETHER:
                operations, deletions = [*deletions, *operations], []
        try:
            for piece in in_transactions(deletions):
                _write(session, membership, [Check(path, node.version if node else -1), *piece])
            _write(session, membership, operations)
        except Fenced:
            raise
        except Conflict:  # another member was faster
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    raise AssertionError("unreachable")


def owned(
    session: Session, group: str, topic: str, on_change: OnChange | None = None
) -> frozenset[int]:
    """Returns the partitions that have an owner."""
    path = paths.topic_owners(group, topic)
    names = session.start_children(path, on_change).get(session.timeout_s) or ()
    return frozenset(int(name) for name in names if name.isdecimal())


def claim(
    session: Session, membership: Membership, topic: OwnedTopic, partitions: Iterable[int]
) -> frozenset[int]:
    """Claims partitions that have no owner; returns those that this member owns now.

    Raises Fenced.
    """
    claimed_partitions: set[int] = set()
    for batch in _pieces(sorted(partitions)):
        claimed_partitions |= _claim(session, membership, topic, batch)
    if session.session_id != membership.session_id:
        raise fenced(session, membership.member, membership.group)
    return frozenset(claimed_partitions)


def release(session: Session, membership: Membership, partitions: Iterable[TopicPartition]) -> None:
    """Releases partitions; those of other owners are ignored. Raises Fenced."""
    owners = [paths.partition_owner(membership.group, *key) for key in sorted(set(partitions))]
    for batch in _pieces(owners):
        for attempt in range(_ATTEMPTS):
            own_owners = _own(session, membership, batch)
            if not own_owners:
                break
            try:
                _write(session, membership, [Delete(path) for path in own_owners])
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
    """Commits offsets of partitions that this member owns, up to 1,000 per transaction. Raises
    Fenced if a transaction was rejected; it then committed none of its offsets."""
    for batch in _pieces(sorted(offsets)):
        _commit(session, membership, topics, {partition: offsets[partition] for partition in batch})


def delete_group(session: Session, name: str) -> bool:
    """Removes a group of this kind that has no members; returns False if there is no such group.

    Raises GroupHasMembers, OtherGroupKind.
    """
    group = groups.take_over(session, name, NOBODY, GroupKind.PENSTOCK)
    if group is None:
        return False
    ids = paths.group_ids(name)
    try:
        session.write([Delete(ids)], done=lambda: not session.exists(ids))
    except Conflict as conflict:
        if conflict.cause is not Cause.MISSING:
            raise GroupHasMembers(
                f"group {name!r} has members: it can be deleted after they have left"
            ) from None
    groups.delete_group(session, group[0])
    return True


def _make_group(session: Session, name: str) -> None:
    """Create a group of this kind with all its nodes. Raises OtherGroupKind."""
    path = paths.group(name)
    folders = [paths.group_offsets(name), paths.group_ids(name), paths.group_owners(name)]
    while True:
        node = session.read(path)
        if node is not None:
            kind = nodes.decode(path, node.data, GroupNode).kind
            if kind is not GroupKind.PENSTOCK:
                raise OtherGroupKind(
                    f"group {name!r} is for {kind.value} consumers; "
                    f"{GroupKind.PENSTOCK.value} consumers cannot join it: use another group, or "
                    "delete this one"
                )
        answers = [session.exists(child) for child in folders]
        creations = [
            Create(child) for child, exists in zip(folders, answers, strict=True) if not exists
        ]
        if node is not None and not creations:
            return
        new = GroupInfo(name=name, kind=GroupKind.PENSTOCK, coordinator=NOBODY)
        first = [] if node is not None else [Create(path, nodes.encode(nodes.group_node(new)))]
        try:
            session.write([*first, *creations], done=lambda: False)
        except Conflict as conflict:
            if not session.exists(paths.CONSUMERS):
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {paths.CONSUMERS}: no broker has "
                    "used it yet, or it was wiped"
                ) from None
            if conflict.cause not in {Cause.EXISTS, Cause.MISSING}:
                raise
            session.sync()  # created concurrently


def _not_empty(session: Session, name: str) -> list[Operation]:
    """The write that removes the time since which the group is empty, if recorded."""
    path = paths.group(name)
    node = session.read(path)
    info = nodes.group_info(name, nodes.decode(path, node.data, GroupNode)) if node else None
    if node is None or info is None or info.empty_since_ms is None:
        return []
    group_node = nodes.group_node(replace(info, empty_since_ms=None))
    return [Set(path, nodes.encode(group_node), node.version)]


def _claim(
    session: Session, membership: Membership, topic: OwnedTopic, partitions: Sequence[int]
) -> set[int]:
    data = nodes.encode(OwnerNode(member=membership.member))
    by_path = {
        paths.partition_owner(membership.group, topic.name, partition): partition
        for partition in partitions
    }
    own_partitions: set[int] = set()
    for _ in range(_ATTEMPTS):
        owner_nodes = zip(by_path, session.read_all(list(by_path)), strict=True)
        claim_operations: list[Operation] = []
        for path, node in owner_nodes:
            if node is None:
                claim_operations.append(Create(path, data, ephemeral=True))
            elif node.data == data and node.owner == membership.session_id:
                own_partitions.add(by_path[path])
            elif node.owner == membership.session_id:  # a stale claim of our own session
                claim_operations += [Delete(path, node.version), Create(path, data, ephemeral=True)]
        if not claim_operations:
            return own_partitions
        try:
            _write(session, membership, [_check(membership, topic), *claim_operations])
        except Fenced:
            raise
        except Conflict as conflict:
            if conflict.path == paths.topic_owners(membership.group, topic.name):
                return own_partitions  # the topic was recreated
            session.sync()
        except Unanswered:
            session.sync()
        else:
            return own_partitions | {
                by_path[write.path] for write in claim_operations if isinstance(write, Create)
            }
    return own_partitions


def _commit(
    session: Session,
    membership: Membership,
    topics: Mapping[str, OwnedTopic],
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> None:
    group = membership.group
    names = sorted({partition.topic for partition in offsets})
    checks: list[Operation] = [_check(membership, topics[name]) for name in names]
    owners = {partition: paths.partition_owner(group, *partition) for partition in offsets}
    checks += [Check(path) for path in owners.values()]
    guarded_paths = {check.path for check in checks}
    data = {key: nodes.encode_offset(offset) for key, offset in offsets.items()}
    with_node = set(offsets)  # almost always
    for attempt in range(_ATTEMPTS):
        topic_writes: list[Operation] = []
        for name in names:
            parent = paths.topic_offsets(group, name)
            wanted = [partition for partition in offsets if partition.topic == name]
            if with_node.isdisjoint(wanted) and not session.exists(parent):
                topic_writes.append(Create(parent))
            topic_writes += [
                (Set if key in with_node else Create)(f"{parent}/{key.partition}", data[key])
                for key in wanted
            ]
        try:
            return _write(
                session,
                membership,
                [*checks, *topic_writes],
                partial(session.stand, tuple(topic_writes)),
            )
        except Fenced:
            raise
        except Conflict as conflict:
            if conflict.path in guarded_paths:
                raise fenced(session, membership.member, membership.group, conflict) from None
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
            with_node = _with_offset(session, group, list(offsets))
    return None


def _with_offset(
    session: Session, group: str, partitions: Sequence[TopicPartition]
) -> set[TopicPartition]:
    offset_paths = [f"{paths.topic_offsets(group, topic)}/{number}" for topic, number in partitions]
    offset_nodes = zip(partitions, session.read_all(offset_paths), strict=True)
    return {partition for partition, node in offset_nodes if node is not None}


def _check(membership: Membership, topic: OwnedTopic) -> Check:
    return Check(paths.topic_owners(membership.group, topic.name), topic.version)


def _own(session: Session, membership: Membership, owners: Sequence[str]) -> list[str]:
    """The owner nodes that belong to this member."""
    data = nodes.encode(OwnerNode(member=membership.member))
    owner_nodes = zip(owners, session.read_all(owners), strict=True)
    return [path for path, node in owner_nodes if node is not None and node.data == data]


def _write(
    session: Session,
    membership: Membership,
    operations: Sequence[Operation],
    done: Callable[[], bool] | None = None,
) -> None:
    """Write in one transaction if the membership still exists; otherwise raises Fenced."""
    path = paths.group_id(membership.group, membership.member)
    try:
        session.write([Check(path), *operations], done)
    except Conflict as conflict:
        if conflict.path != path:
            raise
        raise fenced(session, membership.member, membership.group, conflict) from None


def fenced(session: Session, member: str, group: str, conflict: Conflict | None = None) -> Fenced:
    """Returns the error for a member whose id or claim no longer exists."""
    return Fenced(
        f"{member} of group {group!r} has lost its session or its claim at {session.address}",
        conflict.path if conflict else paths.group_id(group, member),
        conflict.cause if conflict else Cause.MISSING,
    )


def _pieces(sequence: Sequence[T]) -> Iterable[Sequence[T]]:
    return (sequence[start : start + _TOGETHER] for start in range(0, len(sequence), _TOGETHER))


def _stands(session: Session, create: Create) -> bool:
    node = session.read(create.path)
    return node is not None and node.data == create.data
