"""Consumer groups in ZooKeeper: coordinator, kind, and last generation.

    /consumers/{group}                  GroupNode
    /consumers/{group}/fence-{token}    the right to write the group, held by the token's creator
    /consumers/{group}/members          members of the last finished generation, and assignments
    /consumers/{group}/offsets/…        see group_offsets.py

A group has one coordinator, a broker. It first takes the group over: one transaction replaces the
fence by one with a new token, and fails if the group was changed since it was read. Every write of
a coordinator checks its fence in the same transaction. So a former coordinator that has not noticed
its successor can write nothing more: it is Fenced. This also holds if the group was deleted and
recreated, which a node's version would not reveal; and since a coordinator's own writes leave the
fence unchanged, it may commit offsets and save a generation at the same time.

A group keeps its kind until it is deleted. A generation is saved in one transaction, including
members. Deleting a group may take several transactions: it exists until the last one, and deletion
can be repeated. Everything blocks; any thread may call it.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from cluster.errors import Cause, Conflict, Fenced, MapMissing, NodeUnreadable, OtherGroupKind
from cluster.layout import nodes, paths
from cluster.layout.nodes import GroupNode
from cluster.session.operations import Check, Create, Delete, Node, Operation, Set, in_transactions
from cluster.session.session import Session
from cluster.values import GroupFence, GroupInfo, GroupKind, GroupMember

_ATTEMPTS: Final = 10  # at concurrently changed nodes
_LEVELS: Final = 3  # below a group's node: offsets, topic, partition

log = logging.getLogger(__name__)


class StoredGroup(msgspec.Struct, frozen=True):
    info: GroupInfo
    members: tuple[GroupMember, ...]


def read_group(session: Session, name: str) -> StoredGroup | None:
    """Returns a consistent view of a group; None if the group does not exist."""
    path = paths.group(name)
    while (node := session.read(path)) is not None:
        members = _read_members(session, name)
        node_again = session.read(path)
        if node_again is not None and node_again.version == node.version:
            return StoredGroup(_info(name, node), members)
    return None


def list_groups(session: Session) -> list[GroupInfo]:
    """Returns all groups by name. Unreadable ones are skipped and logged."""
    names = [paths.group_of(segment) for segment in session.children(paths.CONSUMERS) or ()]
    group_names = sorted(name for name in names if name is not None)
    infos = []
    for name, node in zip(
        group_names, session.read_all([*map(paths.group, group_names)]), strict=True
    ):
        try:
            if node is not None:
                infos.append(_info(name, node))
        except NodeUnreadable as error:
            log.warning("group unreadable error=%r", str(error))
    return infos


def create_group(session: Session, group: GroupInfo) -> GroupFence:
    """Creates a group with its coordinator. If the name is taken, raises OtherGroupKind for a group
    of the other kind, otherwise Conflict."""
    path, fence = paths.group(group.name), GroupFence(group.name, uuid4().hex)
    operations = [
        Create(path, nodes.encode(nodes.group_node(group))),
        Create(_path(fence)),
        Create(paths.group_offsets(group.name)),
    ]
    try:
        session.write(operations, done=partial(session.exists, _path(fence)))
    except Conflict as conflict:
        if conflict.cause is Cause.MISSING:
            raise MapMissing(
                f"ZooKeeper at {session.address} has no node {paths.CONSUMERS}: no broker has used "
                "it yet, or it was wiped"
            ) from None
        node = session.read(path)
        if node is not None:
            _check_kind(_info(group.name, node), group.kind)
        raise
    return fence


def take_over(
    session: Session, name: str, coordinator: int, kind: GroupKind
) -> tuple[GroupFence, StoredGroup] | None:
    """Makes `coordinator` the coordinator of a group; returns None if the group does not exist.

    Returns the group's last state. Raises OtherGroupKind, without changing anything.
    """
    path, fence = paths.group(name), GroupFence(name, uuid4().hex)
    for attempt in range(_ATTEMPTS):
        node, children = session.read(path), session.children(path)
        if node is None or children is None:
            return None
        info = replace(_info(name, node), coordinator=coordinator)
        _check_kind(info, kind)
        operations: list[Operation] = [
            Set(path, nodes.encode(nodes.group_node(info)), node.version),
            *(Delete(f"{path}/{child}") for child in children if child.startswith(paths.FENCE)),
            Create(_path(fence)),
        ]
        try:
            session.write(operations, done=partial(session.exists, _path(fence)))
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()  # the server that was read may lag
        else:
            break
    return fence, StoredGroup(info, _read_members(session, name))


def save_group(
    session: Session, fence: GroupFence, group: GroupInfo, members: Sequence[GroupMember]
) -> None:
    """Saves a finished generation. Raises Fenced, GroupTooLarge.

    One at a time for each group, since the order of concurrent ones is undefined.
    """
    path, data = paths.group_members(fence.group), nodes.encode_members(fence.group, members)
    write = Set(paths.group(fence.group), nodes.encode(nodes.group_node(group)))
    try:
        write_fenced(session, [fence], [write, Set(path, data)])
    except Conflict as conflict:
        if conflict.path != path or conflict.cause is not Cause.MISSING:
            raise
        write_fenced(session, [fence], [write, Create(path, data)])  # the first generation


def delete_group(session: Session, fence: GroupFence) -> None:
    """Removes a group with everything below it. Raises Fenced."""
    path = paths.group(fence.group)
    for attempt in range(_ATTEMPTS):
        operations = [Delete(child) for child in below(session, path) if child != _path(fence)]
        group_deletions: list[Operation] = [Delete(_path(fence)), Delete(path)]
        try:
            for piece in in_transactions(operations):
                write_fenced(session, [fence], piece)
            return write_fenced(session, [fence], group_deletions)
        except Fenced:
            raise
        except Conflict:  # a member has joined or left, or an offset was committed
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    return None


def write_fenced(
    session: Session, fences: Iterable[GroupFence], operations: Sequence[Operation]
) -> None:
    """Performs all operations in one transaction if all fences are valid. Otherwise raises Fenced
    with the `path` of one invalid fence; `fenced_out` finds the others.

    If the answer was lost, the write counts as done when every node has its final contents. So
    operations must not depend on earlier contents, and no others may be made on the same nodes
    meanwhile.
    """
    checks = {_path(fence): fence for fence in fences}
    try:
        session.write(
            [*map(Check, checks), *operations], done=partial(session.stand, tuple(operations))
        )
    except Conflict as conflict:
        fence = checks.get(conflict.path)
        if fence is None or conflict.cause is not Cause.MISSING:
            raise
        raise Fenced(
            f"group {fence.group!r} has a newer coordinator, or was deleted, at {session.address}",
            conflict.path,
            conflict.cause,
        ) from None


def fenced_out(session: Session, fences: Iterable[GroupFence], fenced: Fenced) -> set[GroupFence]:
    """Returns all invalid fences: the one that the error names, and any others."""
    by_path = {_path(fence): fence for fence in fences}
    nodes = zip(by_path.values(), session.read_all(tuple(by_path)), strict=True)
    return {fence for fence, node in nodes if node is None} | {by_path[fenced.path]}


def below(session: Session, path: str) -> list[str]:
    """Returns the paths of all nodes below `path`, children before parents."""
    descendants: list[str] = []
    level = [path]
    for _ in range(_LEVELS):
        children = zip(level, session.children_of_all(level), strict=True)
        level = [f"{parent}/{name}" for parent, names in children for name in names or ()]
        descendants += level
    return descendants[::-1]


def _path(fence: GroupFence) -> str:
    return paths.group_fence(fence.group, fence.token)


def _info(name: str, node: Node) -> GroupInfo:
    return nodes.group_info(name, nodes.decode(paths.group(name), node.data, GroupNode))


def _check_kind(group: GroupInfo, kind: GroupKind) -> None:
    if group.kind is not kind:
        raise OtherGroupKind(
            f"group {group.name!r} is for {group.kind.value} consumers; {kind.value} "
            "consumers cannot join it: use another group, or delete this one"
        )


def _read_members(session: Session, name: str) -> tuple[GroupMember, ...]:
    path = paths.group_members(name)
    node = session.read(path)
    return () if node is None else nodes.members_of(path, node.data)
