"""Sessions with the real ZooKeeper, and ways to lose them."""

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from cluster.controller.controller import elect
from cluster.session.session import Session, SessionState
from cluster.values import BrokerInfo, ControllerEpoch, PartitionInfo, TopicInfo
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.cluster.proxy import Proxy

Connect = Callable[..., Session]


@pytest.fixture
def connect(chroot: str) -> Iterator[Connect]:
    """Opens sessions with the test's own map; each ends with the test."""
    opened: list[Session] = []

    def open_session(
        hosts: str = chroot,
        *,
        secret: str | None = None,
        timeout_s: float = 4.0,
        makes_map: bool = True,
    ) -> Session:
        session = Session.connect(hosts, secret=secret, timeout_s=timeout_s, makes_map=makes_map)
        opened.append(session)
        return session

    yield open_session
    for session in opened:
        session.close()


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect()


@pytest.fixture
def epoch(session: Session) -> ControllerEpoch:
    epoch = elect(session, 1)
    assert epoch is not None
    return epoch


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    with Proxy((zookeeper.host, zookeeper.port)) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: Proxy, chroot: str, connect: Connect) -> Session:
    """A session with the test's map whose connection goes through the proxy."""
    return connect(f"{proxy.address}/{chroot.partition('/')[2]}")


def expire(session: Session) -> None:
    """End the session on the server's side, as if it had not been heard of for too long.

    Returns when it has noticed and has the next one.
    """
    reconnected = threading.Event()
    before = session.session_id
    states: list[SessionState] = []

    def note(state: SessionState) -> None:
        states.append(state)
        if SessionState.LOST in states and state is SessionState.CONNECTED:
            reconnected.set()

    session.add_listener(note)
    for _ in range(10):
        other = KazooClient(
            ",".join(session.address.hosts), client_id=session.client.client_id, timeout=4.0
        )
        other.start(timeout=60)
        other.stop()
        other.close()
        if reconnected.wait(5):
            break  # else it has taken its session back before it could be ended
    assert reconnected.is_set(), states
    assert session.session_id != before


def a_broker(broker_id: int = 1, **changes: object) -> BrokerInfo:
    values: dict[str, object] = {
        "broker_id": broker_id,
        "host": "127.0.0.1",
        "port": 9092,
        "directory_id": uuid.UUID(int=broker_id),
        "location": f"host:/data/{broker_id}",
        "started_ms": 1_700_000_000_000,
    }
    return BrokerInfo(**values | changes)  # type: ignore[arg-type]


def a_partition(*replicas: int, **changes: object) -> PartitionInfo:
    replicas = replicas or (1,)
    values: dict[str, object] = {
        "replicas": replicas,
        "leader": replicas[0],
        "leader_epoch": 0,
        "isr": replicas,
        "controller_epoch": 1,
        "version": 0,  # of a node that is new
    }
    return PartitionInfo(**values | changes)  # type: ignore[arg-type]


def a_topic(name: str = "views", partitions: int = 1) -> TopicInfo:
    return TopicInfo(name=name, topic_id=uuid.uuid4(), partitions=(a_partition(1),) * partitions)
