"""Rebuilding the map from directories: complete, repeatable, and never over another's."""

import uuid

import pytest

from cluster.controller import topics
from cluster.controller.controller import elect
from cluster.controller.topics import create_topic, list_topics, read_topic
from cluster.errors import InvalidTopicName, MapDisagrees
from cluster.layout import paths
from cluster.records.identity import cluster_id
from cluster.recover import FoundPartition, RecoveredTopics, recover
from cluster.session.session import Session
from tests.cluster.conftest import a_partition, a_topic

VIEWS, CLICKS = uuid.UUID(int=1), uuid.UUID(int=2)


def found(topic: str, index: int, topic_id: uuid.UUID, epoch: int = 3) -> FoundPartition:
    return FoundPartition(topic=topic, index=index, topic_id=topic_id, leader_epoch=epoch)


def recover_one(
    session: Session, *partitions: FoundPartition, broker_id: int = 1
) -> RecoveredTopics:
    return recover(session, broker_id=broker_id, cluster_id="the-cluster", directories=partitions)


def test_topics_come_back_with_their_ids_and_later_epochs(session: Session) -> None:
    done = recover_one(
        session,
        found("views", 1, VIEWS, 7),
        found("views", 0, VIEWS),
        found("clicks", 0, CLICKS, -1),
    )
    assert done == RecoveredTopics(
        cluster_id="the-cluster",
        topics_created=("clicks", "views"),
        topics_completed=(),
        topics_unchanged=(),
        without_replica=(),
    )
    assert cluster_id(session) == "the-cluster"
    views, clicks = read_topic(session, "views"), read_topic(session, "clicks")
    assert views is not None
    assert clicks is not None
    assert (views.topic_id, clicks.topic_id) == (VIEWS, CLICKS)
    assert [partition.leader_epoch for partition in views.partitions] == [4, 8]
    assert [partition.leader_epoch for partition in clicks.partitions] == [0]
    assert all(partition.isr == partition.replicas == (1,) for partition in views.partitions)


def test_repeating_it_changes_nothing(session: Session) -> None:
    recover_one(session, found("views", 0, VIEWS), found("views", 1, VIEWS))
    before = read_topic(session, "views")
    version = session.read(paths.topic("views"))
    done = recover_one(session, found("views", 0, VIEWS), found("views", 1, VIEWS))
    assert done.topics_unchanged == ("views",)
    assert not done.topics_created
    assert read_topic(session, "views") == before
    assert session.read(paths.topic("views")) == version


def test_brokers_add_theirs_in_any_order(session: Session) -> None:
    first = recover_one(session, found("views", 2, VIEWS), broker_id=1)
    assert first.without_replica == (("views", 0), ("views", 1))
    partial = read_topic(session, "views")
    assert partial is not None
    assert [partition.leader for partition in partial.partitions] == [-1, -1, 1]

    second = recover_one(session, found("views", 0, VIEWS), found("views", 3, VIEWS), broker_id=2)
    assert second.topics_completed == ("views",)
    assert second.without_replica == (("views", 1),)
    third = recover_one(session, found("views", 1, VIEWS), broker_id=3)
    assert third.without_replica == ()
    whole = read_topic(session, "views")
    assert whole is not None
    assert [partition.leader for partition in whole.partitions] == [2, 3, 1, 2]
    assert [partition.replicas for partition in whole.partitions] == [(2,), (3,), (1,), (2,)]


def test_of_several_replicas_the_newest_leads(session: Session) -> None:
    recover_one(session, found("views", 0, VIEWS, epoch=3), broker_id=1)
    recover_one(session, found("views", 0, VIEWS, epoch=5), broker_id=2)
    recover_one(session, found("views", 0, VIEWS, epoch=4), broker_id=3)
    topic = read_topic(session, "views")
    assert topic is not None
    [partition] = topic.partitions
    assert partition.replicas == (1, 2, 3)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 6)


def test_another_cluster_s_map_is_left_alone(session: Session) -> None:
    name = cluster_id(session)
    with pytest.raises(MapDisagrees) as error:
        recover_one(session, found("views", 0, VIEWS))
    assert name in str(error.value)
    assert "the-cluster" in str(error.value)
    assert list_topics(session) == ()


def test_another_topic_of_the_name_stops_everything(session: Session) -> None:
    epoch = elect(session, 1)
    assert epoch is not None
    other = a_topic("views")
    create_topic(session, epoch, other, {})
    with pytest.raises(MapDisagrees) as error:
        recover_one(session, found("clicks", 0, CLICKS), found("views", 0, VIEWS))
    assert str(VIEWS) in str(error.value)
    assert str(other.topic_id) in str(error.value)
    assert list_topics(session) == ("views",)
    assert not session.exists(paths.CLUSTER_ID)


def test_a_directory_at_odds_with_itself_is_refused(session: Session) -> None:
    with pytest.raises(MapDisagrees, match="views-1"):
        recover_one(session, found("views", 0, VIEWS), found("views", 1, CLICKS))


def test_illegal_names_are_refused(session: Session) -> None:
    with pytest.raises(InvalidTopicName):
        recover_one(session, found("a b", 0, VIEWS))


def test_an_interrupted_run_is_made_good_by_the_next(session: Session) -> None:
    recover_one(session, found("views", 0, VIEWS))
    epoch = elect(session, 1)
    assert epoch is not None
    # As a crash leaves it: partitions written, the topic's node not yet.
    session.write(topics._creations("views", [(1, a_partition(1)), (2, a_partition(1))]))
    done = recover_one(session, *(found("views", index, VIEWS) for index in range(3)))
    assert done.topics_completed == ("views",)
    topic = read_topic(session, "views")
    assert topic is not None
    assert [partition.leader_epoch for partition in topic.partitions] == [4, 4, 4]


def test_an_empty_directory_gives_the_cluster_its_id(session: Session) -> None:
    recover_one(session)
    assert cluster_id(session) == "the-cluster"
