"""Topics in the map: creation, growth, deletion. Only the controller writes them.

Every transaction checks the controller's epoch. A topic that fits into one transaction, up to
thousands of partitions, appears at once. A larger one is written in several: until the last, its
node has `replicas: null`, and it does not count as a topic; if a crash leaves it so, it is removed
when the name is used again. New partitions count from the moment that the topic's node lists them.

A deletion begins with a marker in `/admin/delete_topics`, and with a node in
`/admin/owed_deletions` for every broker that holds a part of the topic, which that broker removes
when its part is gone. It is finished from the marker, repeatedly if necessary, once no live broker
owes anything. What a dead broker owes is kept under the topic's id until it returns: the topic's
name can be used again meanwhile.
"""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final
from uuid import UUID

import msgspec

from cluster.controller.controller import write_fenced
from cluster.errors import Cause, Conflict, TopicExists, UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import ConfigNode, DeletionNode, StateNode, TopicNode
from cluster.records.removable import counted
from cluster.session.operations import Check, Create, Delete, Operation, Set, in_transactions
from cluster.session.session import Session
from cluster.values import NO_EPOCH, NO_LEADER, ControllerEpoch, PartitionInfo, TopicInfo

_NO_STATE: Final = StateNode(
    leader=NO_LEADER, leader_epoch=NO_EPOCH, isr=(), controller_epoch=NO_EPOCH
)

# The controller is one process and writes one topic at a time, so that a partial topic
# can only be left from a crash.
_writing = threading.Lock()


def create_topic(
    session: Session, epoch: ControllerEpoch, topic: TopicInfo, config: Mapping[str, str]
) -> None:
    """Creates a topic. Raises TopicExists if a topic of that name exists or is being deleted.

    Repeating it with the same topic id, after an unknown outcome, is not an error.
    """
    path = paths.topic(topic.name)
    operations: list[Operation] = [
        Create(path, nodes.encode(TopicNode(topic_id=topic.topic_id, replicas=None))),
        Create(paths.partitions(topic.name)),
        *_creations(topic.name, enumerate(topic.partitions)),
    ]
    if config:
        overrides = ConfigNode(config=dict(config))
        operations.append(Create(paths.topic_config(topic.name), nodes.encode(overrides)))
    operations.append(Set(path, nodes.encode(nodes.topic_node(topic))))
    with _writing:
        while True:
            try:
                return _write_all(session, epoch, operations)
            except Conflict as conflict:
                if not _make_way(session, epoch, topic, conflict):
                    return None


def add_partitions(
    session: Session,
    epoch: ControllerEpoch,
    name: str,
    first: int,
    added: Sequence[PartitionInfo],
) -> None:
    """Adds partitions from number `first` on. Raises Conflict if that is not the next one."""
    path = paths.topic(name)
    with _writing:
        topic, version = _existing(session, name)
        replicas = topic.replicas or ()
        if session.exists(paths.deletion(name)):
            raise UnknownTopic(f"topic {name!r} is being deleted")
        if len(replicas) != first:
            raise Conflict(
                f"topic {name!r} has {len(replicas)} partitions: {first} is not the next number",
                path,
                Cause.CHANGED,
            )
        grown_topic = msgspec.structs.replace(
            topic,
            replicas=replicas + tuple(partition_replicas.replicas for partition_replicas in added),
        )
        leftover_indexes = [index for index in _partitions_of(session, name) if index >= first]
        _write_all(
            session,
            epoch,
            [
                *_deletions(session, name, leftover_indexes),
                *_creations(name, enumerate(added, first)),
                Set(path, nodes.encode(grown_topic), version),
            ],
        )


def mark_deleted(session: Session, epoch: ControllerEpoch, name: str) -> None:
    """Marks the topic for deletion. Idempotent."""
    with _writing:
        topic, version = _existing(session, name)
        if session.exists(paths.deletion(name)):
            return
        data = nodes.encode(DeletionNode(topic_id=topic.topic_id))
        holders = sorted(set(chain.from_iterable(topic.replicas or ())))
        _write_all(
            session,
            epoch,
            [
                Check(paths.topic(name), version),
                *(Create(paths.owed_deletion(holder, topic.topic_id)) for holder in holders),
                Create(paths.deletion(name), data),
            ],
        )


def finish_deletion(
    session: Session, epoch: ControllerEpoch, name: str, live: Collection[int] = ()
) -> bool:
    """Removes a topic that is marked for deletion, with its overrides and, last, its marker. Does
    nothing if there is no marker.

    Returns False, without changes, while a broker of `live` owes its part of the deletion.
    """
    with _writing:
        marker = session.read(paths.deletion(name))
        if marker is None:
            return True
        topic_id = nodes.decode(paths.deletion(name), marker.data, DeletionNode).topic_id
        answers = [session.start_exists(paths.owed_deletion(broker, topic_id)) for broker in live]
        if any(answer.get(session.timeout_s) for answer in answers):
            return False
        node = session.read(paths.topic(name))
        if node is not None:
            existing_id = nodes.decode(paths.topic(name), node.data, TopicNode).topic_id
            if existing_id == topic_id:
                _remove(session, epoch, name)
        _write_all(session, epoch, [Delete(paths.deletion(name))])
        return True


