"""The controller: one at a time, counted, and fenced when it is no more."""

import threading
from collections.abc import Iterator

import pytest

from cluster.controller.controller import ControllerCandidate, current_epoch, elect, write_fenced
from cluster.controller.topics import create_topic, list_topics
from cluster.errors import Conflict, Fenced
from cluster.layout import paths
from cluster.session.operations import Create, Delete
from cluster.session.session import Session
from cluster.values import ControllerEpoch
from harness.processes.waiting import wait_until
from tests.cluster.conftest import Connect, a_topic, expire
from tests.cluster.proxy import Proxy


def won(epoch: ControllerEpoch | None) -> ControllerEpoch:
    assert epoch is not None
    return epoch


class Career:
    """What a candidate was told, in order."""

    def __init__(self, session: Session, broker_id: int) -> None:
        self.told: list[int | None] = []
        self.candidate = ControllerCandidate(
            session,
            broker_id,
            lambda epoch: self.told.append(epoch.epoch),
            lambda: self.told.append(None),
        )


@pytest.fixture
def careers(connect: Connect) -> Iterator[list[Career]]:
    careers = [Career(connect(), broker_id) for broker_id in (1, 2, 3)]
    yield careers
    for career in careers:
        career.candidate.close()


def test_the_first_is_elected_and_the_others_are_not(session: Session, connect: Connect) -> None:
    assert current_epoch(session).epoch == 0
    epoch = won(elect(session, 1))
    assert epoch.epoch == 1
    assert elect(session, 1) == epoch
    assert elect(connect(), 2) is None
    assert current_epoch(session) == epoch


def test_epochs_count_up(connect: Connect) -> None:
    for number in range(1, 5):
        session = connect()
        assert won(elect(session, number)).epoch == number
        session.close()


def test_the_role_of_the_same_broker_s_dead_process_is_taken_over(
    session: Session, connect: Connect
) -> None:
    ghost = connect()
    old = won(elect(ghost, 1))
    new = won(elect(session, 1))
    assert new.epoch == old.epoch + 1
    with pytest.raises(Fenced):
        write_fenced(ghost, old, [Create("/late")])


def test_of_many_at_once_one_is_elected(connect: Connect) -> None:
    sessions = [connect() for _ in range(6)]
    epochs: list[ControllerEpoch | None] = []
    threads = [
        threading.Thread(
            target=lambda number=number: epochs.append(elect(sessions[number], number))
        )
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([epoch for epoch in epochs if epoch is not None]) == 1


def test_a_lost_answer_to_an_election_elects_once(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    current_epoch(proxied)
    proxied.read(paths.CONTROLLER)
    proxy.swallow_the_next_answer()
    epoch = won(elect(proxied, 1))
    assert epoch == current_epoch(session)
    assert epoch.epoch == 1


def test_a_controller_that_missed_its_end_can_write_nothing(
    session: Session, connect: Connect
) -> None:
    old = won(elect(session, 1))
    session.write([Delete(paths.CONTROLLER)])  # its session lives, so it knows nothing of it
    new = won(elect(connect(), 2))
    with pytest.raises(Fenced, match="epoch 1 is over"):
        create_topic(session, old, a_topic("late"), {})
    with pytest.raises(Fenced):
        write_fenced(session, old, [Create("/late")])
    assert list_topics(session) == ()
    assert not session.exists("/late")
    write_fenced(session, new, [Create("/right")])


def test_a_conflict_of_the_write_itself_is_not_a_fence(session: Session) -> None:
    epoch = won(elect(session, 1))
    with pytest.raises(Conflict) as error:
        write_fenced(session, epoch, [Create("/brokers")])
    assert not isinstance(error.value, Fenced)


def test_candidates_succeed_each_other(careers: list[Career], session: Session) -> None:
    first, second, third = careers
    first.candidate.start()
    wait_until(lambda: first.told == [1])
    second.candidate.start()
    third.candidate.start()
    expire(first.candidate._session)
    wait_until(lambda: len(first.told) >= 2 and current_epoch(session).epoch == 2)
    wait_until(lambda: sum(career.candidate.epoch is not None for career in careers) == 1)
    assert first.told[:2] == [1, None]
    wait_until(lambda: [2] in [career.told[-1:] for career in careers])


def test_a_candidate_whose_node_is_removed_runs_again(
    careers: list[Career], session: Session
) -> None:
    first = careers[0]
    first.candidate.start()
    wait_until(lambda: first.told == [1])
    for number in (2, 3, 4):
        session.write([Delete(paths.CONTROLLER)])
        wait_until(lambda number=number: first.told[-1] == number)
    assert first.told == [1, None, 2, None, 3, None, 4]


def test_an_interruption_deposes_nobody(proxied: Session, proxy: Proxy) -> None:
    career = Career(proxied, 1)
    career.candidate.start()
    try:
        wait_until(lambda: career.told == [1])
        for _ in range(3):
            proxy.cut()
            wait_until(lambda: proxied.exists(paths.CONTROLLER))
        assert career.told == [1]
        assert career.candidate.epoch == current_epoch(proxied)
    finally:
        career.candidate.close()
