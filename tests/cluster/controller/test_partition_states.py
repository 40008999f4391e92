"""Many states change at once by compare-and-set, each for itself."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from msgspec.structs import replace

from cluster.controller import partition_states
from cluster.controller.controller import elect
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.reassignments import change_replicas
from cluster.controller.topics import create_topic, finish_deletion, mark_deleted, read_topic
from cluster.errors import Conflict, Fenced
from cluster.session.session import Session
from cluster.values import ControllerEpoch, PartitionInfo, TopicInfo
from cluster.view import ClusterView
from tests.cluster.conftest import Connect, a_topic

COUNT = 3


@pytest.fixture
def topic(session: Session, epoch: ControllerEpoch) -> TopicInfo:
    create_topic(session, epoch, a_topic("views", COUNT), {})
    return stands(session)


def stands(session: Session) -> TopicInfo:
    found = read_topic(session, "views")
    assert found is not None
    return found


def led_by(topic: TopicInfo, leader: int) -> list[StateChange]:
    return [
        StateChange(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=index,
            after=replace(info, leader=leader, leader_epoch=info.leader_epoch + 1),
        )
        for index, info in enumerate(topic.partitions)
    ]


def test_what_was_changed_is_told_as_it_stands(session: Session, topic: TopicInfo) -> None:
    changed = change_states(session, led_by(topic, 7))
    assert tuple(changed) == stands(session).partitions
    assert [each.leader for each in changed if each] == [7] * COUNT


def test_the_view_knows_the_version_too(session: Session, topic: TopicInfo) -> None:
    change_states(session, led_by(topic, 7))
    view = ClusterView(session)
    view.start(lambda _: None)
    try:
        assert view.snapshot.topics["views"] == stands(session)
    finally:
        view.close()


def test_one_that_was_changed_meanwhile_stays_and_the_others_do_not(
    session: Session, topic: TopicInfo
) -> None:
    change_states(session, led_by(topic, 7)[1:2])
    changed = change_states(session, led_by(topic, 8))
    assert [each and each.leader for each in changed] == [8, None, 8]
    assert leaders(stands(session)) == [8, 7, 8]


def test_nothing_is_lost_to_what_happens_to_other_partitions_of_the_topic(
    session: Session, connect: Connect, epoch: ControllerEpoch, topic: TopicInfo
) -> None:
    """Their replicas stand in the same node, whose version a change checks."""
    other, over = connect(), threading.Event()

    def move_on() -> int:
        moves = 0
        while not over.is_set():
            now = stands(other)
            moved = replace(now.partitions[0], replicas=(moves % 5,), isr=(moves % 5,))
            change_replicas(other, epoch, now, {0: moved})
            moves += 1
        return moves

    with ThreadPoolExecutor(1) as threads:
        moving = threads.submit(move_on)
        try:
            for leader in range(100):
                changed = change_states(session, led_by(stands(session), leader)[1:])
                assert [each and each.leader for each in changed] == [leader] * (COUNT - 1)
        finally:
            over.set()
        assert moving.result() > 20


def leaders(topic: TopicInfo) -> list[int]:
    return [each.leader for each in topic.partitions]


def test_a_topic_that_is_another_one_by_now_is_left_alone(
    session: Session, epoch: ControllerEpoch, topic: TopicInfo
) -> None:
    mark_deleted(session, epoch, "views")
    finish_deletion(session, epoch, "views")
    assert change_states(session, led_by(topic, 7)) == [None] * COUNT
    create_topic(session, epoch, replace(a_topic("views", COUNT), topic_id=uuid4()), {})
    assert change_states(session, led_by(topic, 7)) == [None] * COUNT
    assert 7 not in leaders(stands(session))


def test_whoever_hesitates_changes_no_topic_that_was_made_meanwhile(
    session: Session, epoch: ControllerEpoch, topic: TopicInfo
) -> None:
    """Its nodes have the versions that those of the last one had."""
    unchanged, prepared = partition_states._prepared(session, led_by(topic, 7), range(COUNT))
    mark_deleted(session, epoch, "views")
    finish_deletion(session, epoch, "views")
    create_topic(session, epoch, replace(a_topic("views", COUNT), topic_id=uuid4()), {})
    with pytest.raises(Conflict):
        partition_states._write(session, unchanged, prepared, None)
    assert 7 not in leaders(stands(session))


def test_of_a_partition_that_is_not_there_nothing_is_written(
    session: Session, topic: TopicInfo
) -> None:
    beyond = replace(led_by(topic, 7)[0], partition=COUNT)
    assert change_states(session, [beyond]) == [None]


def test_a_controller_that_another_has_succeeded_changes_nothing(
    session: Session, connect: Connect, epoch: ControllerEpoch, topic: TopicInfo
) -> None:
    session.client.delete("/controller")
    assert elect(connect(), 2) is not None
    with pytest.raises(Fenced):
        change_states(session, led_by(topic, 7), epoch)
    assert stands(session) == topic


def test_thousands_fit_into_few_transactions(session: Session, epoch: ControllerEpoch) -> None:
    many = a_topic("many", 3000)
    create_topic(session, epoch, many, {})
    found = read_topic(session, "many")
    assert found is not None
    changed: list[PartitionInfo | None] = change_states(session, led_by(found, 7), epoch)
    assert all(each and each.leader == 7 for each in changed)
