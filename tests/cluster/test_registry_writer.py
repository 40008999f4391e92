"""Who writes a schemas topic: one registry at a time, each in an epoch of its own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from cluster.errors import InvalidTopicName, MapDisagrees
from cluster.layout import nodes
from cluster.layout.nodes import WriterNode
from cluster.registry_writer import LAST_PRODUCER_EPOCH, WriterCandidate, WriterOffice, after
from cluster.session.session import Session
from cluster.values import WriterEpoch
from harness.processes.waiting import wait_until
from tests.cluster.conftest import Connect

TOPIC = "_schemas"


@pytest.fixture
def office() -> Callable[..., WriterOffice]:
    ids = itertools.count(7000)

    def make(address: str, cluster_id: str = "kafka-1") -> WriterOffice:
        return WriterOffice(TOPIC, address, cluster_id, lambda: next(ids))

    return make


Office = Callable[..., WriterOffice]


def won(epoch: WriterEpoch | None) -> WriterEpoch:
    assert epoch is not None
    return epoch


class Career:
    """What a candidate was told, in order: its epochs, None when deposed, and who is writer."""

    def __init__(self, session: Session, office: WriterOffice) -> None:
        self.session = session
        self.told: list[int | None] = []
        self.holders: list[str | None] = []
        self.candidate = WriterCandidate(
            session,
            office,
            on_elected=lambda epoch: self.told.append(epoch.epoch),
            on_deposed=lambda: self.told.append(None),
            on_holder=lambda node: self.holders.append(None if node is None else node.address),
        )


@pytest.fixture
def careers(connect: Connect, office: Office) -> Iterator[list[Career]]:
    careers = [Career(connect(), office(f"host-{number}:8081")) for number in (1, 2, 3)]
    yield careers
    for career in careers:
        career.candidate.close()


def test_writers_share_a_producer_and_count_its_epochs(connect: Connect, office: Office) -> None:
    epochs = []
    for number in range(4):
        session = connect()
        epochs.append(won(office(f"host-{number}:8081").elect(session)))
        assert office("other:8081").elect(session) == epochs[-1]  # this session has it
        assert office("other:8081").elect(connect()) is None
        session.close()
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3, 4]
    assert {epoch.producer_id for epoch in epochs} == {7000}
    assert [epoch.producer_epoch for epoch in epochs] == [1, 2, 3, 4]
    assert {epoch.retired_id for epoch in epochs} == {None}


def test_the_node_of_the_same_registry_s_dead_process_is_taken_over(
    connect: Connect, office: Office
) -> None:
    ghost = connect()
    old = won(office("host-1:8081").elect(ghost))
    restarted, session = office("host-1:8081"), connect()
    new = won(restarted.elect(session))
    assert (new.epoch, new.producer_epoch) == (old.epoch + 1, old.producer_epoch + 1)
    holder = restarted.holder(session)
    assert holder is not None
    assert restarted.is_own(holder)


def test_one_that_runs_takes_nothing_from_another_of_the_same_address(
    connect: Connect, office: Office
) -> None:
    """Both would take it from each other for ever."""
    first, session = office("localhost:8081"), connect()
    assert first.elect(session) is not None
    second = office("localhost:8081")
    assert second.elect(connect()) is not None
    assert first.elect(session) is None


def test_each_kafka_cluster_has_registries_of_its_own(session: Session, office: Office) -> None:
    office("host-1:8081", "kafka-1").elect(session)
    with pytest.raises(MapDisagrees, match="cluster kafka-1, this one's is kafka-2"):
        office("host-2:8081", "kafka-2").elect(session)


def test_a_topic_s_name_does_not_become_a_path_unchecked(office: Office) -> None:
    with pytest.raises(InvalidTopicName):
        WriterOffice("../brokers", "host-1:8081", "kafka-1", lambda: 1)


def test_the_last_producer_epoch_is_nobody_s() -> None:
    epoch = WriterEpoch(70_000, 7, LAST_PRODUCER_EPOCH - 2, None, 5)
    epoch = after(epoch, lambda: 8)
    assert epoch == WriterEpoch(70_001, 7, LAST_PRODUCER_EPOCH - 1, None, 6)
    epoch = after(epoch, lambda: 8)
    assert epoch == WriterEpoch(70_002, 8, 0, 7, 7)
    epoch = after(epoch, lambda: 9)
    assert epoch == WriterEpoch(70_003, 8, 1, 7, 8)  # the old one is kept out for good


def test_one_that_stands_back_leaves_it_to_another_until_it_stands_again(
    careers: list[Career],
) -> None:
    first, second, _ = careers
    first.candidate.start()
    wait_until(lambda: first.told == [1])
    second.candidate.start()
    wait_until(lambda: second.holders == ["host-1:8081"])
    first.candidate.stand_back()
    wait_until(lambda: first.told == [1, None] and second.told == [2])
    first.candidate.stand()
    wait_until(lambda: first.holders[-1:] == ["host-2:8081"])
    second.candidate.stand_back()
    wait_until(lambda: first.told == [1, None, 3])


def test_one_that_is_alone_resigns_and_is_elected_anew(careers: list[Career]) -> None:
    """That is how a writer takes an epoch that its own late writes do not have."""
    first = careers[0]
    first.candidate.start()
    for epoch in (1, 2, 3):
        wait_until(lambda epoch=epoch: first.told[-1:] == [epoch])
        first.candidate.stand_back()
        wait_until(lambda: first.told[-1:] == [None])
        assert first.holders[-1] is None
        first.candidate.stand()


def test_resigning_takes_nothing_from_a_successor(connect: Connect, office: Office) -> None:
    one, other = office("host-1:8081"), office("host-2:8081")
    session = connect()
    one.elect(session)
    one.resign(session)
    successor = connect()
    assert other.elect(successor) is not None
    one.resign(session)
    holder = other.holder(session)
    assert holder == WriterNode(
        address="host-2:8081", instance=nodes.decode(other.path, other.claim, WriterNode).instance
    )
