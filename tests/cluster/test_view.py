"""The view: loads fast, follows every change, survives lost sessions and a wiped ZooKeeper."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.controller.controller import elect
from cluster.controller.topics import add_partitions, create_topic, finish_deletion, mark_deleted
from cluster.errors import MapMissing, Unavailable
from cluster.layout import paths
from cluster.records.brokers import register
from cluster.records.configs import BrokerResource, TopicResource, alter
from cluster.records.identity import cluster_id
from cluster.session.operations import Create, Delete, Set, in_transactions
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, ControllerEpoch
from cluster.view import ClusterView
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from tests.cluster.conftest import Connect, a_broker, a_partition, a_topic, expire
from tests.cluster.proxy import Proxy

Views = Callable[[Session], tuple[ClusterView, list[ClusterSnapshot]]]


@pytest.fixture
def open_view(session: Session) -> Iterator[Views]:
    """Views, and the snapshots they tell. Asks for the session only so that it ends after them."""
    opened: list[ClusterView] = []

    def open_view(session: Session) -> tuple[ClusterView, list[ClusterSnapshot]]:
        view = ClusterView(session)
        told: list[ClusterSnapshot] = []
        opened.append(view)
        view.start(told.append)
        return view, told

    yield open_view
    for view in opened:
        view.close()


def test_a_new_view_has_what_is_there(
    session: Session, epoch: ControllerEpoch, open_view: Views
) -> None:
    name, topic = cluster_id(session), a_topic("views", 3)
    register(session, a_broker(1))
    create_topic(session, epoch, topic, {"retention.ms": "5"})
    alter(session, BrokerResource(1), lambda _: {"a": "1"})
    alter(session, BrokerResource(None), lambda _: {"b": "2"})

    view, told = open_view(session)

    snapshot = view.snapshot
    assert snapshot.cluster_id == name
    assert snapshot.controller_id == 1
    assert snapshot.brokers == {1: a_broker(1)}
    assert snapshot.topics == {"views": topic}
    assert snapshot.topic_names == {topic.topic_id: "views"}
    assert snapshot.topic_configs == {"views": {"retention.ms": "5"}}
    assert snapshot.broker_configs == {1: {"a": "1"}}
    assert snapshot.broker_defaults == {"b": "2"}
    assert snapshot.deleting == frozenset()
    assert told == [snapshot]


def test_every_kind_of_change_of_others_is_followed(
    session: Session, epoch: ControllerEpoch, connect: Connect, open_view: Views
) -> None:
    view, told = open_view(connect())
    topic = a_topic("views", 1)
    create_topic(session, epoch, topic, {})
    view.wait_for(lambda now: now.topics.get("views") == topic)

    add_partitions(session, epoch, "views", 1, [a_partition(2), a_partition(3)])
    view.wait_for(lambda now: len(now.topics["views"].partitions) == 3)
    assert view.snapshot.topics["views"].partitions[1:] == (a_partition(2), a_partition(3))

    session.write(
        [
            Set(
                paths.partition_state("views", 1),
                b'{"version":1,"leader":7,"leader_epoch":4,"isr":[7],"controller_epoch":1}',
            )
        ]
    )
    view.wait_for(lambda now: now.topics["views"].partitions[1].leader == 7)
    assert view.snapshot.topics["views"].partitions[1].leader_epoch == 4

    alter(session, TopicResource("views"), lambda _: {"a": "1"})
    view.wait_for(lambda now: now.topic_configs == {"views": {"a": "1"}})
    alter(session, TopicResource("views"), lambda _: {"a": "2"})
    view.wait_for(lambda now: now.topic_configs == {"views": {"a": "2"}})

    register(session, a_broker(1))
    view.wait_for(lambda now: now.brokers == {1: a_broker(1)})
    session.write([Delete(paths.broker(1))])
    view.wait_for(lambda now: not now.brokers)

    mark_deleted(session, epoch, "views")
    view.wait_for(lambda now: now.deleting == {"views"})
    finish_deletion(session, epoch, "views")
    view.wait_for(lambda now: not now.topics and not now.deleting and not now.topic_configs)

    session.write([Delete(paths.CONTROLLER)])
    view.wait_for(lambda now: now.controller_id is None)
    elect(session, 3)
    view.wait_for(lambda now: now.controller_id == 3)
    assert told[-1] == view.snapshot
    assert all(earlier != later for earlier, later in pairwise(told))


def test_who_writes_sees_it_after_waiting(
    session: Session, epoch: ControllerEpoch, open_view: Views
) -> None:
    view, _ = open_view(session)
    for number in range(20):
        create_topic(session, epoch, a_topic(f"t{number}"), {})
        view.wait_for(lambda now, name=f"t{number}": name in now.topics)


def test_refresh_sees_what_others_wrote_before(
    session: Session, epoch: ControllerEpoch, connect: Connect, open_view: Views
) -> None:
    view, _ = open_view(connect())
    for number in range(20):
        topic = a_topic(f"t{number}", 3)
        create_topic(session, epoch, topic, {})
        assert view.refresh().topics[topic.name] == topic


def test_waiting_in_vain_ends(session: Session, open_view: Views) -> None:
    view, _ = open_view(session)
    with pytest.raises(Unavailable, match=r"within 0\.1 s"):
        view.wait_for(lambda now: "never" in now.topics, timeout_s=0.1)


def test_a_lost_session_is_made_good(
    session: Session, epoch: ControllerEpoch, connect: Connect, open_view: Views
) -> None:
    own = connect()
    cluster_id(own)
    view, _ = open_view(own)
    for number in range(3):
        expire(own)
        create_topic(session, epoch, a_topic(f"t{number}"), {})
        view.wait_for(lambda now, name=f"t{number}": name in now.topics)
    assert len(view.snapshot.topics) == 3


def test_connections_break_all_the_time_and_the_map_is_right_in_the_end(
    session: Session, epoch: ControllerEpoch, proxied: Session, proxy: Proxy, open_view: Views
) -> None:
    view, told = open_view(proxied)
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.07):
            proxy.cut()

    cutting = threading.Thread(target=cut)
    cutting.start()
    wanted = {}
    for number in range(60):
        topic = a_topic(f"t{number}", 2)
        create_topic(session, epoch, topic, {"n": str(number)})
        wanted[topic.name] = topic
        if number % 3 == 0:
            mark_deleted(session, epoch, topic.name)
            finish_deletion(session, epoch, topic.name)
            del wanted[topic.name]
        time.sleep(0.02)
    stop.set()
    cutting.join()

    view.wait_for(lambda now: now.topics == wanted)
    assert set(view.snapshot.topic_configs) == set(wanted)
    for snapshot in told:  # no half of anything was ever shown
        for topic in snapshot.topics.values():
            assert len(topic.partitions) == 2


def test_a_change_of_one_topic_reads_no_other(
    session: Session, epoch: ControllerEpoch, connect: Connect, open_view: Views
) -> None:
    for number in range(10):
        create_topic(session, epoch, a_topic(f"t{number}"), {})
    view, _ = open_view(connect())
    before = dict(view.snapshot.topics)
    add_partitions(session, epoch, "t3", 1, [a_partition(1)])
    view.wait_for(lambda now: len(now.topics["t3"].partitions) == 2)
    for name, topic in view.snapshot.topics.items():
        assert (topic is before[name]) == (name != "t3")


def test_a_thousand_topics_load_in_little_time(
    session: Session, connect: Connect, open_view: Views
) -> None:
    operations = []
    for number in range(1000):
        path = f"{paths.TOPICS}/topic-{number}"
        data = f'{{"version":1,"topic_id":"{uuid.uuid4()}","replicas":[[1]]}}'
        state = b'{"version":1,"leader":1,"leader_epoch":0,"isr":[1],"controller_epoch":1}'
        operations += [
            Create(path, data.encode()),
            Create(f"{path}/partitions"),
            Create(f"{path}/partitions/0"),
            Create(f"{path}/partitions/0/state", state),
            Create(f"{paths.TOPIC_CONFIGS}/topic-{number}", b'{"version":1,"config":{"a":"b"}}'),
        ]
    for piece in in_transactions(operations):
        session.write(piece)

    own = connect(timeout_s=18.0)
    began = time.process_time()  # of this process: others may keep the machine busy
    view, _ = open_view(own)
    seconds = time.process_time() - began

    assert len(view.snapshot.topics) == 1000
    assert len(view.snapshot.topic_configs) == 1000
    assert seconds < 3.0  # far less, where nobody else keeps the processor busy

    changed = time.process_time()
    session.write([Set(f"{paths.TOPIC_CONFIGS}/topic-7", b'{"version":1,"config":{"a":"c"}}')])
    view.wait_for(lambda now: now.topic_configs["topic-7"] == {"a": "c"})
    assert time.process_time() - changed < 0.2


def test_a_wiped_zookeeper_empties_no_map_and_a_restored_one_is_followed(
    tmp_path: Path, open_view: Views, proxy: Proxy
) -> None:
    """The wiped one is another server at the same address."""
    server = EmbeddedZooKeeper.start(tmp_path / "first", port=0)
    wiped = EmbeddedZooKeeper.start(tmp_path / "second", port=0)
    proxy.lead_to((server.host, server.port))
    session = Session.connect(proxy.address, secret=None, timeout_s=2.0)
    try:
        name = cluster_id(session)
        epoch = elect(session, 1)
        assert epoch is not None
        topic = a_topic("views")
        create_topic(session, epoch, topic, {})
        view, told = open_view(session)
        count = len(told)

        proxy.lead_to((wiped.host, wiped.port))
        with pytest.raises(Unavailable):
            view.refresh(timeout_s=3.0)
        other = Session.connect(proxy.address, secret=None, timeout_s=2.0)
        assert cluster_id(other) != name
        with pytest.raises(Unavailable):
            view.refresh(timeout_s=3.0)
        other.close()
        assert view.snapshot.topics == {"views": topic}
        assert len(told) == count

        proxy.lead_to((server.host, server.port))
        restored = Session.connect(proxy.address, secret=None, timeout_s=2.0)
        # Not before the first session's node has gone.
        epoch = wait_until(lambda: elect(restored, 1))
        assert epoch is not None
        create_topic(restored, epoch, a_topic("later"), {})
        view.wait_for(lambda now: set(now.topics) == {"views", "later"}, timeout_s=15)
        restored.close()
    finally:
        session.close()
        server.stop()
        wiped.stop()


def test_another_cluster_s_map_in_its_place_is_not_followed(
    session: Session, epoch: ControllerEpoch, open_view: Views, caplog: pytest.LogCaptureFixture
) -> None:
    name = cluster_id(session)
    create_topic(session, epoch, a_topic("views"), {})
    view, told = open_view(session)
    before = view.snapshot
    node = session.read(paths.CLUSTER_ID)
    assert node is not None

    session.write([Delete(paths.CLUSTER_ID)])
    wait_until(lambda: "wiped or replaced" in caplog.text)
    session.write([Create(paths.CLUSTER_ID, b'{"version":1,"cluster_id":"another"}')])
    mark_deleted(session, epoch, "views")
    finish_deletion(session, epoch, "views")
    wait_until(lambda: f"held cluster {name} and now holds another" in caplog.text)
    assert view.snapshot is before
    assert told == [before]

    session.write([Set(paths.CLUSTER_ID, node.data)])
    view.wait_for(lambda now: not now.topics)


def test_a_view_of_nothing_is_refused(session: Session) -> None:
    for path in (paths.DELETIONS, paths.OWED_DELETIONS, "/admin"):
        session.write([Delete(path)])
    with pytest.raises(MapMissing, match=f"{paths.DELETIONS}|{paths.OWED_DELETIONS}"):
        ClusterView(session).start(lambda _: None)


def test_a_listener_that_fails_does_not_stop_the_view(
    session: Session, epoch: ControllerEpoch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(snapshot: ClusterSnapshot) -> None:
        if len(snapshot.topics) == 1:
            raise ValueError("a bug")

    view = ClusterView(session)
    view.start(fail)
    try:
        create_topic(session, epoch, a_topic("one"), {})
        view.wait_for(lambda now: "one" in now.topics)
        create_topic(session, epoch, a_topic("two"), {})
        view.wait_for(lambda now: "two" in now.topics)
    finally:
        view.close()
    assert "a bug" in caplog.text
