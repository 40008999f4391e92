"""The controller follows a real map, whose brokers come and go with their sessions."""

import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from broker.controller.elections import Brokers
from broker.controller.leaders import UNCLEAN
from broker.controller.reassignments import begun
from cluster.controller.controller import write_fenced
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.reassignments import change_replicas
from cluster.controller.topics import mark_deleted
from cluster.errors import Conflict
from cluster.layout import paths
from cluster.records import configs
from cluster.session.operations import Set
from cluster.session.session import Session
from cluster.values import NO_LEADER, ClusterSnapshot, ControllerEpoch, Move, TopicInfo
from cluster.view import ClusterView
from tests.broker.controller.conftest import Live
from tests.broker.controller.led_cluster import create, leading, states
from tests.cluster.conftest import a_partition

MOST_TRANSACTIONS = 3


def test_a_broker_dies_and_comes_back(session: Session, epoch: ControllerEpoch, live: Live) -> None:
    live(1)
    second = live(2)
    create(session, epoch, a_partition(2, 1), a_partition(1, 2), a_partition(2))
    with leading(session, epoch) as (_, view):
        view.wait_for(lambda now: states(now) == [(2, 0, (2, 1)), (1, 0, (1, 2)), (2, 0, (2,))])
        second.close()
        view.wait_for(lambda now: states(now) == [(1, 1, (1,)), (1, 0, (1,)), (NO_LEADER, 1, (2,))])
        live(2)
        view.wait_for(lambda now: states(now) == [(1, 1, (1,)), (1, 0, (1,)), (2, 2, (2,))])
        assert {each.controller_epoch for each in view.snapshot.topics["views"].partitions} == {
            epoch.epoch
        }


def test_who_becomes_the_controller_begins_with_what_happened_before(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    create(session, epoch, a_partition(2, 1))
    with leading(session, None) as (leaders, view):
        view.refresh()
        assert states(view.snapshot) == [(2, 0, (2, 1))]  # whoever is no controller does nothing
        leaders.lead(epoch)
        view.wait_for(lambda now: states(now) == [(1, 1, (1,))])


def test_a_controller_that_has_been_succeeded_writes_nothing(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    create(session, epoch, a_partition(2, 1))
    node = session.read(paths.CONTROLLER_EPOCH)
    assert node is not None
    write_fenced(
        session, epoch, [Set(paths.CONTROLLER_EPOCH, node.data)]
    )  # as the next one's election
    with leading(session, epoch) as (leaders, view):
        view.refresh()
        assert states(view.snapshot) == [(2, 0, (2, 1))]
        leaders.lead(replace(epoch, version=epoch.version + 1))
        view.wait_for(lambda now: states(now) == [(1, 1, (1,))])


def test_unclean_election_is_allowed_while_nobody_leads(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    create(session, epoch, a_partition(2, 1, isr=(2,)))
    with leading(session, epoch) as (_, view):
        view.wait_for(lambda now: states(now) == [(NO_LEADER, 1, (2,))])
        configs.alter(session, configs.TopicResource("views"), lambda _: {UNCLEAN: "true"})
        view.wait_for(lambda now: states(now) == [(1, 2, (1,))])


def test_what_the_leader_says_of_its_in_sync_replicas_at_the_same_time_is_not_lost(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    """Both change one node, over and over, and the last word is right by both."""
    live(1)
    topic = create(session, epoch, *[a_partition(1, 2, 3, isr=(1,))] * 50)
    live(3)
    with leading(session, epoch) as (_, view):
        stopping = threading.Event()
        grown = threading.Thread(target=grow_again, args=(session, view, topic, stopping))
        grown.start()
        try:
            for _ in range(5):
                live(2).close()
        finally:
            stopping.set()
            grown.join()
        view.wait_for(lambda now: all(isr in {(1,), (1, 3)} for _, _, isr in states(now)))
        assert {leader for leader, _, _ in states(view.snapshot)} == {1}


def grow_again(
    session: Session, view: ClusterView, topic: TopicInfo, stopping: threading.Event
) -> None:
    """As leaders do who find that their followers have caught up."""
    while not stopping.is_set():
        change_states(
            session,
            [
                StateChange(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition=index,
                    after=replace(partition, isr=(1, 2, 3)),
                )
                for index, partition in enumerate(view.snapshot.topics[topic.name].partitions)
            ],
        )


def test_replicas_have_moved_when_the_new_ones_are_in_sync(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    for each in (1, 2, 3):
        live(each)
    create(session, epoch, a_partition(1, 2), a_partition(2, 1))
    with leading(session, epoch) as (_, view):
        topic = view.wait_for(lambda now: bool(states(now))).topics["views"]
        moving = begun(topic.partitions[0], (3, 2), Brokers.of(view.snapshot))
        assert moving is not None
        change_replicas(session, epoch, topic, {0: moving})
        topic = view.wait_for(lambda now: in_full(now) is not None).topics["views"]
        assert topic.partitions[0].replicas == (3, 2, 1)
        assert topic.partitions[1].move is None
        with pytest.raises(Conflict):
            change_replicas(session, epoch, topic, {0: moving})  # of an earlier version
        caught_up = replace(topic.partitions[0], isr=(1, 2, 3))
        change = StateChange(
            topic=topic.name, topic_id=topic.topic_id, partition=0, after=caught_up
        )
        assert change_states(session, [change]) != [None]
        view.wait_for(lambda now: states(now)[0] == (3, 1, (2, 3)) and in_full(now) is None)
        assert [each.replicas for each in view.snapshot.topics["views"].partitions] == [
            (3, 2),
            (2, 1),
        ]


def in_full(snapshot: ClusterSnapshot) -> Move | None:
    """The move of the first partition, once topic and state show it."""
    first = snapshot.topics["views"].partitions[0]
    return first.move if first.version > 0 else None


def test_topics_that_are_going_are_left_alone(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    create(session, epoch, a_partition(2, 1), name="going")
    mark_deleted(session, epoch, "going")
    create(session, epoch, a_partition(2, 1))
    with leading(session, epoch) as (_, view):
        view.wait_for(lambda now: states(now) == [(1, 1, (1,))])
        assert states(view.snapshot, "going") == [(2, 0, (2, 1))]


def test_a_thousand_partitions_have_new_leaders_at_once(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    """In few transactions: whoever led much is followed about as fast as who led little."""
    live(1)
    second = live(2)
    names = [f"t{number}" for number in range(10)]
    for name in names:
        create(session, epoch, *[a_partition(2, 1)] * 100, name=name)
    with leading(session, epoch) as (_, view):
        view.refresh()
        second.close()
        view.wait_for(lambda now: all(states(now, name) == [(1, 1, (1,))] * 100 for name in names))
    assert len(set(transactions(session, names))) <= MOST_TRANSACTIONS


def transactions(session: Session, names: list[str]) -> Iterator[int]:
    """By which one each state was written last."""
    for name in names:
        for index in range(100):
            _, stat = session.client.get(paths.partition_state(name, index))
            yield stat.mzxid
