"""Partitions' states in the map, changed by compare-and-set: many at once, each for itself.

The controller makes leaders; a leader says who is in sync. Both change the same node, and each
change was made from one version of it: where another has come in between, nothing is written, and
whoever wanted it looks at the map again. What the controller writes also checks its epoch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from cluster import nodes, paths
from cluster.controller import write_fenced
from cluster.errors import Cause, Conflict, Fenced
from cluster.nodes import TopicNode
from cluster.operations import Check, Operation, Set, in_transactions
from cluster.session import Session
from cluster.values import ControllerEpoch, PartitionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """What is to stand; its `version` is that of the state which it was made from."""

    topic: str
    topic_id: UUID
    partition: int
    after: PartitionInfo


class _Prepared(NamedTuple):
    number: int
    check: Check  # that the topic is this one
    set_: Set


def change_states(
    session: Session, changes: Sequence[StateChange], epoch: ControllerEpoch | None = None
) -> list[PartitionInfo | None]:
    """What stands now, with its version; None where nothing was changed, because the map says
    something else by now. Blocks. Raises Fenced, Unavailable: then some may have been changed."""
    done: list[PartitionInfo | None] = [None] * len(changes)
    waiting = _prepared(session, changes, range(len(changes)))
    while waiting:
        piece = _first_transaction(waiting)
        try:
            _write(session, piece, epoch)
        except Fenced:
            raise
        except Conflict as conflict:
            concerns_states = any(_concerns(conflict.path, each) for each in piece)
            if conflict.cause not in {Cause.CHANGED, Cause.MISSING} or not concerns_states:
                raise
            # Where one was changed many may have been: not a transaction for each. And a topic's
            # node is also changed by what happens to its other partitions.
            left = _prepared(session, changes, [each.number for each in waiting])
            waiting = _unchanged(session, left)
            continue
        for number, _, _ in piece:
            after = changes[number].after
            done[number] = replace(after, version=after.version + 1)
        waiting = waiting[len(piece) :]
    return done


def _prepared(
    session: Session, changes: Sequence[StateChange], numbers: Sequence[int]
) -> list[_Prepared]:
    """The changes of these numbers, those of topics that are still the same."""
    names = {changes[number].topic for number in numbers}
    pending = {name: session.start_read(paths.topic(name)) for name in names}
    checks: dict[str, tuple[UUID, Check]] = {}
    for name, answer in pending.items():
        node = answer.get(session.timeout_s)
        if node is not None:
            found = nodes.decode(paths.topic(name), node.data, TopicNode)
            checks[name] = found.topic_id, Check(paths.topic(name), node.version)
    prepared = []
    for number in numbers:
        change = changes[number]
        topic_id, check = checks.get(change.topic, (None, None))
        if check is not None and topic_id == change.topic_id:
            path = paths.partition_state(change.topic, change.partition)
            data = nodes.encode(nodes.state_node(change.after))
            prepared.append(_Prepared(number, check, Set(path, data, change.after.version)))
    return prepared


def _unchanged(session: Session, waiting: Sequence[_Prepared]) -> list[_Prepared]:
    """Those that could still be written."""
    pending = [session.start_read(each.set_.path) for each in waiting]
    found = [answer.get(session.timeout_s) for answer in pending]
    return [
        each
        for each, node in zip(waiting, found, strict=True)
        if node is not None and node.version == each.set_.version
    ]


def _first_transaction(waiting: Sequence[_Prepared]) -> list[_Prepared]:
    operations = next(in_transactions(_operations(waiting)))
    count = sum(isinstance(each, Set) for each in operations)
    return list(waiting[:count])


def _operations(prepared: Iterable[_Prepared]) -> list[Operation]:
    checked: set[Check] = set()
    operations: list[Operation] = []
    for _, check, set_ in prepared:
        if check not in checked:
            checked.add(check)
            operations.append(check)
        operations.append(set_)
    return operations


def _write(session: Session, piece: Sequence[_Prepared], epoch: ControllerEpoch | None) -> None:
    operations = _operations(piece)
    done = partial(session.stands, piece[-1].set_)
    if epoch is None:
        session.write(operations, done)
    else:
        write_fenced(session, epoch, operations, done)


def _concerns(path: str, prepared: _Prepared) -> bool:
    return path in {prepared.check.path, prepared.set_.path}
