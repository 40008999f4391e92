"""Users in ZooKeeper: as Kafka keeps them, followed by every broker, and shown to nobody."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import InvalidUserName, MapMissing, NodeUnreadable, NotAllowed
from cluster.layout import paths
from cluster.layout.names import check_user_name, user_node_name, user_of_node
from cluster.records import users
from cluster.records.users import Credentials, UsersView
from cluster.session.operations import Create, Set
from cluster.session.session import Session
from ground.logins.scram import FEWEST_ITERATIONS, ScramCredential, ScramMechanism
from tests.cluster.conftest import Connect, expire
from tests.cluster.proxy import Proxy

OF_KAFKA = (
    '{"version":1,"config":{"SCRAM-SHA-256":"salt=W22ZaJ0SNY7soEsUEjb6gQ==,'
    "stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    'server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096",'
    '"producer_byte_rate":"1024"}}'
)


def kept(password: str) -> Credentials:
    return {
        mechanism: ScramCredential.of_password(mechanism, password, b"salt", FEWEST_ITERATIONS)
        for mechanism in ScramMechanism
    }


def put(session: Session, name: str, password: str) -> None:
    users.alter(session, name, lambda _before: kept(password))


@contextmanager
def followed(session: Session) -> Iterator[UsersView]:
    view = UsersView(session)
    view.start()
    try:
        yield view
    finally:
        view.close()


def until(holds: Callable[[], bool], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Names


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("alice", "alice"),
        ("web-1_a.b", "web-1_a.b"),
        ("CN=alice, O=Shop/Web", "CN%3Dalice%2C%20O%3DShop%2FWeb"),
        ("a*b~c+d", "a%2Ab%7Ec%2Bd"),
        ("<default>", "%3Cdefault%3E"),
        ("ä", "%C3%A4"),
        ("../topics", "..%2Ftopics"),
    ],
)
def test_a_name_as_kafkas_sanitizer_writes_it(name: str, node: str) -> None:
    assert user_node_name(name) == node
    assert user_of_node(node) == name


@given(st.text(max_size=150))
def test_a_name_is_one_node_or_none(name: str) -> None:
    try:
        check_user_name(name)
    except InvalidUserName:
        return
    node = user_node_name(name)
    assert node.isascii()
    assert "/" not in node
    assert node not in {"", ".", ".."}
    assert user_of_node(node) == name


@given(st.text(max_size=50))
def test_a_node_that_is_no_users(node: str) -> None:
    name = user_of_node(node)
    assert name is None or user_node_name(name) == node


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "a\0b", "x" * 129, "a\x7f"])
def test_nobody_is_called_that(name: str) -> None:
    with pytest.raises(InvalidUserName):
        paths.user_config(name)


# Keeping them


def test_the_life_of_a_user(session: Session) -> None:
    assert users.all_users(session) == {}
    put(session, "alice", "a")
    put(session, "bob, or so", "b")
    assert users.credentials_of(session, "alice") == kept("a")
    assert set(users.all_users(session)) == {"alice", "bob, or so"}
    put(session, "alice", "c")
    assert users.credentials_of(session, "alice") == kept("c")
    users.alter(session, "alice", lambda _before: {})
    assert users.all_users(session).keys() == {"bob, or so"}
    assert not session.exists(paths.user_config("alice"))
    users.alter(session, "alice", lambda before: before)
    assert not session.exists(paths.user_config("alice"))


def test_what_kafka_wrote_is_understood_and_left_as_it_is(session: Session) -> None:
    path = paths.user_config("old")
    session.write([Create(path, OF_KAFKA.encode())])
    (found,) = users.credentials_of(session, "old").values()
    assert found.matches("pencil")
    added = kept("new")[ScramMechanism.SHA_512]
    users.alter(session, "old", lambda before: {**before, ScramMechanism.SHA_512: added})
    node = session.read(path)
    assert node is not None
    config = json.loads(node.data)
    assert config["version"] == 1
    assert config["config"] == json.loads(OF_KAFKA)["config"] | {"SCRAM-SHA-512": added.text()}
    users.alter(session, "old", lambda _before: {})
    node = session.read(path)  # what else is configured of the user is no password's business
    assert node is not None
    assert json.loads(node.data)["config"] == {"producer_byte_rate": "1024"}
    assert users.all_users(session) == {}


def test_a_user_with_nodes_below(session: Session) -> None:
    put(session, "alice", "a")
    session.write([Create(paths.user_config("alice") + "/clients")])
    users.alter(session, "alice", lambda _before: {})
    assert users.all_users(session) == {}
    put(session, "alice", "b")
    assert users.credentials_of(session, "alice") == kept("b")


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"version":1}',
        b'{"version":1,"config":{"SCRAM-SHA-256":"salt=hush"}}',
        b'{"version":2,"config":{"SCRAM-SHA-256":"salt=hush"}}',
        b"\xff",
    ],
)
def test_what_cannot_be_read_is_not_shown(
    session: Session, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    put(session, "alice", "a")
    session.write([Create(paths.user_config("mallory"), data)])
    with pytest.raises(NodeUnreadable, match="/config/users/mallory") as error:
        users.credentials_of(session, "mallory")
    assert "hush" not in str(error.value)
    with caplog.at_level(logging.WARNING), followed(session) as view:
        assert view.users.keys() == {"alice"}
        put(session, "bob", "b")
        assert view.refresh().keys() == {"alice", "bob"}
        users.alter(session, "bob", lambda _before: {})
    assert caplog.text.count("mallory") == 1  # however often others change
    assert users.all_users(session).keys() == {"alice"}
    assert "mallory" in caplog.text
    assert "hush" not in caplog.text


def test_only_who_has_the_secret_reads_them(connect: Connect) -> None:
    guarded = connect(secret="s3")
    put(guarded, "alice", "a")
    key = users.login_key(guarded)
    assert len(key) == 32
    stranger = connect(makes_map=False)
    for ask in (
        lambda: users.credentials_of(stranger, "alice"),
        lambda: users.all_users(stranger),
        lambda: users.login_key(stranger),
        lambda: put(stranger, "mallory", "m"),
        lambda: users.alter(stranger, "alice", lambda _before: {}),
    ):
        with pytest.raises(NotAllowed):
            ask()
    assert users.all_users(guarded).keys() == {"alice"}


def test_the_key_is_one_for_all(connect: Connect) -> None:
    assert users.login_key(connect()) == users.login_key(connect())


def test_a_map_is_not_made_unasked(connect: Connect) -> None:
    session = connect(makes_map=False)
    assert not session.exists(paths.USER_CONFIGS)
    with pytest.raises(MapMissing, match="no broker has used it yet"):
        put(session, "alice", "a")


# Following them


def test_a_change_is_seen_within_a_second(connect: Connect) -> None:
    writer, reader = connect(), connect()
    put(writer, "alice", "a")
    with followed(reader) as view:
        assert view.users == {"alice": kept("a")}
        for change, wanted in (
            (lambda: put(writer, "bob", "b"), {"alice": kept("a"), "bob": kept("b")}),
            (lambda: put(writer, "alice", "c"), {"alice": kept("c"), "bob": kept("b")}),
            (lambda: users.alter(writer, "bob", lambda _: {}), {"alice": kept("c")}),
            (lambda: put(writer, "bob", "d"), {"alice": kept("c"), "bob": kept("d")}),
        ):
            change()
            until(lambda wanted=wanted: view.users == wanted, 5.0)


def test_after_a_refresh_it_is_there(connect: Connect) -> None:
    writer, reader = connect(), connect()
    with followed(reader) as view:
        for number in range(20):
            put(writer, f"u{number}", "x")
            assert len(view.refresh()) == number + 1


def test_a_snapshot_stays_what_it_was(session: Session) -> None:
    put(session, "alice", "a")
    with followed(session) as view:
        before = view.users
        put(session, "alice", "b")
        put(session, "bob", "b")
        until(lambda: "bob" in view.users)
        assert before == {"alice": kept("a")}


def test_what_was_changed_while_the_connection_was_gone(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    put(session, "alice", "a")
    put(session, "bob", "b")
    with followed(proxied) as view:
        assert view.users.keys() == {"alice", "bob"}
        proxy.refuse()
        put(session, "alice", "c")
        users.alter(session, "bob", lambda _before: {})
        assert view.users.keys() == {"alice", "bob"}  # who was known last
        proxy.allow()
        until(lambda: view.users == {"alice": kept("c")})


def test_what_was_changed_in_another_session(session: Session, connect: Connect) -> None:
    put(session, "alice", "a")
    with followed(session) as view:
        expire(session)
        put(connect(), "bob", "b")
        until(lambda: view.users.keys() == {"alice", "bob"})


def test_a_node_that_becomes_readable_again(session: Session) -> None:
    put(session, "alice", "a")
    path = paths.user_config("alice")
    with followed(session) as view:
        session.write([Set(path, b"{")])
        until(lambda: not view.users)
        session.write([Set(path, OF_KAFKA.encode())])
        until(lambda: "alice" in view.users)
