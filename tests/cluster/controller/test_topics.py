"""Topics in ZooKeeper: whole or not at all, however large, through crashes and lost answers."""

import threading
import time

import pytest
from msgspec.structs import replace

from cluster.controller import topics
from cluster.controller.controller import elect
from cluster.controller.topics import (
    add_partitions,
    create_topic,
    finish_deletion,
    list_topics,
    mark_deleted,
    read_topic,
    record_deleted,
)
from cluster.errors import Conflict, InvalidTopicName, TopicExists, UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import TopicNode
from cluster.session.operations import Create, in_transactions
from cluster.session.session import Session
from cluster.values import ControllerEpoch, TopicInfo
from tests.cluster.conftest import Connect, a_partition, a_topic
from tests.cluster.proxy import Proxy


def pieces_of(topic: TopicInfo) -> int:
    """Transactions that the creation of a topic takes."""
    return len(list(in_transactions(topics._creations(topic.name, enumerate(topic.partitions)))))


def test_a_created_topic_is_there(session: Session, epoch: ControllerEpoch) -> None:
    topic = TopicInfo(
        name="views",
        topic_id=a_topic().topic_id,
        partitions=(a_partition(1, 2), a_partition(2, 1), a_partition(3)),
    )
    create_topic(session, epoch, topic, {"retention.ms": "5"})
    assert read_topic(session, "views") == topic
    assert list_topics(session) == ("views",)
    assert session.exists(paths.topic_config("views"))
    assert read_topic(session, "other") is None


def test_without_overrides_there_is_no_node_for_them(
    session: Session, epoch: ControllerEpoch
) -> None:
    create_topic(session, epoch, a_topic("views"), {})
    assert not session.exists(paths.topic_config("views"))


def test_a_name_is_taken_once(session: Session, epoch: ControllerEpoch) -> None:
    first = a_topic("views")
    create_topic(session, epoch, first, {})
    with pytest.raises(TopicExists, match="'views' exists already"):
        create_topic(session, epoch, a_topic("views"), {"a": "1"})
    assert read_topic(session, "views") == first
    assert not session.exists(paths.topic_config("views"))
    create_topic(session, epoch, first, {})  # the same topic, by its id: an answer was lost


def test_an_illegal_name_never_gets_to_zookeeper(session: Session, epoch: ControllerEpoch) -> None:
    with pytest.raises(InvalidTopicName):
        create_topic(session, epoch, a_topic("../controller"), {})


def test_a_thousand_partitions_appear_at_once_and_fast(
    session: Session, epoch: ControllerEpoch, connect: Connect
) -> None:
    guarded = connect(f"{session.address}/guarded", secret="s" * 43)
    own = elect(guarded, 1)
    assert own is not None
    topic = a_topic("page_views.by-country", 1000)
    assert pieces_of(topic) == 1
    began = time.monotonic()
    create_topic(guarded, own, topic, {"a": "b"})
    assert time.monotonic() - began < 30
    assert read_topic(guarded, topic.name) == topic


def test_a_topic_too_large_for_a_transaction_is_none_until_it_is_whole(
    session: Session, epoch: ControllerEpoch, connect: Connect
) -> None:
    topic = a_topic("x" * 249, 2000)
    assert pieces_of(topic) > 2
    seen: list[int] = []
    stop = threading.Event()
    other = connect()

    def look() -> None:
        while not stop.wait(0.02):
            found = read_topic(other, topic.name)
            if found is not None:
                seen.append(len(found.partitions))

    looking = threading.Thread(target=look)
    looking.start()
    create_topic(session, epoch, topic, {"a": "1"})
    assert read_topic(session, topic.name) == topic
    stop.set()
    looking.join()
    assert set(seen) <= {2000}

    mark_deleted(session, epoch, topic.name)
    finish_deletion(session, epoch, topic.name)
    assert list_topics(session) == ()
    assert session.children(paths.TOPIC_CONFIGS) == ()


@pytest.mark.parametrize("partitions", [0, 1, 7])
def test_what_a_crash_left_of_a_creation_is_no_topic_and_is_cleared_away(
    session: Session, epoch: ControllerEpoch, partitions: int
) -> None:
    half = a_topic("views", 9)
    session.write(
        [
            Create(
                paths.topic("views"),
                nodes.encode(TopicNode(topic_id=half.topic_id, replicas=None)),
            ),
            Create(paths.partitions("views")),
            *topics._creations("views", enumerate(half.partitions[:partitions])),
        ]
    )
    assert read_topic(session, "views") is None
    with pytest.raises(UnknownTopic):
        mark_deleted(session, epoch, "views")
    with pytest.raises(UnknownTopic):
        add_partitions(session, epoch, "views", 0, [a_partition()])

    topic = a_topic("views", 3)
    create_topic(session, epoch, topic, {"a": "1"})
    assert read_topic(session, "views") == topic
    assert session.children(paths.partitions("views")) is not None
    assert len(session.children(paths.partitions("views")) or ()) == 3


def test_overrides_of_no_topic_do_not_pass_to_a_new_one(
    session: Session, epoch: ControllerEpoch
) -> None:
    session.write([Create(paths.topic_config("views"), b'{"version":1,"config":{"old":"1"}}')])
    create_topic(session, epoch, a_topic("views"), {"new": "1"})
    node = session.read(paths.topic_config("views"))
    assert node is not None
    assert node.data == b'{"version":1,"config":{"new":"1"}}'


@pytest.mark.parametrize("partitions", [1, 1500])
def test_a_lost_answer_creates_the_topic_once(
    proxied: Session, proxy: Proxy, session: Session, partitions: int
) -> None:
    epoch = elect(proxied, 1)
    assert epoch is not None
    topic = a_topic("x" * 200, partitions)
    proxy.swallow_the_next_answer()
    create_topic(proxied, epoch, topic, {"a": "1"})
    proxy.wait_until_swallowed()
    assert read_topic(session, topic.name) == topic


