"""Consumer groups in ZooKeeper: who coordinates one, of which kind it is, its last generation.

    /consumers/{group}                  GroupNode
    /consumers/{group}/fence-{token}    the right to write the group: whose token that is has it
    /consumers/{group}/members          who was in the last finished generation, and was given what
    /consumers/{group}/offsets/…        see group_offsets.py

A group has one coordinator, a broker. It takes the group over before anything else: one transaction
replaces the fence by another, with a token that nobody had before, and fails if the group has been
changed since it was read. Whatever a coordinator writes checks its fence in the same transaction.
So who was the coordinator before, without noticing that another one is, can write nothing more: it
is Fenced. That holds also if the group was deleted meanwhile and made anew, which the version of a
node would not tell; and what a coordinator writes itself leaves the fence as it is, so that it may
commit offsets and save a generation at the same time.

A group is of the kind that it was made with, until it is deleted. A generation is saved in one
transaction, members and all. Deleting a group may take several: until the last it is there, and can
be deleted again. Everything blocks; any thread may call it.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from cluster import nodes, paths
from cluster.errors import Cause, Conflict, Fenced, MapMissing, NodeUnreadable, OtherGroupKind
from cluster.nodes import GroupNode
from cluster.operations import Check, Create, Delete, Node, Operation, Set, in_transactions
from cluster.session import Session
from cluster.values import GroupFence, GroupInfo, GroupKind, GroupMember

_ATTEMPTS: Final = 10  # at what others change at the same time
_LEVELS: Final = 3  # below a group's node: offsets, topic, partition

log = logging.getLogger(__name__)


class StoredGroup(msgspec.Struct, frozen=True):
    info: GroupInfo
    members: tuple[GroupMember, ...]


def read_group(session: Session, name: str) -> StoredGroup | None:
    """A group at one moment; None if there is none."""
    path = paths.group(name)
    while (before := session.read(path)) is not None:
        members = _read_members(session, name)
        after = session.read(path)
        if after is not None and after.version == before.version:
            return StoredGroup(_info(name, before), members)
    return None


def list_groups(session: Session) -> list[GroupInfo]:
    """All groups, by name. One that cannot be read is left out, and the log says so."""
    names = [paths.group_of(segment) for segment in session.children(paths.CONSUMERS) or ()]
    known = sorted(name for name in names if name is not None)
    found = []
    for name, node in zip(known, session.read_all([*map(paths.group, known)]), strict=True):
        try:
            if node is not None:
                found.append(_info(name, node))
        except NodeUnreadable as error:
            log.warning("group unreadable error=%r", str(error))
    return found


def create_group(session: Session, group: GroupInfo) -> GroupFence:
    """Make a group whose coordinator is the one that it names. Raises OtherGroupKind, Conflict if
    there is one of that name."""
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
        existing = session.read(path)
        if existing is not None:
            _check_kind(_info(group.name, existing), group.kind)
        raise
    return fence


def take_over(
    session: Session, name: str, coordinator: int, kind: GroupKind
) -> tuple[GroupFence, StoredGroup] | None:
    """Become the coordinator of a group, whoever was it before; None if there is none of that name.

    What is returned is the group as it was left. Raises OtherGroupKind, and then nothing is done.
    """
    path, fence = paths.group(name), GroupFence(name, uuid4().hex)
    for attempt in range(_ATTEMPTS):
        node, below = session.read(path), session.children(path)
        if node is None or below is None:
            return None
        info = replace(_info(name, node), coordinator=coordinator)
        _check_kind(info, kind)
        operations: list[Operation] = [
            Set(path, nodes.encode(nodes.group_node(info)), node.version),
            *(Delete(f"{path}/{each}") for each in below if each.startswith(paths.FENCE)),
            Create(_path(fence)),
        ]
        try:
            session.write(operations, done=partial(session.exists, _path(fence)))
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()  # the server that we read from may be behind
        else:
            break
    return fence, StoredGroup(info, _read_members(session, name))


def save_group(
    session: Session, fence: GroupFence, group: GroupInfo, members: Sequence[GroupMember]
) -> None:
    """Write down a finished generation. Raises Fenced, GroupTooLarge.

    One at a time for each group: of two at once nobody knows which is the last.
    """
    path, data = paths.group_members(fence.group), nodes.encode_members(fence.group, members)
    set_ = Set(paths.group(fence.group), nodes.encode(nodes.group_node(group)))
    try:
        write_fenced(session, [fence], [set_, Set(path, data)])
    except Conflict as conflict:
        if conflict.path != path or conflict.cause is not Cause.MISSING:
            raise
        write_fenced(session, [fence], [set_, Create(path, data)])  # its first generation


def delete_group(session: Session, fence: GroupFence) -> None:
    """Remove a group with everything below it. Raises Fenced."""
    path = paths.group(fence.group)
    for attempt in range(_ATTEMPTS):
        operations = [Delete(each) for each in below(session, path) if each != _path(fence)]
        last: list[Operation] = [Delete(_path(fence)), Delete(path)]
        try:
            for piece in in_transactions(operations):
                write_fenced(session, [fence], piece)
            return write_fenced(session, [fence], last)
        except Fenced:
            raise
        except Conflict:  # a member has come or gone, or an offset was committed
            if attempt == _ATTEMPTS - 1:
                raise
            session.sync()
    return None


def write_fenced(
    session: Session, fences: Iterable[GroupFence], operations: Sequence[Operation]
) -> None:
    """Do all of it in one transaction, if each of the fences still stands; else Fenced, whose
    `path` is that of one which does not (`fenced_out`).

    If an answer was lost, it is done when every node stands as it was to be left. So operations
    must not depend on what was there, and nobody else may do others on the same nodes meanwhile.
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
            f"group {fence.group!r} has another coordinator by now, or was deleted, at "
            f"{session.address}",
            conflict.path,
            conflict.cause,
        ) from None


def fenced_out(session: Session, fences: Iterable[GroupFence], fenced: Fenced) -> set[GroupFence]:
    """Which of the fences stand no more: that of the error, and what others there are."""
    by_path = {_path(fence): fence for fence in fences}
    found = zip(by_path.values(), session.read_all(tuple(by_path)), strict=True)
    return {fence for fence, node in found if node is None} | {by_path[fenced.path]}


def below(session: Session, path: str) -> list[str]:
    """All nodes below this one, what is below another one first."""
    found: list[str] = []
    level = [path]
    for _ in range(_LEVELS):
        children = zip(level, session.children_of_all(level), strict=True)
        level = [f"{parent}/{name}" for parent, names in children for name in names or ()]
        found += level
    return found[::-1]


def _path(fence: GroupFence) -> str:
    return paths.group_fence(fence.group, fence.token)


def _info(name: str, node: Node) -> GroupInfo:
    return nodes.group_info(name, nodes.decode(paths.group(name), node.data, GroupNode))


def _check_kind(group: GroupInfo, kind: GroupKind) -> None:
    if group.kind is not kind:
        raise OtherGroupKind(
            f"group {group.name!r} is one of {group.kind.value}'s consumers, {kind.value}'s cannot "
            "join it: use another group, or delete this one"
        )


def _read_members(session: Session, name: str) -> tuple[GroupMember, ...]:
    path = paths.group_members(name)
    node = session.read(path)
    return () if node is None else nodes.members_of(path, node.data)
