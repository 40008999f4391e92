"""Changes of the replicas of a topic's partitions, with the resulting states.

The topic's node has the replicas, a partition's node the leader and the in-sync set: both are
written in one transaction by compare-and-set, so that leaders and in-sync members are always
replicas.
"""

from collections.abc import Mapping
from functools import partial

import msgspec

from cluster.controller.controller import write_fenced
from cluster.errors import UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import TopicNode
from cluster.records.removable import nothing_removed
from cluster.session.operations import Operation, Set
from cluster.session.session import Session
from cluster.values import ControllerEpoch, PartitionInfo, TopicInfo


def change_replicas(
    session: Session,
    epoch: ControllerEpoch,
    topic: TopicInfo,
    partitions: Mapping[int, PartitionInfo],
) -> None:
    """Write partitions of a topic: replicas, move and state. Raises Conflict, without changes, if
    the map differs from `topic`. Blocks."""
    path = paths.topic(topic.name)
    unchanged = nothing_removed(session, paths.TOPICS)
    node = session.read(path)
    before = None if node is None else nodes.decode(path, node.data, TopicNode)
    if node is None or before is None or before.topic_id != topic.topic_id or not before.replicas:
        raise UnknownTopic(f"topic {topic.name!r} with id {topic.topic_id} does not exist")
    replicas, moves = list(before.replicas), dict(before.moves or {})
    states: list[Operation] = []
    for index, after in partitions.items():
        replicas[index] = after.replicas
        moves.pop(index, None)
        if after.move:
            moves[index] = after.move
        state = nodes.encode(nodes.state_node(after))
        states.append(Set(paths.partition_state(topic.name, index), state, after.version))
    changed = msgspec.structs.replace(
        before, replicas=tuple(replicas), moves=moves or msgspec.UNSET
    )
    last = Set(path, nodes.encode(changed), node.version)
    write_fenced(session, epoch, [unchanged, *states, last], done=partial(session.stands, last))
