"""Which broker coordinates a group: the same for all, even, and few move when brokers change."""

from collections import Counter

from broker.groups.placement import candidates, first_of
from cluster.values import ClusterSnapshot
from tests.cluster.conftest import a_broker

GROUPS = [f"group-{number}" for number in range(3_000)]


def test_groups_are_spread_evenly_and_whatever_their_order() -> None:
    counts = Counter(first_of(group, [3, 1, 2]) for group in GROUPS)
    assert counts.keys() == {1, 2, 3}
    assert min(counts.values()) > 900
    assert [first_of(group, [3, 1, 2]) for group in GROUPS] == [
        first_of(group, {1, 2, 3}) for group in GROUPS
    ]


def test_only_the_groups_of_a_broker_that_goes_move() -> None:
    for group in GROUPS:
        before = first_of(group, [1, 2, 3])
        if before != 2:
            assert first_of(group, [1, 3]) == before


def test_nobody_coordinates_where_there_is_no_broker() -> None:
    assert first_of("group", []) is None


def test_brokers_that_are_about_to_stop_coordinate_nothing_unless_all_are() -> None:
    brokers = {number: a_broker(number) for number in (1, 2, 3)}
    assert candidates(ClusterSnapshot(brokers=brokers, draining=frozenset({2}))) == {1, 3}
    assert candidates(ClusterSnapshot(brokers=brokers, draining=frozenset({1, 2, 3}))) == {1, 2, 3}
    assert candidates(ClusterSnapshot()) == frozenset()
