"""Assignments of partitions to brokers: legal, even, and over as many racks as there are."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.topic_rules import assign


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
