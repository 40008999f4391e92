"""A controller that follows a real map, topics in it, and who leads their partitions."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from broker.controller.leaders import Leaders
from cluster.controller.topics import create_topic
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, ControllerEpoch, PartitionInfo, TopicInfo
from cluster.view import ClusterView

State = tuple[int, int, tuple[int, ...]]


@contextmanager
def leading(
    session: Session, epoch: ControllerEpoch | None
) -> Iterator[tuple[Leaders, ClusterView]]:
    view = ClusterView(session)
    leaders = Leaders(session, view, {})
    view.start(lambda _: leaders.follow())
    leaders.start()
    leaders.lead(epoch)
    try:
        yield leaders, view
    finally:
        leaders.close()
        view.close()


def create(
    session: Session, epoch: ControllerEpoch, *partitions: PartitionInfo, name: str = "views"
) -> TopicInfo:
    topic = TopicInfo(name=name, topic_id=uuid.uuid4(), partitions=partitions)
    create_topic(session, epoch, topic, {})
    return topic


def states(snapshot: ClusterSnapshot, name: str = "views") -> list[State]:
    """Of each partition: leader, leader epoch, who is in sync."""
    topic = snapshot.topics.get(name)
    if topic is None:
        return []
    return [(each.leader, each.leader_epoch, each.isr) for each in topic.partitions]
