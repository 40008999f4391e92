"""Changes of a partition's state in the map by a broker that opens its own replica.

Clients and accounting identify a log's history by its epochs: an offset keeps its contents as long
as its epoch is the same. So a log that has lost data begins a new epoch before it accepts any, and
so does a leader that restarts: its followers may have what it had not flushed. A replica that has
lost flushed data leaves the in-sync set, unless it is the only member; and it begins an epoch in
any case, since a leader may be about to admit it for what it once had.

Each change is a compare-and-set on the partition's state that also checks that no topic was removed
since. A crash afterwards leaves an epoch without a batch; the next start raises it again.
"""

from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cluster.errors import Cause, Conflict, UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import StateNode, TopicNode
from cluster.records.removable import nothing_removed
from cluster.session.operations import Check, Set
from cluster.session.session import Session
from cluster.values import NO_LEADER, PartitionInfo


class _Stored(NamedTuple):
    unchanged: Check
    info: PartitionInfo


class OwnStates(msgspec.Struct, frozen=True):
    """Changes the partition states that concern one broker's replicas. Thread-safe; blocks.

    Raises UnknownTopic if the topic was recreated, Conflict if another broker leads.
    """

    session: Session
    broker_id: int

    def raise_epoch(
        self, topic: str, topic_id: UUID, partition: int, *, above: int
    ) -> PartitionInfo:
        """Raises the leader epoch above both the current one and `above`; returns the new state."""
        while True:
            state = self._read(topic, topic_id, partition)
            old_info = state.info
            if old_info.leader not in {self.broker_id, NO_LEADER}:
                path = paths.partition_state(topic, partition)
                message = f"{topic}-{partition} is led by broker {old_info.leader}"
                raise Conflict(message, path, Cause.CHANGED)
            new_info = replace(old_info, leader_epoch=max(old_info.leader_epoch, above) + 1)
            if self._write(topic, partition, state, new_info):
                return replace(new_info, version=old_info.version + 1)

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> PartitionInfo:
        """Removes this broker from the in-sync set and the leadership, unless it is the only
        member, and returns the new state. Its new epoch invalidates the leader's copy of the old
        state."""
        while True:
            state = self._read(topic, topic_id, partition)
            old_info = state.info
            other_replicas = tuple(replica for replica in old_info.isr if replica != self.broker_id)
            if not other_replicas:
                return old_info
            new_info = replace(old_info, isr=other_replicas, leader_epoch=old_info.leader_epoch + 1)
            if old_info.leader == self.broker_id:
                new_info = replace(new_info, leader=NO_LEADER)
            if self._write(topic, partition, state, new_info):
                return replace(new_info, version=old_info.version + 1)

    def _read(self, topic: str, topic_id: UUID, partition: int) -> _Stored:
        removal_check = nothing_removed(self.session, paths.TOPICS)
        node = self.session.read(paths.topic(topic))
        path = paths.partition_state(topic, partition)
        state = self.session.read(path)
        if node is None or state is None:
            raise UnknownTopic(f"topic {topic!r} has no partition {partition}")
        topic_node = nodes.decode(paths.topic(topic), node.data, TopicNode)
        if topic_node.topic_id != topic_id:
            raise UnknownTopic(f"topic {topic!r} no longer has the id {topic_id}")
        replicas = (topic_node.replicas or ())[partition : partition + 1]
        info = nodes.partition_info(
            replicas[0] if replicas else (),
            nodes.decode(path, state.data, StateNode),
            state.version,
        )
        return _Stored(removal_check, info)

    def _write(self, topic: str, partition: int, stored: _Stored, info: PartitionInfo) -> bool:
        """Write the state; False if it was changed concurrently."""
        path = paths.partition_state(topic, partition)
        state = Set(path, nodes.encode(nodes.state_node(info)), stored.info.version)
        try:
            self.session.write([stored.unchanged, state], done=partial(self.session.stands, state))
        except Conflict as conflict:
            if conflict.cause is not Cause.CHANGED:
                raise
            return False
        return True
