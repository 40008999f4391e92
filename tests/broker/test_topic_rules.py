"""What a topic may be asked to become: Kafka's codes for what it may not."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

import pytest

from broker.errors import ApiError, ErrorCode
from broker.topic_config import TopicDefaults
from broker.topic_rules import (
    MOST_PARTITIONS,
    NewTopic,
    check_new_name,
    check_room,
    extension,
    placement,
)
from cluster.values import BrokerInfo, ClusterSnapshot, PartitionInfo, TopicInfo

DEFAULTS = TopicDefaults(partitions=3, replication_factor=2)


def broker(broker_id: int) -> BrokerInfo:
    return BrokerInfo(
        broker_id=broker_id,
        host="127.0.0.1",
        port=9092,
        directory_id=UUID(int=broker_id),
        location="here",
        started_ms=0,
        rack=f"rack-{broker_id}",
    )


def topic(name: str, *replicas: Sequence[int]) -> TopicInfo:
    return TopicInfo(
        name=name,
        topic_id=UUID(int=1),
        partitions=tuple(
            PartitionInfo(
                replicas=tuple(each),
                leader=each[0],
                leader_epoch=0,
                isr=(each[0],),
                controller_epoch=1,
            )
            for each in replicas
        ),
    )


def cluster(
    *brokers: int, topics: Sequence[TopicInfo] = (), deleting: Sequence[str] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        brokers=MappingProxyType({each: broker(each) for each in brokers}),
        topics=MappingProxyType({each.name: each for each in topics}),
        deleting=frozenset(deleting),
    )


THREE = cluster(1, 2, 3)


def place(new: NewTopic, snapshot: ClusterSnapshot = THREE) -> tuple[tuple[int, ...], ...]:
    return placement(new, DEFAULTS, snapshot, 0.5)


def test_what_is_not_said_is_as_the_defaults_are() -> None:
    assert [len(replicas) for replicas in place(NewTopic("t"))] == [2, 2, 2]
    assert [len(replicas) for replicas in place(NewTopic("t", 1, 3))] == [3]


def test_chance_picks_the_broker_that_comes_first() -> None:
    firsts = {
        placement(NewTopic("t", 1, 1), DEFAULTS, THREE, chance)[0][0]
        for chance in (0.0, 0.4, 0.99999)
    }
    assert firsts == {1, 2, 3}


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.invalid_partitions),
        (-2, 1, ErrorCode.invalid_partitions),
        (2**31 - 1, 1, ErrorCode.invalid_partitions),
        (MOST_PARTITIONS + 1, 1, ErrorCode.invalid_partitions),
        (1, 0, ErrorCode.invalid_replication_factor),
        (1, -2, ErrorCode.invalid_replication_factor),
        (1, 4, ErrorCode.invalid_replication_factor),
    ],
)
def test_impossible_numbers(partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as error:
        place(NewTopic("t", partitions, factor))
    assert error.value.code is code


def test_no_broker_at_all() -> None:
    with pytest.raises(ApiError, match="larger than available brokers: 0") as error:
        place(NewTopic("t", 1, 1), cluster())
    assert error.value.code is ErrorCode.invalid_replication_factor


def test_a_given_assignment_is_taken_as_it_is() -> None:
    assert place(NewTopic("t", assignment={1: (3, 1), 0: (2, 3)})) == ((2, 3), (3, 1))


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ({1: (1,)}, "consecutive"),
        ({0: (1,), 2: (1,)}, "consecutive"),
        ({-1: (1,), 0: (1,)}, "consecutive"),
        ({0: (1, 2), 1: (1,)}, "same number of replicas"),
        ({0: ()}, "at least one"),
        ({0: (1, 1)}, "Duplicate brokers"),
        ({0: (1, 9)}, "Unknown broker(s) in replica assignment: 9"),
    ],
)
def test_impossible_assignments(assignment: Mapping[int, Sequence[int]], says: str) -> None:
    with pytest.raises(ApiError) as error:
        place(NewTopic("t", assignment=assignment))
    assert error.value.code is ErrorCode.invalid_replica_assignment
    assert says in error.value.message


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.invalid_topic_exception),
        ("..", ErrorCode.invalid_topic_exception),
        ("../x", ErrorCode.invalid_topic_exception),
        ("a b", ErrorCode.invalid_topic_exception),
        ("a" * 250, ErrorCode.invalid_topic_exception),
        ("a_b", ErrorCode.invalid_topic_exception),  # collides with a.b
        ("a.b", ErrorCode.topic_already_exists),
        ("going", ErrorCode.topic_already_exists),
    ],
)
def test_names_that_cannot_be_given(name: str, code: ErrorCode) -> None:
    snapshot = cluster(1, topics=[topic("a.b", (1,))], deleting=["going"])
    with pytest.raises(ApiError) as error:
        check_new_name(name, snapshot)
    assert error.value.code is code
    check_new_name("a-b", snapshot)


def test_an_extension_goes_on_where_the_topic_stopped() -> None:
    whole = placement(NewTopic("t", 7, 2), DEFAULTS, THREE, 0.5)
    part = topic("t", *whole[:3])
    assert extension(part, 7, None, THREE) == whole[3:]


def test_an_extension_can_be_given() -> None:
    assert extension(topic("t", (1, 2)), 3, [(2, 3), (3, 1)], THREE) == ((2, 3), (3, 1))


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.invalid_partitions),
        (1, None, ErrorCode.invalid_partitions),
        (-1, None, ErrorCode.invalid_partitions),
        (2**31 - 1, None, ErrorCode.invalid_partitions),
        (3, [], ErrorCode.invalid_replica_assignment),
        (3, [(1, 2), (2, 3)], ErrorCode.invalid_replica_assignment),
        (3, [(1,)], ErrorCode.invalid_replica_assignment),
        (3, [(1, 1)], ErrorCode.invalid_replica_assignment),
        (3, [(1, 9)], ErrorCode.invalid_replica_assignment),
    ],
)
def test_impossible_extensions(
    count: int, assignments: Sequence[Sequence[int]] | None, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as error:
        extension(topic("t", (1, 2), (2, 3)), count, assignments, THREE)
    assert error.value.code is code


def test_an_extension_needs_as_many_brokers_as_replicas() -> None:
    with pytest.raises(ApiError) as error:
        extension(topic("t", (1, 2)), 2, None, cluster(1))
    assert error.value.code is ErrorCode.invalid_replication_factor


def test_a_broker_holds_so_many_partitions_and_no_more() -> None:
    snapshot = cluster(1, 2, topics=[topic("old", (1, 2), (1, 2))])
    being_made = [((1,), (2,))]
    check_room(((1,), (2,)), snapshot, being_made, 4)
    with pytest.raises(ApiError, match=r"broker 2 has 3 partitions, and 4 are allowed") as error:
        check_room(((1,), (2,), (2,)), snapshot, being_made, 4)
    assert error.value.code is ErrorCode.invalid_partitions
    assert "`limits.partitions`" in error.value.message
