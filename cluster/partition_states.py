"""Partitions' states in the map, changed by compare-and-set: many at once, each for itself.

The controller makes leaders; a leader says who is in sync. Both change the same node, and each
change was made from one version of it: where another has come in between, nothing is written, and
whoever wanted it looks at the map again. What the controller writes also checks its epoch.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cluster import nodes, paths
from cluster.controller import write_fenced
from cluster.errors import Cause, Conflict, Fenced
from cluster.nodes import TopicNode
from cluster.operations import Check, Operation, Set, in_transactions
from cluster.removable import nothing_removed
from cluster.session import Session
from cluster.values import ControllerEpoch, PartitionInfo


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to stand; its `version` is that of the state which it was made from."""

    topic: str
    topic_id: UUID
    partition: int
    after: PartitionInfo


class _Prepared(NamedTuple):
    number: int
    set_: Set


def change_states(
    session: Session, changes: Sequence[StateChange], epoch: ControllerEpoch | None = None
) -> list[PartitionInfo | None]:
    """What stands now, with its version; None where nothing was changed, because the map says
    something else by now. Blocks. Raises Fenced, Unavailable: then some may have been changed."""
    done: list[PartitionInfo | None] = [None] * len(changes)
    unchanged, waiting = _prepared(session, changes, range(len(changes)))
    while waiting:
        piece = _first_transaction(unchanged, waiting)
        paths_of_piece = {unchanged.path, *(each.set_.path for each in piece)}
        try:
            _write(session, unchanged, piece, epoch)
        except Fenced:
            raise
        except Conflict as conflict:
            is_known = conflict.cause in {Cause.CHANGED, Cause.MISSING}
            if not is_known or conflict.path not in paths_of_piece:
                raise
            # Where one was changed many may have been: not a transaction for each.
            left = [each.number for each in waiting]
            unchanged, waiting = _prepared(session, changes, left)
            waiting = _still_so(session, waiting)
            continue
        for number, _ in piece:
            after = changes[number].after
            done[number] = replace(after, version=after.version + 1)
        waiting = waiting[len(piece) :]
    return done


def _prepared(
    session: Session, changes: Sequence[StateChange], numbers: Sequence[int]
) -> tuple[Check, list[_Prepared]]:
    """The changes of these numbers, those of topics that are still the same; and that they are."""
    unchanged = nothing_removed(session, paths.TOPICS)
    names = {changes[number].topic for number in numbers}
    pending = {name: session.start_read(paths.topic(name)) for name in names}
    ids: dict[str, UUID] = {}
    for name, answer in pending.items():
        node = answer.get(session.timeout_s)
        if node is not None:
            ids[name] = nodes.decode(paths.topic(name), node.data, TopicNode).topic_id
    prepared = []
    for number in numbers:
        change = changes[number]
        if ids.get(change.topic) == change.topic_id:
            path = paths.partition_state(change.topic, change.partition)
            data = nodes.encode(nodes.state_node(change.after))
            prepared.append(_Prepared(number, Set(path, data, change.after.version)))
    return unchanged, prepared


def _still_so(session: Session, waiting: Sequence[_Prepared]) -> list[_Prepared]:
    """Those that could still be written."""
    pending = [session.start_read(each.set_.path) for each in waiting]
    found = [answer.get(session.timeout_s) for answer in pending]
    return [
        each
        for each, node in zip(waiting, found, strict=True)
        if node is not None and node.version == each.set_.version
    ]


def _first_transaction(unchanged: Check, waiting: Sequence[_Prepared]) -> list[_Prepared]:
    operations: list[Operation] = [unchanged, *(each.set_ for each in waiting)]
    return list(waiting[: len(next(in_transactions(operations))) - 1])


def _write(
    session: Session, unchanged: Check, piece: Sequence[_Prepared], epoch: ControllerEpoch | None
) -> None:
    operations: list[Operation] = [unchanged, *(each.set_ for each in piece)]
    done = partial(session.stands, piece[-1].set_)
    if epoch is None:
        session.write(operations, done)
    else:
        write_fenced(session, epoch, operations, done)
