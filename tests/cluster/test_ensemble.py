"""A real ensemble: members are killed and frozen, and neither session nor map is lost."""

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from cluster.controller.controller import elect
from cluster.controller.topics import create_topic, read_topic
from cluster.errors import ClusterError, Unavailable
from cluster.layout import paths
from cluster.records.brokers import register, registered
from cluster.records.identity import cluster_id
from cluster.session.operations import Create
from cluster.session.session import Session, SessionState
from cluster.view import ClusterView
from harness.penstock.clusters.zookeepers import ZooKeepers
from harness.processes.waiting import wait_until
from tests.cluster.conftest import a_broker, a_topic

pytestmark = pytest.mark.long

SIZE = 3
Open = Callable[..., Session]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeepers]:
    ensemble = ZooKeepers(tmp_path_factory.mktemp("ensemble"), SIZE)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.close()


@pytest.fixture
def ensemble(running: ZooKeepers) -> ZooKeepers:
    wait_until(lambda: all(each.ready() for each in running.servers), what="all serve")
    return running


@pytest.fixture
def open_session(ensemble: ZooKeepers) -> Iterator[Open]:
    opened: list[Session] = []
    chroot = f"/t{uuid.uuid4().hex[:12]}"

    def open_session(hosts: str | None = None, timeout_s: float = 12.0) -> Session:
        address = (hosts or ensemble.address) + chroot
        opened.append(
            Session.connect(address, secret="secret", timeout_s=timeout_s, connect_timeout_s=30)
        )
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


def address_of(ensemble: ZooKeepers, number: int) -> str:
    return f"127.0.0.1:{ensemble.servers[number].port}"


def member_of(ensemble: ZooKeepers, session: Session) -> int:
    """Which of them the session is connected to."""
    _, port = session.client._connection._socket.getpeername()
    return [each.port for each in ensemble.servers].index(port)


def test_a_frozen_member_is_left_for_another(ensemble: ZooKeepers, open_session: Open) -> None:
    session = open_session(timeout_s=6.0)
    register(session, a_broker(1))
    before = session.session_id
    member = member_of(ensemble, session)
    frozen = ensemble.servers[member].process.pid
    os.kill(frozen, signal.SIGSTOP)
    try:
        wait_until(lambda: session.read(paths.broker(1)))
        assert session.session_id == before
        assert member_of(ensemble, session) != member
    finally:
        os.kill(frozen, signal.SIGCONT)


def test_a_refresh_at_one_member_sees_what_was_written_at_another(
    ensemble: ZooKeepers, open_session: Open
) -> None:
    writer = open_session(address_of(ensemble, 0))
    epoch = elect(writer, 1)
    assert epoch is not None
    views = [ClusterView(open_session(address_of(ensemble, number))) for number in (1, 2)]
    for view in views:
        view.start(lambda _: None)
    for number in range(10):
        topic = a_topic(f"t{number}")
        create_topic(writer, epoch, topic, {})
        for view in views:
            assert view.refresh().topics.get(topic.name) == topic
    for view in views:
        view.close()


def is_written(session: Session) -> bool:
    path = f"/written-{uuid.uuid4().hex}"
    try:
        session.write([Create(path, b"")], done=lambda: session.exists(path))
    except ClusterError:
        return False
    return True


def test_without_a_majority_nothing_is_written_and_with_one_it_goes_on(
    ensemble: ZooKeepers, open_session: Open
) -> None:
    session = open_session(timeout_s=4.0)
    name = cluster_id(session)
    view = ClusterView(session)
    view.start(lambda _: None)
    for each in ensemble.servers[:2]:
        each.kill()
    with pytest.raises(Unavailable, match=address_of(ensemble, 2)):
        session.write([Create("/never", b"")])
    assert view.snapshot.cluster_id == name
    ensemble.start()
    wait_until(lambda: is_written(session))
    assert view.refresh(timeout_s=20).cluster_id == name
    view.close()


def test_members_are_killed_in_turn_and_neither_session_nor_map_is_lost(
    ensemble: ZooKeepers, open_session: Open
) -> None:
    session = open_session()
    register(session, a_broker(1))
    epoch = elect(session, 1)
    assert epoch is not None
    view = ClusterView(session)
    view.start(lambda _: None)
    before = session.session_id
    states: list[SessionState] = []
    session.add_listener(states.append)
    created = {}
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.wait(0.02):
            topic = a_topic(f"t{number}", 2)
            try:
                create_topic(session, epoch, topic, {"a": "1"})
                created[topic.name] = topic
            except Unavailable:
                pass
            number += 1

    working = threading.Thread(target=work)
    working.start()
    first = member_of(ensemble, session)
    for member in (first, *({*range(SIZE)} - {first})):
        ensemble.servers[member].kill()
        topic = a_topic(f"without-{member}")
        create_topic(session, epoch, topic, {})
        view.wait_for(lambda now, topic=topic: now.topics.get(topic.name) == topic, timeout_s=20)
        ensemble.start()
    done.set()
    working.join()
    view.close()

    assert session.session_id == before
    assert SessionState.LOST not in states
    assert registered(session, 1) == a_broker(1)
    assert elect(session, 1) == epoch
    assert len(created) > 20
    for name, topic in created.items():
        assert read_topic(session, name) == topic
