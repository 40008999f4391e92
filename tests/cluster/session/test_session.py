"""Sessions: connecting, reading, writing, and what a lost connection does to each."""

import socket
import threading
import time

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from cluster.controller.controller import ControllerCandidate
from cluster.errors import BadAddress, Cause, Conflict, NotAllowed, Unanswered, Unavailable
from cluster.layout import paths
from cluster.records.brokers import Registration
from cluster.session.operations import Check, Create, Delete, Set
from cluster.session.session import Session, SessionState
from cluster.view import ClusterView
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.crowding import Patience
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.cluster.conftest import Connect, a_broker, expire
from tests.cluster.proxy import Proxy


def test_the_first_session_lays_out_the_map_and_the_second_finds_it(
    chroot: str, connect: Connect, zookeeper: EmbeddedZooKeeper
) -> None:
    first = connect(f"{chroot}/nested/deeper")
    second = connect(f"{chroot}/nested/deeper")

    for path in paths.SKELETON:
        assert first.exists(path)
        assert second.exists(path)
    raw = KazooClient(zookeeper.address)
    raw.start()
    assert raw.exists(f"/{chroot.partition('/')[2]}/nested/deeper/brokers/ids")
    raw.stop()
    raw.close()


def test_many_sessions_lay_out_the_map_at_once(chroot: str) -> None:
    sessions: list[Session] = []

    def connect() -> None:
        sessions.append(Session.connect(chroot, secret=None, timeout_s=4))

    threads = [threading.Thread(target=connect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sessions) == 8
    for session in sessions:
        session.close()


def test_without_a_chroot_it_is_penstock(zookeeper: EmbeddedZooKeeper, connect: Connect) -> None:
    assert connect(zookeeper.address).client.chroot == "/penstock"


def test_nobody_at_the_address_is_said_with_the_hosts() -> None:
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    began = time.monotonic()
    with pytest.raises(Unavailable) as error:
        Session.connect(",".join(hosts), secret=None, connect_timeout_s=0.5)
    assert all(host in str(error.value) for host in hosts)
    assert time.monotonic() - began < 30


def test_a_bad_address_is_refused_before_anything_is_tried() -> None:
    with pytest.raises(BadAddress):
        Session.connect("http://zk1", secret=None)


def test_nodes_are_created_read_changed_and_deleted(session: Session) -> None:
    session.write([Create("/a", b"1"), Create("/a/b")])
    node = session.read("/a")
    assert node is not None
    assert (node.data, node.version, node.owner) == (b"1", 0, 0)
    assert session.children("/a") == ("b",)

    session.write([Set("/a", b"2", node.version), Delete("/a/b")])
    changed = session.read("/a")
    assert changed is not None
    assert (changed.data, changed.version) == (b"2", 1)
    assert session.children("/a") == ()
    assert session.read("/missing") is None
    assert session.children("/missing") is None
    assert not session.exists("/missing")


@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        (Create("/a"), Cause.EXISTS),
        (Create("/missing/b"), Cause.MISSING),
        (Set("/a", b"", 7), Cause.CHANGED),
        (Set("/missing", b""), Cause.MISSING),
        (Delete("/a", 7), Cause.CHANGED),
        (Delete("/missing"), Cause.MISSING),
        (Delete("/brokers"), Cause.NOT_EMPTY),
        (Check("/a", 7), Cause.CHANGED),
        (Check("/missing"), Cause.MISSING),
    ],
)
def test_a_transaction_that_fails_does_nothing_and_names_what_failed(
    session: Session, operation: Create | Set | Delete | Check, cause: Cause
) -> None:
    session.write([Create("/a")])
    with pytest.raises(Conflict) as error:
        session.write([Create("/first"), operation, Create("/last")])
    assert error.value.cause is cause
    assert error.value.path == operation.path
    assert session.address.chroot + operation.path in str(error.value)
    assert not session.exists("/first")
    assert not session.exists("/last")


def test_an_ephemeral_node_ends_with_its_session(session: Session, connect: Connect) -> None:
    other = connect()
    other.write([Create("/gone", ephemeral=True)])
    node = session.read("/gone")
    assert node is not None
    assert node.owner == other.session_id
    other.close()
    assert not session.exists("/gone")


def test_states_are_told_in_order(proxied: Session, proxy: Proxy) -> None:
    states: list[SessionState] = []
    proxied.add_listener(states.append)
    assert proxied.state is SessionState.CONNECTED

    proxy.cut()
    wait_until(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED])
    expire(proxied)
    assert states[-3:] == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert states.count(SessionState.LOST) == 1


def test_reads_and_writes_outlast_a_short_interruption(proxied: Session, proxy: Proxy) -> None:
    proxy.refuse()
    wait_until(lambda: proxied.state is SessionState.SUSPENDED)
    threading.Timer(0.5, proxy.allow).start()
    proxied.write([Create("/a", b"1")], done=lambda: proxied.exists("/a"))
    proxy.refuse()
    wait_until(lambda: proxied.state is SessionState.SUSPENDED)
    threading.Timer(0.5, proxy.allow).start()
    node = proxied.read("/a")
    assert node is not None
    assert node.data == b"1"


def test_a_write_works_in_the_session_after_a_lost_one(session: Session) -> None:
    expire(session)
    session.write([Create("/a")])
    assert session.exists("/a")


def test_a_long_interruption_is_an_error_that_names_the_hosts(
    proxy: Proxy, chroot: str, connect: Connect
) -> None:
    session = connect(f"{proxy.address}/{chroot.partition('/')[2]}", timeout_s=1.0)
    proxy.refuse()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=proxy.address):
        session.read("/brokers")
    with pytest.raises(Unavailable, match=proxy.address):
        session.write([Create("/a")])
    assert time.monotonic() - began < 30


