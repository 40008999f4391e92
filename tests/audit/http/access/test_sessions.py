"""How long sessions last, and how many there are."""

import pytest

from audit.http.access.sessions import IDLE_S, LONGEST_S, MOST, MOST_OF_ONE, Sessions


def test_a_session_ends_when_it_is_not_used() -> None:
    sessions = Sessions()
    secret = sessions.begin("alice", b"mark", 0)
    assert sessions.of(secret, IDLE_S) is not None
    assert sessions.of(secret, 2 * IDLE_S) is not None
    assert sessions.is_open(secret, 3 * IDLE_S)
    assert not sessions.is_open(secret, 3 * IDLE_S + 1)  # looking at it is no use of it
    assert sessions.of(secret, 3 * IDLE_S + 1) is None
    assert len(sessions) == 0


def test_a_session_ends_however_much_it_is_used() -> None:
    sessions = Sessions()
    secret = sessions.begin("alice", b"mark", 0)
    now = 0.0
    while now + IDLE_S <= LONGEST_S:
        now += IDLE_S
        assert sessions.of(secret, now) is not None
    assert sessions.of(secret, LONGEST_S + 1) is None


def test_nobody_takes_the_room_of_others() -> None:
    sessions = Sessions()
    bob = sessions.begin("bob", b"", 0)
    alice = [sessions.begin("alice", b"", 0) for _ in range(MOST_OF_ONE + 1)]
    assert sessions.of(bob, 0) is not None
    assert sessions.of(alice[0], 0) is None
    assert all(sessions.of(each, 0) for each in alice[1:])


@pytest.mark.not_quick("very many clients")
def test_there_are_only_so_many() -> None:
    sessions = Sessions()
    for each in range(MOST + 10):
        sessions.begin(f"user{each}", b"", 0)
    assert len(sessions) == MOST
    sessions.begin("alice", b"", LONGEST_S + 1)  # what is over makes room
    assert len(sessions) == 1


def test_only_the_secret_opens_one() -> None:
    sessions = Sessions()
    secret = sessions.begin("alice", b"", 0)
    for other in ("", secret[:-1], f"{secret}x", secret.swapcase(), "\udcff"):
        assert sessions.of(other, 0) is None
    sessions.end(secret)
    assert sessions.of(secret, 0) is None
