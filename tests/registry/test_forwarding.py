"""Writes that another registry decides: passed on once, and answered when they can be read here."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator

import pytest

from client.connection.brokers import Brokers
from client.producing.producer import Producer
from cluster.registry_writer import WriterOffice
from cluster.session.operations import Create, Delete
from cluster.session.session import Session
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from registry.config import Timeouts
from registry.errors import ErrorAnswer
from registry.log.forwarding import (
    FORWARDED,
    OFFSET,
    ForwardedRequest,
    Forwarder,
    NotPassed,
    Passed,
)
from tests.registry.numbers import DELETE, PUT, RunningRegistry, numbered
from tests.registry.peer import BREAK, NOT_WRITER, Answer, Asked, Peer, read_up_to, slowly

POST = ForwardedRequest(
    "POST", "/subjects/%C3%BC/versions?normalize=true", (("accept", "*/*"),), b"body"
)


def ask(address: str, *requests: ForwardedRequest, connections: int = 4) -> list[Passed]:
    """One after the other."""

    async def run() -> list[Passed]:
        forwarder = Forwarder(connections)
        try:
            return [await forwarder.pass_on(address, request) for request in requests]
        finally:
            forwarder.close()

    return asyncio.run(run())


def test_a_request_arrives_as_it_came() -> None:
    with Peer(lambda _: Answer(418, b'{"a":"\xc3\xbc"}', {OFFSET: "77"})) as peer:
        (passed,) = ask(peer.address, POST)
    assert passed == Passed(418, "application/json", b'{"a":"\xc3\xbc"}', 77)
    (asked,) = peer.asked
    assert asked[:2] == (POST.method, POST.target)
    assert asked.body == b"body"
    assert asked.headers == {
        "host": peer.address,
        "content-length": "4",
        "accept": "*/*",
        FORWARDED: "1",
    }


def test_connections_are_kept_but_not_for_what_must_not_be_repeated() -> None:
    with Peer(lambda _: Answer()) as peer:
        ask(peer.address, POST, PUT, DELETE, POST, DELETE, PUT)
    assert [asked.connection for asked in peer.asked] == [1, 1, 2, 2, 3, 3]


def test_a_connection_that_the_other_side_closes_is_not_used_again() -> None:
    with Peer(lambda _: Answer(headers={"Connection": "close"})) as peer:
        ask(peer.address, POST, POST)
    assert [asked.connection for asked in peer.asked] == [1, 2]


def test_what_was_passed_on_leaves_no_rings() -> None:
    """A registry looks for them once in thousands of requests; until then they would stay."""

    async def run(address: str) -> int:
        forwarder = Forwarder(1)
        await forwarder.pass_on(address, POST)
        while gc.collect():  # what earlier tests left; on Python 3.14 that takes several
            pass
        gc.disable()
        try:
            for _ in range(20):
                await forwarder.pass_on(address, POST)
            return gc.collect()
        finally:
            gc.enable()
            forwarder.close()

    with Peer(lambda _: Answer()) as peer:
        assert asyncio.run(run(peer.address)) < 20


def test_there_are_not_more_connections_than_allowed() -> None:
    async def run(address: str) -> None:
        forwarder = Forwarder(3)
        await asyncio.gather(*(forwarder.pass_on(address, POST) for _ in range(12)))
        forwarder.close()

    with Peer(slowly) as peer:
        asyncio.run(run(peer.address))
    assert (len(peer.asked), peer.most_at_once, peer.connections) == (12, 3, 3)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda _: BREAK, "the connection was closed"),
        (lambda _: Answer(headers={OFFSET: "many"}), "invalid literal"),
        (lambda _: Answer(headers={"Bad\0Header": "1"}), "Invalid header"),
    ],
)
def test_what_becomes_of_a_request_without_an_answer_is_open(
    script: Callable[[Asked], Answer | None], said: str
) -> None:
    with Peer(script) as peer, pytest.raises(NotPassed, match=said) as error:
        ask(peer.address, POST)
    assert error.value.sent


def test_where_nobody_listens_nothing_was_sent() -> None:
    with pytest.raises(NotPassed) as error:
        ask(f"127.0.0.1:{free_ports(1)[0]}", POST)
    assert not error.value.sent


@pytest.fixture
def elect(chroot: str, brokers: Brokers, new_topic: str) -> Iterator[Callable[[str], None]]:
    """Makes the registry at an address the writer."""
    sessions: list[Session] = []

    def elect(address: str) -> None:
        session = Session.connect(chroot, secret=None, timeout_s=4.0)
        sessions.append(session)
        cluster_id = brokers.refresh([]).cluster_id or ""
        office = WriterOffice(new_topic, address, cluster_id, lambda: 4711)
        office.current(session)
        # In one step, or the registry under test would be elected in between.
        before = [Delete(office.path)] if session.exists(office.path) else []
        session.write([*before, Create(office.path, office.claim, ephemeral=True)])

    yield elect
    for session in sessions:
        session.close()


def follower(
    bootstrap: str, topic: str, chroot: str, *, forward: float = 5, write: float = 10
) -> RunningRegistry:
    patience = Timeouts(start=20, publish=5, forward=forward, write=write)
    return RunningRegistry(bootstrap, topic, zookeeper=chroot, patience=patience)


Elect = Callable[[str], None]


def test_it_is_answered_once_it_can_be_read_here(
    bootstrap: str, brokers: Brokers, chroot: str, new_topic: str, elect: Elect
) -> None:
    with Peer(lambda _: read_up_to(2)) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot) as running:
            pending = running.begin(numbered(b"a"), POST)
            wait_until(lambda: bool(peer.asked), within=20, what="it is passed on")
            producer = Producer(brokers, new_topic, create=False)
            producer.send(b"1", b"a")
            producer.flush()
            wait_until(lambda: len(running.names()) == 1, within=20, what="half of it is read")
            assert not pending.done()
            producer.send(b"2", b"b")
            producer.flush()
            assert pending.result(20) == Passed(200, "application/json", b"{}", 2)
            assert running.names() == {b"a": 1, b"b": 2}


def answered(running: RunningRegistry, request: ForwardedRequest) -> int:
    with pytest.raises(ErrorAnswer) as error:
        running.write(numbered(b"a"), request)
    assert error.value.status == 500
    return error.value.code


def test_what_cannot_be_read_here_in_time_is_not_answered_as_done(
    bootstrap: str, chroot: str, new_topic: str, elect: Elect
) -> None:
    with Peer(lambda _: read_up_to(2)) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot, write=0.5) as running:
            assert answered(running, POST) == 50002


def test_a_lost_answer_is_asked_for_again_only_where_that_is_harmless(
    bootstrap: str, chroot: str, new_topic: str, elect: Elect
) -> None:
    def at_the_second_attempt(asked: Asked) -> Answer | None:
        methods = [each.method for each in peer.asked]
        return Answer() if methods.count(asked.method) > 1 else BREAK

    with Peer(at_the_second_attempt) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot) as running:
            for request in (POST, PUT):
                passed = running.write(numbered(b"a"), request)
                assert isinstance(passed, Passed)
            assert answered(running, DELETE) == 50003
    assert [asked.method for asked in peer.asked] == ["POST", "POST", "PUT", "PUT", "DELETE"]


def test_whoever_is_not_the_writer_is_asked_again_until_it_is(
    bootstrap: str, chroot: str, new_topic: str, elect: Elect
) -> None:
    with Peer(lambda _: NOT_WRITER if len(peer.asked) < 4 else Answer()) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot) as running:
            assert isinstance(running.write(numbered(b"a"), DELETE), Passed)
    assert len(peer.asked) == 4


def test_patience_ends(bootstrap: str, chroot: str, new_topic: str, elect: Elect) -> None:
    with Peer(lambda _: NOT_WRITER) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot, forward=0.5) as running:
            assert answered(running, POST) == 50004
            elect(f"127.0.0.1:{free_ports(1)[0]}")
            assert answered(running, POST) == 50003


def test_what_is_passed_on_to_it_is_not_passed_on_again(
    bootstrap: str, chroot: str, new_topic: str, elect: Elect
) -> None:
    passed_on = ForwardedRequest("POST", "/", (), b"", forwarded=True)
    with Peer(lambda _: Answer()) as peer:
        elect(peer.address)
        with follower(bootstrap, new_topic, chroot) as running:
            assert answered(running, passed_on) == 50004
    assert peer.asked == []


def test_a_writer_that_hangs_is_left_for_its_successor(
    bootstrap: str, chroot: str, new_topic: str, elect: Elect
) -> None:
    go_on = threading.Event()

    def hang(_: Asked) -> None:
        go_on.wait(60)

    try:
        with Peer(hang) as hanging, Peer(lambda _: Answer()) as successor:
            elect(hanging.address)
            with follower(bootstrap, new_topic, chroot) as running:
                registering = running.begin(numbered(b"a"), POST)
                deleting = running.begin(numbered(b"a"), DELETE)
                wait_until(lambda: len(hanging.asked) == 2, within=20, what="they are passed on")
                elect(successor.address)
                assert isinstance(registering.result(20), Passed)
                with pytest.raises(ErrorAnswer) as error:
                    deleting.result(20)
                assert error.value.code == 50003
            go_on.set()
        assert [asked.method for asked in successor.asked] == ["POST"]
    finally:
        go_on.set()
