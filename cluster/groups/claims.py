"""Penstock's consumer groups as operators see and change them, without being members.

A change that requires a group without members replaces its node `ids` in the same transaction,
which fails while that has children. A member that joins at the same moment finds another `ids` or
none, and registers again. So the group is empty when it is changed, or the change fails.

Everything blocks; any thread may call it.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from cluster.errors import Cause, Conflict, GroupHasMembers
from cluster.groups import groups
from cluster.groups import members as group_members
from cluster.layout import nodes, paths
from cluster.layout.nodes import GroupNode, MemberNode, OwnedTopicNode, OwnerNode
from cluster.session.operations import Check, Create, Delete, Operation, Set, in_transactions
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupInfo, GroupKind, TopicPartition

_ATTEMPTS: Final = 10  # at concurrently changed nodes
_TOGETHER: Final = 1_000  # partitions per transaction


class Claims(msgspec.Struct, frozen=True):
    """The members of a group with their subscriptions, and the owners of partitions."""

    members: Mapping[str, tuple[str, ...]]
    owners: Mapping[TopicPartition, str]


def read_claims(session: Session, name: str) -> Claims | None:
    """Returns the claims of a group; None if there is no group of this kind. The result may include
    only some of the changes made during the call."""
    if _read_info(session, name) is None:
        return None
    ids = paths.group_ids(name)
    segments = session.children(ids) or ()
    answers = zip(
        segments, session.read_all([f"{ids}/{segment}" for segment in segments]), strict=True
    )
    members = {
        paths.member_of(segment): nodes.decode(f"{ids}/{segment}", node.data, MemberNode).topics
        for segment, node in answers
        if node is not None
    }
    return Claims(members, _owners(session, name))


def without_members(session: Session, names: Sequence[str]) -> list[bool]:
    """Returns for each of these groups whether it has no members."""
    return [not ids for ids in session.children_of_all([*map(paths.group_ids, names)])]


def commit_for(
    session: Session, name: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> bool:
    """Commits offsets of a group that has no members; returns False if there is no such group.

    A thousand partitions per transaction. Raises GroupHasMembers.
    """
    partitions = sorted(offsets)
    for start in range(0, len(partitions), _TOGETHER):
        batch = {
            partition: offsets[partition] for partition in partitions[start : start + _TOGETHER]
        }
        if not _commit(session, name, batch):
            return False
    return True


def _commit(session: Session, name: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
    ids = paths.group_ids(name)
    for attempt in range(_ATTEMPTS):
        info_and_version = _read_info(session, name)
        if info_and_version is None:
            return False
        info, version = info_and_version
        # The new version tells a concurrent expiry that the group is in use.
        mark = _set(replace(info, empty_since_ms=None), version)
        operations = [mark, *_guard(session, name), *_writes(session, info, offsets)]
        try:
            session.write(operations, done=partial(session.stand, tuple(operations)))
            break
        except Conflict as conflict:
            if conflict.path == ids and conflict.cause is Cause.NOT_EMPTY:
                raise GroupHasMembers(
                    f"group {name!r} has members: only they can commit offsets for it"
                ) from None
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    return True


def delete_offsets(session: Session, name: str, partitions: Collection[TopicPartition]) -> None:
    """Deletes offsets of topics to which no member subscribes; missing offsets are ignored."""
    for attempt in range(_ATTEMPTS):
        try:
            return remove(session, name, _versions(session, name, sorted(partitions)))
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    return None


def remove(session: Session, name: str, versions: Mapping[TopicPartition, int]) -> None:
    """Removes the offsets whose nodes still have these versions. Raises Conflict if one has
    changed; others may already have been removed."""
    for deletions in in_transactions(_deletions(name, versions)):
        session.write(deletions, done=partial(session.stand, tuple(deletions)))


def note_empty(session: Session, name: str, now_ms: int) -> None:
    """Records the time at which the group became empty. Does nothing if the group has members, or
    if a time is already recorded."""
    info_and_version = _read_info(session, name)
    if info_and_version is None or info_and_version[0].empty_since_ms is not None:
        return
    info, version = info_and_version
    new_info = replace(info, empty_since_ms=now_ms)
    _is_done(session, [_set(new_info, version), *_guard(session, name)])


def expire(
    session: Session, name: str, empty_since_ms: int, versions: Mapping[TopicPartition, int]
) -> bool:
    """Removes offsets with these versions from a group that has been empty since `empty_since_ms`;
    returns whether all were removed."""
    for deletions in in_transactions(_deletions(name, versions)):
        info_and_version = _read_info(session, name)
        if info_and_version is None or info_and_version[0].empty_since_ms != empty_since_ms:
            return False
        check = Check(paths.group(name), info_and_version[1])
        if not _is_done(session, [check, *_guard(session, name), *deletions]):
            return False
    return True


def forget(session: Session, name: str, empty_since_ms: int) -> bool:
    """Removes a group that has no offsets and has been empty since `empty_since_ms`; returns
    whether it was removed."""
    info_and_version = _read_info(session, name)
    if info_and_version is None or info_and_version[0].empty_since_ms != empty_since_ms:
        return False
    path = paths.group(name)
    deletions = [Delete(child) for child in groups.below(session, path)]
    return _is_done(session, [*deletions, Delete(path, info_and_version[1])])


def _writes(
    session: Session, info: GroupInfo, offsets: Mapping[TopicPartition, CommittedOffset]
) -> list[Operation]:
    """The writes for a commit. For a topic that was recreated they replace all older offsets, as
    members do when they begin with it (`group_members.open_topic`)."""
    by_topic: dict[str, dict[int, CommittedOffset]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, {})[number] = offset
    operations: list[Operation] = []
    for topic, topic_offsets in by_topic.items():
        parent = paths.topic_offsets(info.name, topic)
        children = session.children(parent)
        nodes_below = set(children or ())
        if children is None:
            operations.append(Create(parent))
        if (recreation := _other_topic(session, info.name, topic)) is not None:
            operations.append(recreation)
            operations += [Delete(f"{parent}/{number}") for number in nodes_below]
            nodes_below = set()
        for number, offset in topic_offsets.items():
            kind = Set if str(number) in nodes_below else Create
            operations.append(kind(f"{parent}/{number}", nodes.encode_offset(offset)))
    return operations


def _other_topic(session: Session, name: str, topic: str) -> Operation | None:
    """The write that records that the topic was recreated; None if it was not."""
    path = paths.topic_owners(name, topic)
    node, current_topic = session.read(path), group_members.topic_of(session, topic)
    if node is None or current_topic is None:
        return None
    if nodes.decode(path, node.data, OwnedTopicNode).topic_id == current_topic[0]:
        return None
    owned_topic = OwnedTopicNode(topic_id=current_topic[0], partitions=0)
    return Set(path, nodes.encode(owned_topic), node.version)


def _owners(session: Session, name: str) -> dict[TopicPartition, str]:
    root = paths.group_owners(name)
    topics = session.children(root) or ()
    children = session.children_of_all([f"{root}/{topic}" for topic in topics])
    by_path = {
        f"{root}/{topic}/{number}": TopicPartition(topic, int(number))
        for topic, numbers in zip(topics, children, strict=True)
        for number in numbers or ()
        if number.isdecimal()
    }
    owner_nodes = zip(by_path.items(), session.read_all([*by_path]), strict=True)
    return {
        partition: nodes.decode(path, node.data, OwnerNode).member
        for (path, partition), node in owner_nodes
        if node is not None
    }


def _versions(
    session: Session, name: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    version_nodes = session.read_all([_offset(name, partition) for partition in partitions])
    return {
        partition: node.version
        for partition, node in zip(partitions, version_nodes, strict=True)
        if node is not None
    }


def _deletions(name: str, versions: Mapping[TopicPartition, int]) -> list[Operation]:
    return [Delete(_offset(name, partition), version) for partition, version in versions.items()]


def _offset(name: str, partition: TopicPartition) -> str:
    return f"{paths.topic_offsets(name, partition.topic)}/{partition.partition}"


def _set(info: GroupInfo, version: int) -> Set:
    return Set(paths.group(info.name), nodes.encode(nodes.group_node(info)), version)


def _guard(session: Session, name: str) -> list[Operation]:
    """Operations that fail if the group has members."""
    ids = paths.group_ids(name)
    return [*([Delete(ids)] if session.exists(ids) else []), Create(ids)]


def _is_done(session: Session, operations: Sequence[Operation]) -> bool:
    """Whether the write succeeded; otherwise there was a concurrent change."""
    try:
        session.write(operations, done=partial(session.stand, tuple(operations)))
    except Conflict:
        return False
    return True


def _read_info(session: Session, name: str) -> tuple[GroupInfo, int] | None:
    """The group, with the version of its node."""
    path = paths.group(name)
    node = session.read(path)
    if node is None:
        return None
    info = nodes.group_info(name, nodes.decode(path, node.data, GroupNode))
    return (info, node.version) if info.kind is GroupKind.PENSTOCK else None
