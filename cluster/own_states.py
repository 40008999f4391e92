"""A partition's state in the map, changed by a broker that opens its own replica.

Clients, and whoever keeps accounts, know a log's history by its epochs: what lies at an offset is
the same as long as the epoch is. So a log that has lost something begins a new one before it takes
anything, and so does a leader that starts again: what it had not flushed, its followers may have.
A replica that has lost what was flushed is in sync no more, unless nobody else is; and it begins an
epoch, too, whether it was in sync or not: a leader may be about to let it in for what it once had.

Each is a compare-and-set on the partition's state that also checks that no topic was removed since.
A crash behind it leaves an epoch of which there is no batch; the next start raises it once more.

Specified in docs/replication-spec.md: `RaiseEpoch`, `LeaveInSync` (R7, R10).
"""

from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cluster import nodes, paths
from cluster.errors import Cause, Conflict, UnknownTopic
from cluster.nodes import StateNode, TopicNode
from cluster.operations import Check, Set
from cluster.removable import nothing_removed
from cluster.session import Session
from cluster.values import NO_LEADER, PartitionInfo


class _Found(NamedTuple):
    unchanged: Check
    info: PartitionInfo


class OwnStates(msgspec.Struct, frozen=True):
    """What one broker says of its replicas. Any thread; blocks.

    Raises UnknownTopic if the topic is another one by now, Conflict if another broker leads.
    """

    session: Session
    broker_id: int

    def raise_epoch(
        self, topic: str, topic_id: UUID, partition: int, *, above: int
    ) -> PartitionInfo:
        """What stands then: with an epoch that is higher than the one before, and than `above`."""
        while True:
            found = self._read(topic, topic_id, partition)
            before = found.info
            if before.leader not in {self.broker_id, NO_LEADER}:
                path = paths.partition_state(topic, partition)
                said = f"{topic}-{partition} is led by broker {before.leader}"
                raise Conflict(said, path, Cause.CHANGED)
            raised = replace(before, leader_epoch=max(before.leader_epoch, above) + 1)
            if self._write(topic, partition, found, raised):
                return replace(raised, version=before.version + 1)

    def leave_in_sync(self, topic: str, topic_id: UUID, partition: int) -> PartitionInfo:
        """What stands then: this broker is not in sync, and leads no more, unless it is alone; and
        what a leader knows of it is of an earlier epoch."""
        while True:
            found = self._read(topic, topic_id, partition)
            before = found.info
            others = tuple(each for each in before.isr if each != self.broker_id)
            if not others:
                return before
            left = replace(before, isr=others, leader_epoch=before.leader_epoch + 1)
            if before.leader == self.broker_id:
                left = replace(left, leader=NO_LEADER)
            if self._write(topic, partition, found, left):
                return replace(left, version=before.version + 1)

    def _read(self, topic: str, topic_id: UUID, partition: int) -> _Found:
        unchanged = nothing_removed(self.session, paths.TOPICS)
        node = self.session.read(paths.topic(topic))
        path = paths.partition_state(topic, partition)
        state = self.session.read(path)
        if node is None or state is None:
            raise UnknownTopic(f"there is no partition {partition} of topic {topic!r}")
        known = nodes.decode(paths.topic(topic), node.data, TopicNode)
        if known.topic_id != topic_id:
            raise UnknownTopic(f"topic {topic!r} is another one than {topic_id} by now")
        replicas = (known.replicas or ())[partition : partition + 1]
        info = nodes.partition_info(
            replicas[0] if replicas else (),
            nodes.decode(path, state.data, StateNode),
            state.version,
        )
        return _Found(unchanged, info)

    def _write(self, topic: str, partition: int, found: _Found, info: PartitionInfo) -> bool:
        """False if somebody else has changed something meanwhile."""
        path = paths.partition_state(topic, partition)
        state = Set(path, nodes.encode(nodes.state_node(info)), found.info.version)
        try:
            self.session.write([found.unchanged, state], done=partial(self.session.stands, state))
        except Conflict as conflict:
            if conflict.cause is not Cause.CHANGED:
                raise
            return False
        return True
