"""Changes of partitions' states in the map by compare-and-set: many together, each on its own.

The controller assigns leaders; a leader changes the in-sync set. Both change the same node, based
on one version of it: if that has changed, nothing is written, and the caller consults the map
again. Writes of the controller also check its epoch.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cluster.controller.controller import write_fenced
from cluster.errors import Cause, Conflict, Fenced
from cluster.layout import nodes, paths
from cluster.layout.nodes import TopicNode
from cluster.records.removable import nothing_removed
from cluster.session.operations import Check, Operation, Set, in_transactions
from cluster.session.session import Session
from cluster.values import ControllerEpoch, PartitionInfo


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A new state; its `version` is that of the state it is based on."""

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
    """The new states with their versions; None for those that were not changed because the map has
    changed meanwhile. Blocks. Raises Fenced or Unavailable, when some may have been changed."""
    done: list[PartitionInfo | None] = [None] * len(changes)
    unchanged, waiting = _prepared(session, changes, range(len(changes)))
    while waiting:
        piece = _first_transaction(unchanged, waiting)
        paths_of_piece = {unchanged.path, *(prepared.set_.path for prepared in piece)}
        try:
            _write(session, unchanged, piece, epoch)
        except Fenced:
            raise
        except Conflict as conflict:
            is_known = conflict.cause in {Cause.CHANGED, Cause.MISSING}
            if not is_known or conflict.path not in paths_of_piece:
                raise
            # If one was changed, many may have been: avoid one transaction for each.
            numbers = [prepared.number for prepared in waiting]
            unchanged, waiting = _prepared(session, changes, numbers)
            waiting = _still_valid(session, waiting)
            continue
        for number, _ in piece:
            after = changes[number].after
            done[number] = replace(after, version=after.version + 1)
        waiting = waiting[len(piece) :]
    return done


def _prepared(
    session: Session, changes: Sequence[StateChange], numbers: Sequence[int]
) -> tuple[Check, list[_Prepared]]:
    """The changes of topics that still have the same id, and a check that they keep it."""
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


def _still_valid(session: Session, waiting: Sequence[_Prepared]) -> list[_Prepared]:
    """The changes whose states still have the expected version."""
    pending = [session.start_read(prepared.set_.path) for prepared in waiting]
    states = [answer.get(session.timeout_s) for answer in pending]
    return [
        prepared
        for prepared, node in zip(waiting, states, strict=True)
        if node is not None and node.version == prepared.set_.version
    ]


def _first_transaction(unchanged: Check, waiting: Sequence[_Prepared]) -> list[_Prepared]:
    operations: list[Operation] = [unchanged, *(prepared.set_ for prepared in waiting)]
    return list(waiting[: len(next(in_transactions(operations))) - 1])


def _write(
    session: Session, unchanged: Check, piece: Sequence[_Prepared], epoch: ControllerEpoch | None
) -> None:
    operations: list[Operation] = [unchanged, *(prepared.set_ for prepared in piece)]
    done = partial(session.stands, piece[-1].set_)
    if epoch is None:
        session.write(operations, done)
    else:
        write_fenced(session, epoch, operations, done)
