"""The leader epoch of a partition, raised by its leader when its log is not what it was.

Clients, and whoever keeps accounts, know a log's history by its epochs: what lies at an offset is
the same as long as the epoch is. So a log that has lost something begins a new one before it takes
anything. It is a compare-and-set on the partition's state that also checks the topic's node, and
that this broker still leads. A crash behind it leaves an epoch of which there is no batch; the next
start raises it once more.
"""

from functools import partial
from uuid import UUID

from cluster import nodes, paths
from cluster.errors import Cause, Conflict, UnknownTopic
from cluster.nodes import StateNode, TopicNode
from cluster.operations import Check, Set
from cluster.session import Session


def raise_leader_epoch(
    session: Session, broker_id: int, topic: str, topic_id: UUID, partition: int, *, above: int
) -> int:
    """The new epoch: higher than the one that stands there, and than `above`. Blocks.

    Raises UnknownTopic if the topic is another one by now, Conflict if another broker leads.
    """
    while True:
        node = session.read(paths.topic(topic))
        state = session.read(paths.partition_state(topic, partition))
        if node is None or state is None:
            raise UnknownTopic(f"there is no partition {partition} of topic {topic!r}")
        if nodes.decode(paths.topic(topic), node.data, TopicNode).topic_id != topic_id:
            raise UnknownTopic(f"topic {topic!r} is another one than {topic_id} by now")
        path = paths.partition_state(topic, partition)
        before = nodes.decode(path, state.data, StateNode)
        if before.leader != broker_id:
            said = f"{topic}-{partition} is led by broker {before.leader}"
            raise Conflict(said, path, Cause.CHANGED)
        raised = StateNode(
            leader=broker_id,
            leader_epoch=max(before.leader_epoch, above) + 1,
            isr=before.isr,
            controller_epoch=before.controller_epoch,
        )
        data = nodes.encode(raised)
        try:
            session.write(
                [Check(paths.topic(topic), node.version), Set(path, data, state.version)],
                done=partial(_stands, session, path, data),
            )
        except Conflict as conflict:
            if conflict.cause is not Cause.CHANGED:
                raise
            continue
        return raised.leader_epoch


def _stands(session: Session, path: str, data: bytes) -> bool:
    found = session.read(path)
    return found is not None and found.data == data
