"""What a topic may be asked to become: Kafka's codes for what it may not; and assignments of
partitions to brokers: legal, even, and over as many racks as there are."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.configs.topic_config import TopicDefaults
from broker.configs.topic_rules import (
    MOST_PARTITIONS,
    NewTopic,
    assign,
    check_new_name,
    check_room,
    extension,
    placement,
)
from broker.errors import ApiError, ErrorCode
from cluster.values import ClusterSnapshot, TopicInfo
from tests.cluster.conftest import a_broker, a_partition

DEFAULTS = TopicDefaults(partitions=3, replication_factor=2)


def topic(name: str, *replicas: Sequence[int]) -> TopicInfo:
    partitions = tuple(a_partition(*each) for each in replicas)
    return TopicInfo(name=name, topic_id=UUID(int=1), partitions=partitions)


def cluster(
    *brokers: int, topics: Sequence[TopicInfo] = (), deleting: Sequence[str] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        brokers=MappingProxyType({each: a_broker(each, rack=f"rack-{each}") for each in brokers}),
        topics=MappingProxyType({each.name: each for each in topics}),
        deleting=frozenset(deleting),
    )


THREE = cluster(1, 2, 3)


@contextmanager
def refused(code: ErrorCode, match: str = "") -> Iterator[pytest.ExceptionInfo[ApiError]]:
    with pytest.raises(ApiError) as error:
        yield error
    assert error.value.code is code
    assert match in error.value.message


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
    with refused(code):
        place(NewTopic("t", partitions, factor))


def test_no_broker_at_all() -> None:
    with refused(ErrorCode.invalid_replication_factor, "larger than available brokers: 0"):
        place(NewTopic("t", 1, 1), cluster())


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
    with refused(ErrorCode.invalid_replica_assignment, says):
        place(NewTopic("t", assignment=assignment))


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
    with refused(code):
        check_new_name(name, snapshot)
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
    with refused(code):
        extension(topic("t", (1, 2), (2, 3)), count, assignments, THREE)


def test_an_extension_needs_as_many_brokers_as_replicas() -> None:
    with refused(ErrorCode.invalid_replication_factor):
        extension(topic("t", (1, 2)), 2, None, cluster(1))


def test_a_broker_holds_so_many_partitions_and_no_more() -> None:
    snapshot = cluster(1, 2, topics=[topic("old", (1, 2), (1, 2))])
    being_made = [((1,), (2,))]
    check_room(((1,), (2,)), snapshot, being_made, 4)
    told = "broker 2 has 3 partitions, at most 4 are allowed"
    with refused(ErrorCode.invalid_partitions, told) as error:
        check_room(((1,), (2,), (2,)), snapshot, being_made, 4)
    assert "`limits.partitions`" in error.value.message


@st.composite
def clusters(draw: st.DrawFn) -> dict[int, str | None]:
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True))
    return {each: draw(st.sampled_from([None, "a", "b", "c"])) for each in ids}


@given(clusters(), st.integers(1, 40), st.integers(0, 100), st.integers(0, 50), st.data())
def test_assignments(
    racks: dict[int, str | None], partitions: int, start: int, first: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    assignment = assign(racks, partitions, factor, start=start, first_partition=first)

    assert len(assignment) == partitions
    names = {broker: rack or broker for broker, rack in racks.items()}
    for replicas in assignment:
        assert len(replicas) == factor
        assert len(set(replicas)) == factor
        assert set(replicas) <= racks.keys()
        used = {names[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(names.values())))
    led = Counter(replicas[0] for replicas in assignment)
    assert max(led.values()) - min(led.get(broker, 0) for broker in racks) <= 1


def test_without_racks_replicas_are_on_different_machines() -> None:
    on = {1: "a", 2: "a", 3: "b", 4: "b"}
    brokers = {each: a_broker(each, location=f"{at}:/data/{each}") for each, at in on.items()}
    snapshot = ClusterSnapshot(brokers=MappingProxyType(brokers))
    placed = place(NewTopic("t", partitions=8, replication_factor=2), snapshot)
    assert all({on[each] for each in replicas} == {"a", "b"} for replicas in placed)


def test_neighbours_differ_in_rack_and_followers_change_with_every_round() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert assign(racks, 8, 2, start=0) == (
        (1, 3), (3, 2), (2, 4), (4, 1),
        (1, 4), (3, 1), (2, 3), (4, 2),
    )  # fmt: skip
    assert assign({1: None, 2: None, 3: None}, 6, 2, start=0) == (
        (1, 2), (2, 3), (3, 1),
        (1, 3), (2, 1), (3, 2),
    )  # fmt: skip


def test_more_replicas_than_brokers_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="2 replicas on 1 brokers"):
        assign({1: None}, 1, 2, start=0)