def test_without_a_way_to_know_a_lost_answer_is_said(proxied: Session, proxy: Proxy) -> None:
    proxy.swallow_the_next_answer()
    with pytest.raises(Unanswered):
        proxied.write([Create("/a")])
    proxy.wait_until_swallowed()
    assert proxied.exists("/a")


def test_a_write_whose_answer_was_lost_is_not_done_twice(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    session.write([Create("/a", b"0")])
    proxy.swallow_the_next_answer()

    def done() -> bool:
        node = proxied.read("/a")
        return node is not None and node.data == b"1"

    proxied.write([Set("/a", b"1")], done)
    proxy.wait_until_swallowed()
    node = session.read("/a")
    assert node is not None
    assert (node.data, node.version) == (b"1", 1)


def test_a_write_that_did_not_happen_is_done_again(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    """`done` is wrong at first, as it is when the write is still on its way."""
    asked: list[bool] = []

    def done() -> bool:
        asked.append(proxied.exists("/a"))
        return len(asked) > 1 and asked[-1]

    proxy.swallow_the_next_answer()
    proxied.write([Create("/a")], done)
    assert asked == [True, True]
    assert session.exists("/a")


def test_sync_sees_what_others_wrote_and_calls_the_watches(
    session: Session, connect: Connect
) -> None:
    other = connect()
    called: list[str] = []
    session.start_exists("/a", lambda event: called.append(event.path)).get(5)
    other.write([Create("/a")])
    session.sync()
    assert called == ["/a"]


def test_a_dead_member_costs_a_part_of_the_session_only(
    zookeeper: EmbeddedZooKeeper, connect: Connect, chroot: str
) -> None:
    """A member that does not answer at all, as a host that lost its power."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as dead:
        host, port = dead.getsockname()
        fillers = []
        for _ in range(4):  # the kernel answers no more once the queue is full
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((host, port))
            fillers.append(filler)
        address = f"{host}:{port},{chroot}"
        for _ in range(3):  # kazoo tries the members in random order
            patience = Patience(3.0)
            connect(address, timeout_s=3.0).close()
            assert not patience.is_over()
        for filler in fillers:
            filler.close()


def test_a_server_that_takes_a_connection_and_says_nothing_does_not_cost_the_session(
    proxy: Proxy, chroot: str, connect: Connect
) -> None:
    """As ZooKeeper does now and then to who greets it while it starts."""
    session = connect(f"{proxy.address}/{chroot.partition('/')[2]}", timeout_s=12.0)
    states: list[SessionState] = []
    session.add_listener(states.append)
    before = session.session_id

    proxy.ignore_connections(2)
    proxy.cut()
    wait_until(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED])
    assert proxy.ignored == 2
    assert session.session_id == before


@pytest.mark.parametrize("credentials", [[], [("digest", "penstock:wrong")]])
def test_with_a_secret_strangers_read_but_do_not_write(
    chroot: str, connect: Connect, credentials: list[tuple[str, str]]
) -> None:
    ours = connect(secret="right")
    ours.write([Create("/brokers/ids/1", b"x"), Create("/mine"), Create("/config/users/u")])
    stranger = KazooClient(chroot, auth_data=credentials)
    stranger.start()

    assert stranger.get("/brokers/ids/1")[0] == b"x"
    for attempt in (
        lambda: stranger.create("/brokers/ids/2"),
        lambda: stranger.create("/more"),
        lambda: stranger.set("/brokers/ids/1", b"y"),
        lambda: stranger.delete("/brokers/ids/1"),
        lambda: stranger.delete("/mine"),
        lambda: stranger.set_acls("/mine", OPEN_ACL_UNSAFE),
        lambda: stranger.get(paths.USER_CONFIGS),
        lambda: stranger.get_children(paths.USER_CONFIGS),
        lambda: stranger.get("/config/users/u"),
    ):
        with pytest.raises(NoAuthError):
            attempt()  # type: ignore[no-untyped-call]
    stranger.stop()
    stranger.close()


@pytest.mark.parametrize("secret", [None, "wrong"])
def test_a_session_without_the_right_secret_is_refused(
    connect: Connect, secret: str | None
) -> None:
    connect(secret="right")
    with pytest.raises(NotAllowed, match="another secret"):
        connect(secret=secret)


def test_without_a_secret_everybody_writes(connect: Connect) -> None:
    connect().write([Create("/a")])
    connect(secret="some").write([Set("/a", b"1")])


def test_a_closed_session_says_so_at_once(chroot: str) -> None:
    session = Session.connect(chroot, secret=None)
    session.close()
    began = time.monotonic()
    with pytest.raises(Unavailable):
        session.read("/")
    with pytest.raises(Unavailable):
        session.write([Create("/a")])
    assert time.monotonic() - began < 5


def test_everything_closes_soon_while_zookeeper_is_away(
    proxy: Proxy, chroot: str, connect: Connect
) -> None:
    session = connect(f"{proxy.address}/{chroot.partition('/')[2]}", timeout_s=18.0)
    view = ClusterView(session)
    view.start(lambda _: None)
    registration = Registration(session, a_broker(1), lambda _: None)
    registration.start()
    candidate = ControllerCandidate(session, 1, lambda _: None, lambda: None)
    candidate.start()
    wait_until(lambda: candidate.epoch is not None)
    proxy.refuse()
    time.sleep(1)
    began = time.monotonic()
    for part in (candidate, registration, view, session):
        part.close()
    assert time.monotonic() - began < 15
