"""A broker that is told to stop lets others lead first."""

import asyncio
import time
from typing import Final

from msgspec.structs import replace

from broker.controller.draining import hand_over, to_hand_over
from cluster.layout import paths
from cluster.records.brokers import register
from cluster.records.draining import announce
from cluster.session.session import Session
from cluster.values import NO_LEADER, ClusterSnapshot, ControllerEpoch, TopicInfo
from cluster.view import ClusterView
from tests.broker.controller.conftest import Live
from tests.broker.controller.led_cluster import create, leading, states
from tests.cluster.conftest import Connect, a_broker, a_partition, a_topic

LONG: Final = 60.0


def snapshot(topic: TopicInfo, *brokers: int, draining: int = 9) -> ClusterSnapshot:
    return ClusterSnapshot(
        brokers={each: a_broker(each) for each in brokers},
        topics={topic.name: topic},
        draining=frozenset({draining}),
    )


def test_what_is_to_be_handed_over() -> None:
    topic = replace(
        a_topic(),
        partitions=(
            a_partition(1, 2),
            a_partition(2, 1),
            a_partition(1, 2, isr=(1,)),
            a_partition(1, 3),
            a_partition(1),
            a_partition(1, 2, leader=NO_LEADER),
        ),
    )
    assert to_hand_over(snapshot(topic, 1, 2, 3), 1) == 2
    assert to_hand_over(snapshot(topic, 1, 2), 1) == 1
    assert to_hand_over(snapshot(topic, 1, 2, 3, draining=2), 1) == 1
    assert to_hand_over(snapshot(topic, 1), 1) == 0
    assert to_hand_over(replace(snapshot(topic, 1, 2, 3), deleting=frozenset({topic.name})), 1) == 0


def test_the_lead_goes_to_others(session: Session, epoch: ControllerEpoch, live: Live) -> None:
    live(1)
    second = live(2)
    create(session, epoch, a_partition(2, 1), a_partition(2), a_partition(1, 2))
    with leading(session, epoch) as (_, view):
        view.refresh()
        asyncio.run(hand_over(second, view, 2, LONG))
        assert states(view.snapshot) == [(1, 1, (2, 1)), (2, 0, (2,)), (1, 0, (1, 2))]
        second.close()
        view.wait_for(lambda now: states(now) == [(1, 1, (1,)), (NO_LEADER, 1, (2,)), (1, 0, (1,))])
        view.wait_for(lambda now: not now.draining)


def test_without_a_controller_it_is_not_waited_for_ever(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    second = live(2)
    create(session, epoch, a_partition(2, 1))
    with leading(session, None) as (_, view):
        view.refresh()
        began = time.monotonic()
        asyncio.run(hand_over(second, view, 2, 0.5))
        assert time.monotonic() - began >= 0.5
        assert states(view.snapshot) == [(2, 0, (2, 1))]


def test_a_broker_that_others_can_do_without_says_nothing(
    session: Session, epoch: ControllerEpoch, live: Live
) -> None:
    live(1)
    create(session, epoch, a_partition(1))
    with leading(session, epoch) as (_, view):
        view.refresh()
        asyncio.run(hand_over(session, view, 1, LONG))
    assert session.children(paths.DRAINING) == ()


def test_the_next_process_takes_back_what_one_that_was_killed_had_said(
    session: Session, connect: Connect
) -> None:
    killed = connect()
    register(killed, a_broker(1))
    announce(killed, 1)
    announce(killed, 1)
    view = ClusterView(session)
    view.start(lambda _: None)
    assert view.snapshot.draining == {1}
    register(session, a_broker(1))
    view.wait_for(lambda now: not now.draining and now.brokers.keys() == {1})
    view.close()