def record_deleted(session: Session, broker_id: int, topic_id: UUID) -> None:
    """Records that this broker no longer holds any part of the topic."""
    path = paths.owed_deletion(broker_id, topic_id)
    with suppress(Conflict):  # already recorded
        session.write([Delete(path)], done=lambda: not session.exists(path))


def list_topics(session: Session) -> tuple[str, ...]:
    """Returns the names of all topics, including those being deleted."""
    return tuple(sorted(session.children(paths.TOPICS) or ()))


def read_topic(session: Session, name: str) -> TopicInfo | None:
    """Returns the current state of a topic; None if it does not exist or is still being created."""
    node = session.read(paths.topic(name))
    if node is None:
        return None
    topic = nodes.decode(paths.topic(name), node.data, TopicNode)
    if topic.replicas is None:
        return None
    pending = [
        session.start_read(paths.partition_state(name, index))
        for index in range(len(topic.replicas))
    ]
    states = [state.get(session.timeout_s) for state in pending]
    return TopicInfo(
        name=name,
        topic_id=topic.topic_id,
        partitions=tuple(
            nodes.partition_info(replicas, _NO_STATE, move=topic.move(index))
            if state is None
            else nodes.partition_info(
                replicas,
                nodes.decode(paths.partition_state(name, index), state.data, StateNode),
                state.version,
                topic.move(index),
            )
            for index, (replicas, state) in enumerate(zip(topic.replicas, states, strict=True))
        ),
    )


def _creations(name: str, partitions: Iterable[tuple[int, PartitionInfo]]) -> list[Operation]:
    return [
        operation
        for index, partition in partitions
        for operation in (
            Create(paths.partition(name, index)),
            Create(paths.partition_state(name, index), nodes.encode(nodes.state_node(partition))),
        )
    ]


def _existing(session: Session, name: str) -> tuple[TopicNode, int]:
    node = session.read(paths.topic(name))
    if node is not None:
        topic = nodes.decode(paths.topic(name), node.data, TopicNode)
        if topic.replicas is not None:
            return topic, node.version
    raise UnknownTopic(f"topic {name!r} does not exist")


def _make_way(
    session: Session, epoch: ControllerEpoch, topic: TopicInfo, conflict: Conflict
) -> bool:
    """Remove leftovers of a crash where `topic` is to be created. False if it already exists."""
    if conflict.path == paths.topic_config(topic.name):  # overrides without a topic
        _write_all(session, epoch, [Delete(conflict.path)])
        return True
    node = session.read(paths.topic(topic.name))
    if node is None or conflict.path != paths.topic(topic.name):
        raise conflict
    old_node = nodes.decode(paths.topic(topic.name), node.data, TopicNode)
    if old_node.replicas is None:
        _remove(session, epoch, topic.name)
        return True
    if session.exists(paths.deletion(topic.name)):
        raise TopicExists(f"topic {topic.name!r} is being deleted")
    if old_node.topic_id != topic.topic_id:
        raise TopicExists(f"topic {topic.name!r} exists already")
    return False


def _remove(session: Session, epoch: ControllerEpoch, name: str) -> None:
    """Remove a topic; the last transaction counts the removal."""
    operations = _deletions(session, name, _partitions_of(session, name))
    if session.exists(paths.partitions(name)):
        operations.append(Delete(paths.partitions(name)))
    if session.exists(paths.topic_config(name)):
        operations.append(Delete(paths.topic_config(name)))
    _write_all(session, epoch, operations)
    _write_all(session, epoch, [counted(paths.TOPICS), Delete(paths.topic(name))])


def _partitions_of(session: Session, name: str) -> list[int]:
    """Partitions with nodes, whether the topic's node lists them or not."""
    return sorted(int(index) for index in session.children(paths.partitions(name)) or ())


def _deletions(session: Session, name: str, partitions: Sequence[int]) -> list[Operation]:
    pending = [session.start_children(paths.partition(name, index)) for index in partitions]
    operations: list[Operation] = []
    for index, children in zip(partitions, pending, strict=True):
        path = paths.partition(name, index)
        operations += [Delete(f"{path}/{child}") for child in children.get(session.timeout_s) or ()]
        operations.append(Delete(path))
    return operations


def _write_all(session: Session, epoch: ControllerEpoch, operations: Iterable[Operation]) -> None:
    for piece in in_transactions(operations):
        write_fenced(session, epoch, piece, partial(_has_happened, session, piece[-1]))


def _has_happened(session: Session, operation: Operation) -> bool:
    """Whether the last operation of a transaction, and so all of it, has happened."""
    node = session.read(operation.path)
    match operation:
        case Create(_, data) | Set(_, data):
            return node is not None and node.data == data
        case Delete():
            return node is None
        case Check():
            return False