def test_many_create_topics_at_once(session: Session, epoch: ControllerEpoch) -> None:
    created: list[str] = []
    refused: list[str] = []

    def create(name: str) -> None:
        try:
            create_topic(session, epoch, a_topic(name, 2), {})
            created.append(name)
        except TopicExists:
            refused.append(name)

    names = [f"t{number % 10}" for number in range(30)]
    threads = [threading.Thread(target=create, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == sorted(set(names))
    assert len(refused) == 20


def test_partitions_are_added(session: Session, epoch: ControllerEpoch) -> None:
    topic = a_topic("views", 2)
    create_topic(session, epoch, topic, {})
    added = (a_partition(2), a_partition(3))
    add_partitions(session, epoch, "views", 2, added)
    assert read_topic(session, "views") == replace(topic, partitions=topic.partitions + added)


def test_partitions_are_not_added_twice(session: Session, epoch: ControllerEpoch) -> None:
    create_topic(session, epoch, a_topic("views", 2), {})
    add_partitions(session, epoch, "views", 2, [a_partition(2)])
    with pytest.raises(Conflict, match="has 3 partitions"):
        add_partitions(session, epoch, "views", 2, [a_partition(2)])
    with pytest.raises(UnknownTopic):
        add_partitions(session, epoch, "other", 0, [a_partition(2)])


def test_partitions_that_a_crash_left_unnamed_are_written_anew(
    session: Session, epoch: ControllerEpoch
) -> None:
    create_topic(session, epoch, a_topic("views", 1), {})
    session.write(topics._creations("views", [(1, a_partition(9)), (2, a_partition(9))]))
    add_partitions(session, epoch, "views", 1, [a_partition(2)])
    found = read_topic(session, "views")
    assert found is not None
    assert found.partitions == (a_partition(1), a_partition(2))
    assert set(session.children(paths.partitions("views")) or ()) == {"0", "1"}


def test_a_topic_goes_with_all_that_was_its_own(session: Session, epoch: ControllerEpoch) -> None:
    create_topic(session, epoch, a_topic("views", 3), {"a": "1"})
    create_topic(session, epoch, a_topic("stays", 1), {"a": "1"})
    mark_deleted(session, epoch, "views")
    assert session.children(paths.DELETIONS) == ("views",)
    assert list_topics(session) == ("stays", "views")
    with pytest.raises(TopicExists, match="is being deleted"):
        create_topic(session, epoch, a_topic("views"), {})
    with pytest.raises(UnknownTopic, match="is being deleted"):
        add_partitions(session, epoch, "views", 3, [a_partition()])
    mark_deleted(session, epoch, "views")

    finish_deletion(session, epoch, "views")
    assert list_topics(session) == ("stays",)
    assert session.children(paths.TOPIC_CONFIGS) == ("stays",)
    assert session.children(paths.DELETIONS) == ()
    finish_deletion(session, epoch, "views")
    create_topic(session, epoch, a_topic("views"), {})
    finish_deletion(session, epoch, "views")
    assert list_topics(session) == ("stays", "views")


def test_a_deletion_waits_for_the_live_and_remembers_the_dead(
    session: Session, epoch: ControllerEpoch
) -> None:
    topic = replace(a_topic("views"), partitions=(a_partition(1, 2), a_partition(3, 2)))
    create_topic(session, epoch, topic, {})
    mark_deleted(session, epoch, "views")

    def owing() -> set[str]:
        return set(session.children(paths.OWED_DELETIONS) or ())

    assert owing() == {f"{broker}-{topic.topic_id}" for broker in (1, 2, 3)}
    assert not finish_deletion(session, epoch, "views", live=(1, 2, 4))
    record_deleted(session, 1, topic.topic_id)
    record_deleted(session, 1, topic.topic_id)
    assert not finish_deletion(session, epoch, "views", live=(1, 2, 4))
    assert list_topics(session) == ("views",)
    record_deleted(session, 2, topic.topic_id)
    assert finish_deletion(session, epoch, "views", live=(1, 2, 4))
    assert list_topics(session) == ()
    create_topic(session, epoch, a_topic("views"), {})
    assert owing() == {f"3-{topic.topic_id}"}
    record_deleted(session, 3, topic.topic_id)
    assert owing() == set()


def test_an_unknown_topic_is_not_marked(session: Session, epoch: ControllerEpoch) -> None:
    with pytest.raises(UnknownTopic, match="'views'"):
        mark_deleted(session, epoch, "views")


def test_a_deletion_that_a_crash_interrupted_is_finished(
    session: Session, epoch: ControllerEpoch
) -> None:
    create_topic(session, epoch, a_topic("views", 4), {"a": "1"})
    mark_deleted(session, epoch, "views")
    removal = topics._deletions(session, "views", range(4))
    session.write(removal[:5])  # in the middle of a partition, even
    finish_deletion(session, epoch, "views")
    assert list_topics(session) == ()
    assert session.children(paths.DELETIONS) == ()


def test_a_marker_for_a_predecessor_deletes_nothing(
    session: Session, epoch: ControllerEpoch
) -> None:
    create_topic(session, epoch, a_topic("views"), {})
    mark_deleted(session, epoch, "views")
    topics._remove(session, epoch, "views")
    successor = a_topic("views", 2)
    create_topic(session, epoch, successor, {})
    finish_deletion(session, epoch, "views")
    assert read_topic(session, "views") == successor
    assert session.children(paths.DELETIONS) == ()
