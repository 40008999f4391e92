"""Changes the replicas of a topic's partitions, and their states accordingly.

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
    """Writes the replicas, reassignments and states of a topic's partitions. Raises Conflict,
    without changing anything, if the map differs from `topic`. Blocks."""
    path = paths.topic(topic.name)
    removal_check = nothing_removed(session, paths.TOPICS)
    node = session.read(path)
    old_node = None if node is None else nodes.decode(path, node.data, TopicNode)
    if (
        node is None
        or old_node is None
        or old_node.topic_id != topic.topic_id
        or not old_node.replicas
    ):
        raise UnknownTopic(f"topic {topic.name!r} with id {topic.topic_id} does not exist")
    replicas, reassignments = list(old_node.replicas), dict(old_node.moves or {})
    states: list[Operation] = []
    for index, new_state in partitions.items():
        replicas[index] = new_state.replicas
        reassignments.pop(index, None)
        if new_state.move:
            reassignments[index] = new_state.move
        state = nodes.encode(nodes.state_node(new_state))
        states.append(Set(paths.partition_state(topic.name, index), state, new_state.version))
    new_node = msgspec.structs.replace(
        old_node, replicas=tuple(replicas), moves=reassignments or msgspec.UNSET
    )
    topic_write = Set(path, nodes.encode(new_node), node.version)
    write_fenced(
        session,
        epoch,
        [removal_check, *states, topic_write],
        done=partial(session.stands, topic_write),
    )
