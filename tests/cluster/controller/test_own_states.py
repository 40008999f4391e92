"""What a broker says of its own replicas, by compare-and-set, and of its data directory."""

import threading
import uuid

import pytest
from msgspec.structs import replace

from cluster.controller.controller import elect
from cluster.controller.own_states import OwnStates
from cluster.controller.topics import add_partitions, create_topic, read_topic
from cluster.errors import Conflict, UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import StateNode
from cluster.records.brokers import last_directory, note_directory
from cluster.session.session import Session
from cluster.values import NO_LEADER, TopicInfo
from tests.cluster.conftest import Connect, a_partition, a_topic


@pytest.fixture
def topic(session: Session) -> TopicInfo:
    epoch = elect(session, 1)
    assert epoch is not None
    topic = a_topic("views", 2)
    create_topic(session, epoch, topic, {})
    return topic


def raised(session: Session, topic: TopicInfo, *, above: int = -1) -> int:
    states = OwnStates(session, 1)
    return states.raise_epoch("views", topic.topic_id, 0, above=above).leader_epoch


def epochs(session: Session) -> list[int]:
    found = read_topic(session, "views")
    assert found is not None
    return [each.leader_epoch for each in found.partitions]


def test_it_is_above_what_stands_there_and_what_is_known(
    session: Session, topic: TopicInfo
) -> None:
    assert raised(session, topic, above=-1) == 1
    assert raised(session, topic, above=0) == 2
    assert raised(session, topic, above=7) == 8
    assert epochs(session) == [8, 0]
    state = session.read(paths.partition_state("views", 0))
    assert state is not None
    found = nodes.decode("", state.data, StateNode)
    assert (found.leader, found.isr, found.controller_epoch) == (1, (1,), 1)


def test_of_many_at_once_each_gets_its_own(
    session: Session, connect: Connect, topic: TopicInfo
) -> None:
    """Partitions are added meanwhile, which changes the topic's node."""
    found: list[int] = []
    epoch = elect(session, 1)
    assert epoch is not None

    def act(own: Session) -> None:
        found.extend(raised(own, topic) for _ in range(10))

    threads = [threading.Thread(target=act, args=(connect(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2, 8):
        add_partitions(session, epoch, "views", number, [a_partition(1)])
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 31))


def test_not_for_another_topic_of_the_name_nor_by_another_broker(
    session: Session, topic: TopicInfo
) -> None:
    with pytest.raises(UnknownTopic, match="no longer has the id"):
        OwnStates(session, 1).raise_epoch("views", uuid.uuid4(), 0, above=-1)
    with pytest.raises(UnknownTopic, match="no partition 5"):
        OwnStates(session, 1).raise_epoch("views", topic.topic_id, 5, above=-1)
    with pytest.raises(Conflict, match="led by broker 1"):
        OwnStates(session, 2).raise_epoch("views", topic.topic_id, 0, above=-1)
    assert epochs(session) == [0, 0]


def replicated(session: Session, leader: int, isr: tuple[int, ...]) -> TopicInfo:
    epoch = elect(session, 1)
    assert epoch is not None
    topic = replace(a_topic("copied"), partitions=(a_partition(1, 2, 3, leader=leader, isr=isr),))
    create_topic(session, epoch, topic, {})
    return topic


@pytest.mark.parametrize(
    ("leader", "isr", "after"),
    [
        (1, (1, 2, 3), (NO_LEADER, 1, (2, 3))),
        (2, (1, 2), (2, 1, (2,))),
        (2, (2, 3), (2, 1, (2, 3))),  # it was not in sync: a leader may be about to let it in
        (1, (1,), (1, 0, (1,))),  # nobody else is
    ],
)
def test_one_leaves_those_in_sync_unless_it_is_alone(
    session: Session, leader: int, isr: tuple[int, ...], after: tuple[int, int, tuple[int, ...]]
) -> None:
    topic = replicated(session, leader, isr)
    told = OwnStates(session, 1).leave_in_sync("copied", topic.topic_id, 0)
    assert (told.leader, told.leader_epoch, told.isr) == after
    found = read_topic(session, "copied")
    assert found is not None
    assert found.partitions == (told,)


def test_the_last_directory_of_each_broker_is_known(session: Session) -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    assert last_directory(session, 1) is None
    note_directory(session, 1, first)
    note_directory(session, 2, second)
    assert (last_directory(session, 1), last_directory(session, 2)) == (first, second)
    note_directory(session, 1, second)
    assert last_directory(session, 1) == second
