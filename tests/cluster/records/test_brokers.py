"""Registration: one live broker an id, ghosts told from rivals, kept through lost sessions."""

import threading
import time

import pytest

from cluster.errors import BrokerIdTaken, MapMissing
from cluster.layout import paths
from cluster.records.brokers import Registration, register, registered
from cluster.session.operations import Delete
from cluster.session.session import Session
from harness.processes.waiting import wait_until
from tests.cluster.conftest import Connect, a_broker, expire
from tests.cluster.proxy import Proxy


def nobody_takes(taken: BrokerIdTaken) -> None:
    raise AssertionError(taken)


def test_a_broker_is_registered_for_as_long_as_its_session(
    session: Session, connect: Connect
) -> None:
    own = connect()
    register(own, a_broker(1, rack="r1"))
    assert registered(session, 1) == a_broker(1, rack="r1")
    assert registered(session, 2) is None
    own.close()
    assert registered(session, 1) is None


def test_registering_again_in_the_same_session_is_nothing(session: Session) -> None:
    register(session, a_broker(1))
    register(session, a_broker(1))
    assert registered(session, 1) == a_broker(1)


def test_a_second_broker_with_the_id_is_refused_at_once_and_told_who_has_it(
    session: Session, connect: Connect
) -> None:
    register(session, a_broker(1, host="dc1-a", port=9092))
    rival = a_broker(1, directory_id=a_broker(2).directory_id, location="other:/data")
    began = time.monotonic()
    with pytest.raises(BrokerIdTaken) as error:
        register(connect(), rival)
    assert time.monotonic() - began < 10
    assert error.value.existing == a_broker(1, host="dc1-a", port=9092)
    for said in ("broker id 1", "dc1-a:9092", "2023-11-14T22:13:20+00:00", "host:/data/1"):
        assert said in str(error.value)
    assert registered(session, 1) == a_broker(1, host="dc1-a", port=9092)


def test_what_a_killed_process_left_is_replaced_at_once(session: Session, connect: Connect) -> None:
    register(connect(timeout_s=30.0), a_broker(1, port=9092))  # its session lives on, as a ghost's
    began = time.monotonic()
    register(session, a_broker(1, port=19092))
    assert time.monotonic() - began < 10
    assert registered(session, 1) == a_broker(1, port=19092)


def test_the_own_directory_at_another_place_is_waited_for(
    session: Session, connect: Connect
) -> None:
    """A container that was killed and started anew, under another host name."""
    ghost = connect()
    register(ghost, a_broker(1, location="container-1:/data"))
    threading.Timer(1.0, ghost.close).start()
    began = time.monotonic()
    register(session, a_broker(1, location="container-2:/data"))
    assert 0.9 < time.monotonic() - began < 25
    assert registered(session, 1) == a_broker(1, location="container-2:/data")


def test_a_copied_directory_is_refused_in_the_end(session: Session, connect: Connect) -> None:
    register(session, a_broker(1, location="a:/data"))
    copy = connect(timeout_s=1.0)
    with pytest.raises(BrokerIdTaken, match="a:/data"):
        register(copy, a_broker(1, location="b:/data"))
    assert registered(session, 1) == a_broker(1, location="a:/data")


def test_of_many_that_start_at_once_one_wins(connect: Connect, session: Session) -> None:
    sessions = [connect() for _ in range(6)]
    refused: list[BrokerIdTaken] = []

    def start(number: int) -> None:
        info = a_broker(1, directory_id=a_broker(number).directory_id, port=number)
        try:
            register(sessions[number], info)
        except BrokerIdTaken as taken:
            refused.append(taken)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    winner = registered(session, 1)
    assert all(taken.existing == winner for taken in refused)


def test_a_lost_answer_to_a_registration_does_no_harm(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    proxied.read(paths.broker(1))
    proxy.swallow_the_next_answer()
    register(proxied, a_broker(1))
    proxy.wait_until_swallowed()
    assert registered(session, 1) == a_broker(1)


def test_a_broker_registers_anew_in_the_next_session(session: Session, connect: Connect) -> None:
    own = connect()
    registration = Registration(own, a_broker(1), nobody_takes)
    registration.start()
    try:
        for _ in range(3):
            expire(own)
            wait_until(lambda: registered(session, 1) == a_broker(1))
    finally:
        registration.close()


def test_a_broker_registers_anew_after_a_silence_longer_than_its_session(
    session: Session, proxy: Proxy, chroot: str, connect: Connect
) -> None:
    own = connect(f"{proxy.address}/{chroot.partition('/')[2]}", timeout_s=1.0)
    registration = Registration(own, a_broker(1), nobody_takes)
    registration.start()
    try:
        before = own.session_id
        proxy.refuse()
        wait_until(lambda: registered(session, 1) is None)
        proxy.allow()
        wait_until(lambda: registered(session, 1) == a_broker(1))
        assert own.session_id not in {None, before}
    finally:
        registration.close()


def test_a_removed_node_is_put_back(session: Session, connect: Connect) -> None:
    registration = Registration(connect(), a_broker(1), nobody_takes)
    registration.start()
    try:
        for _ in range(3):
            wait_until(lambda: registered(session, 1) is not None)
            session.write([Delete(paths.broker(1))])
        wait_until(lambda: registered(session, 1) is not None)
    finally:
        registration.close()


def test_a_broker_whose_id_was_taken_meanwhile_is_told(session: Session, connect: Connect) -> None:
    told: list[BrokerIdTaken] = []
    own = connect()
    registration = Registration(own, a_broker(1), told.append)
    registration.start()
    try:
        rival = a_broker(1, directory_id=a_broker(2).directory_id, location="other:/data")
        while registered(session, 1) != rival:
            session.write([Delete(paths.broker(1))])
            try:
                register(session, rival)
            except BrokerIdTaken:
                continue
        wait_until(lambda: told)
        assert told[0].existing == rival
        expire(own)
        time.sleep(0.3)
        assert len(told) == 1
    finally:
        registration.close()


def test_the_start_of_a_registration_is_refused_on_the_caller_s_thread(
    session: Session, connect: Connect
) -> None:
    register(session, a_broker(1))
    rival = a_broker(1, directory_id=a_broker(2).directory_id)
    with pytest.raises(BrokerIdTaken):
        Registration(connect(), rival, nobody_takes).start()


def test_without_its_directories_the_map_is_missing(session: Session) -> None:
    session.write([Delete(paths.BROKER_IDS)])
    with pytest.raises(MapMissing, match="recover"):
        register(session, a_broker(1))
