"""Who is in sync, changed in a real ZooKeeper; and what counts while nobody knows what stands."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import pytest
from msgspec.structs import replace

from broker.replication.followers import Followers
from broker.replication.in_sync_changes import InSyncChanges
from cluster.controller.controller import elect
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.topics import create_topic, read_topic
from cluster.errors import Unavailable
from cluster.session.session import Session
from cluster.values import PartitionInfo, TopicInfo
from harness.processes.event_loops import on_event_loop
from tests.cluster.conftest import a_partition, a_topic


@dataclass(eq=False)
class Led:
    """A partition that is led here."""

    topic_info: TopicInfo
    index: int = 0

    def __post_init__(self) -> None:
        self.topic = self.topic_info.name
        self.info = self.topic_info.partitions[self.index]
        self.followers: Followers | None = Followers(self.info, 0, 0.0)
        for each in self.info.replicas[1:]:
            self.followers.fetched(each, 10, 10, 0.0)
        self.news = asyncio.Event()

    @property
    def topic_id(self) -> UUID:
        return self.topic_info.topic_id

    def follow_in_sync(self, info: PartitionInfo) -> None:
        self.info = info
        assert self.followers is not None
        self.followers.follow(info)
        self.news.set()

    def drop_lagging(self, patience: float) -> None:
        raise NotImplementedError


@pytest.fixture
def topic(session: Session) -> TopicInfo:
    epoch = elect(session, 1)
    assert epoch is not None
    three = a_partition(1, 2, 3)
    create_topic(session, epoch, replace(a_topic("views"), partitions=(three, three)), {})
    return stands(session)


def stands(session: Session) -> TopicInfo:
    found = read_topic(session, "views")
    assert found is not None
    return found


def all_are_live() -> set[int]:
    return {1, 2, 3}


@on_event_loop
async def test_nobody_joins_who_is_not_there(session: Session, topic: TopicInfo) -> None:
    """The controller would take it out again; and whoever is in sync may leave all the same."""

    led, live = Led(topic), {1, 2}
    changes = InSyncChanges(partial(change_states, session), lambda: live)
    changes.propose(led, frozenset({1, 2}))
    await led.news.wait()
    assert led.followers is not None
    changes.propose(led, frozenset({1, 2, 3}))
    assert led.followers.proposed is None
    live.add(3)
    led.news.clear()
    changes.propose(led, frozenset({1, 2, 3}))
    await led.news.wait()
    assert stands(session).partitions[0].isr == (1, 2, 3)


@on_event_loop
async def test_a_change_stands_in_the_map(session: Session, topic: TopicInfo) -> None:
    led = Led(topic), Led(topic, 1)
    changes = InSyncChanges(partial(change_states, session), all_are_live)
    for each in led:
        changes.propose(each, frozenset({3, 1}))
    changes.propose(led[0], frozenset({1}))  # one at a time
    await asyncio.gather(*(each.news.wait() for each in led))
    assert tuple(each.info for each in led) == stands(session).partitions
    assert led[0].info.isr == (1, 3)
    changes.propose(led[0], frozenset({1}))
    led[0].news.clear()
    await led[0].news.wait()
    assert stands(session).partitions[0].isr == (1,)
    await changes.stop()


@on_event_loop
async def test_what_another_has_changed_is_not_overwritten_and_both_count_until_the_map_tells(
    session: Session, topic: TopicInfo
) -> None:
    """The leader cannot tell it from a change of its own whose answer was lost: then the one that
    it has let in could be elected without being waited for."""
    led_before = topic.partitions[0]
    change_states(session, [changed(topic, replace(led_before, isr=(1, 2)))])

    led = Led(topic)
    followers = led.followers
    assert followers is not None
    written = threading.Event()
    changes = InSyncChanges(partial(write_and_say, session, written), all_are_live)
    changes.propose(led, frozenset({1}))
    await asyncio.to_thread(written.wait, 10)
    await changes.stop()
    assert stands(session).partitions[0].isr == (1, 2)
    assert led.info == led_before
    followers.fetched(2, 20, 20, 1.0)
    followers.fetched(3, 15, 20, 1.0)
    assert followers.committed == 15
    led.follow_in_sync(stands(session).partitions[0])
    assert followers.committed == 20


def changed(topic: TopicInfo, after: PartitionInfo) -> StateChange:
    return StateChange(topic=topic.name, topic_id=topic.topic_id, partition=0, after=after)


def write_and_say(
    session: Session, written: threading.Event, changes: Sequence[StateChange]
) -> list[PartitionInfo | None]:
    try:
        return change_states(session, changes)
    finally:
        written.set()


@on_event_loop
async def test_while_zookeeper_is_away_it_is_tried_again(
    session: Session, topic: TopicInfo
) -> None:
    tries = 0

    def write(changes: Sequence[StateChange]) -> list[PartitionInfo | None]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("nobody answers")
        return change_states(session, changes)

    led = Led(topic)
    assert led.followers is not None
    changes = InSyncChanges(write, all_are_live, retry_seconds=0.01)
    changes.propose(led, frozenset({1, 2}))
    await led.news.wait()
    assert stands(session).partitions[0].isr == (1, 2)
    assert tries == 3
    await changes.stop()
