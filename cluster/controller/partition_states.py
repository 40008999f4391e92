"""Changes partitions' states in the map by compare-and-set: many in one call, each independently.

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
    """Returns the new states with their versions, or None for each partition whose state had
    changed meanwhile. Blocks. If it raises Fenced or Unavailable, some changes may have been
    made."""
    results: list[PartitionInfo | None] = [None] * len(changes)
    removal_check, pending = _prepared(session, changes, range(len(changes)))
    while pending:
        piece = _first_transaction(removal_check, pending)
        piece_paths = {removal_check.path, *(prepared.set_.path for prepared in piece)}
        try:
            _write(session, removal_check, piece, epoch)
        except Fenced:
            raise
        except Conflict as conflict:
            is_expected = conflict.cause in {Cause.CHANGED, Cause.MISSING}
            if not is_expected or conflict.path not in piece_paths:
                raise
            # If one was changed, many may have been: avoid one transaction for each.
            indexes = [prepared.number for prepared in pending]
            removal_check, pending = _prepared(session, changes, indexes)
            pending = _still_valid(session, pending)
            continue
        for index, _ in piece:
            new_state = changes[index].after
            results[index] = replace(new_state, version=new_state.version + 1)
        pending = pending[len(piece) :]
    return results


def _prepared(
    session: Session, changes: Sequence[StateChange], indexes: Sequence[int]
) -> tuple[Check, list[_Prepared]]:
    """The changes of topics that still have the same id, and a check that they keep it."""
    removal_check = nothing_removed(session, paths.TOPICS)
    names = {changes[index].topic for index in indexes}
    answers = {name: session.start_read(paths.topic(name)) for name in names}
    ids: dict[str, UUID] = {}
    for name, answer in answers.items():
        node = answer.get(session.timeout_s)
        if node is not None:
            ids[name] = nodes.decode(paths.topic(name), node.data, TopicNode).topic_id
    pending = []
    for index in indexes:
        change = changes[index]
        if ids.get(change.topic) == change.topic_id:
            path = paths.partition_state(change.topic, change.partition)
            data = nodes.encode(nodes.state_node(change.after))
            pending.append(_Prepared(index, Set(path, data, change.after.version)))
    return removal_check, pending


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
    is_done = partial(session.stands, piece[-1].set_)
    if epoch is None:
        session.write(operations, is_done)
    else:
        write_fenced(session, epoch, operations, is_done)
