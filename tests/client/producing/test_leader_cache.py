"""Who leads what, and when to ask."""

from client.connection.addresses import Address
from client.connection.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from client.errors import ErrorCode, NotReachable, Refused
from client.patience import FIRST_PAUSE, NEVER, Pauses
from client.producing.delivery import TopicPartition
from client.producing.leader_cache import LeaderCache

ONE, TWO, BOOT = (Address(name, 9092) for name in ("one", "two", "boot"))
BROKERS = {1: BrokerMetadata(1, ONE), 2: BrokerMetadata(2, TWO)}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def leaders() -> LeaderCache:
    return LeaderCache([BOOT], Pauses(lambda: 1.0), list)


def topic(name: str, *leaders: int, error: ErrorCode = ErrorCode.none) -> TopicMetadata:
    partitions = tuple(
        PartitionMetadata(index, leader, 0, (1, 2), (1, 2)) for index, leader in enumerate(leaders)
    )
    return TopicMetadata(name, None, partitions, error=error)


def metadata(*topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata(brokers=BROKERS, topics={each.name: each for each in topics})


def test_only_what_is_missing_is_asked_for_and_once() -> None:
    known = leaders()
    assert known.ask_at() == NEVER
    assert [known.leader(each) for each in (A1, B0, A0)] == [None] * 3
    assert known.ask_at() <= 0
    assert known.ask() == ["a", "b"]
    assert known.ask_at() == NEVER
    assert known.learn(metadata(topic("a", 1, 2), topic("b", 2)), 5.0) == {}
    assert [known.leader(each) for each in (A0, A1, B0)] == [ONE, TWO, TWO]
    assert known.ask_at() == NEVER


def test_doubt_concerns_one_partition_or_all_of_a_broker() -> None:
    known = leaders()
    for each in (A0, A1, B0):
        known.leader(each)
    known.learn(metadata(topic("a", 1, 2), topic("b", 2)), 0.0)
    known.doubt(A0)
    assert [known.leader(each) for each in (A0, A1, B0)] == [None, TWO, TWO]
    known.doubt_broker(TWO)
    assert [known.leader(each) for each in (A0, A1, B0)] == [None] * 3
    known.learn(metadata(topic("a", 1, 1), topic("b", 1)), 0.0)
    assert [known.leader(each) for each in (A0, A1, B0)] == [ONE] * 3


def test_what_has_no_leader_is_asked_for_after_growing_pauses() -> None:
    known = leaders()
    known.leader(A0)
    known.leader(B0)
    known.ask()
    missing = known.learn(metadata(topic("a", -1), topic("b", 1)), 10.0)
    (error,) = missing.values()
    assert isinstance(error, Refused)
    assert error.code is ErrorCode.leader_not_available
    assert known.leader(B0) == ONE
    assert known.ask_at() == 10 + FIRST_PAUSE
    assert known.ask() == ["a"]
    known.failed(20.0)
    assert known.ask_at() == 20 + 2 * FIRST_PAUSE
    known.give_up(A0)
    assert known.ask_at() == NEVER


def test_why_a_partition_has_no_leader() -> None:
    known = leaders()
    targets = [TopicPartition("a", 5), TopicPartition("gone", 0), B0, TopicPartition("denied", 0)]
    for each in targets:
        known.leader(each)
    denied = topic("denied", error=ErrorCode.topic_authorization_failed)
    missing = known.learn(metadata(topic("a", 1), topic("b", 9), denied), 0.0)
    codes = [e.code if isinstance(e, Refused) else type(e) for e in map(missing.get, targets)]
    assert codes == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        NotReachable,
        ErrorCode.topic_authorization_failed,
    ]
    assert [error.retriable for error in missing.values()] == [True, True, True, False]


def test_all_brokers_are_tried_in_turn() -> None:
    known = leaders()
    assert [known.next_broker() for _ in range(2)] == [BOOT, BOOT]
    known.learn(metadata(), 0.0)
    assert sorted(known.next_broker() for _ in range(3)) == sorted([ONE, TWO, BOOT])
    assert sorted(known.next_broker() for _ in range(3)) == sorted([ONE, TWO, BOOT])
