"""How brokers stand, by what a cluster says; and plans for brokers that go and that come: never
fewer replicas, racks kept spread, even, and nothing moved that need not be."""

import sys
from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from client.connection.addresses import Address
from client.connection.metadata import (
    NO_LEADER,
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from penstock.brokers.placement import (
    Key,
    NoPlace,
    Placement,
    Racks,
    Replicas,
    drained,
    filled,
    spread,
)
from penstock.brokers.replica_roles import AWAY, BEHIND, IN_SYNC, LEADS, roles_by_broker, why_under


def partition(
    leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]
) -> PartitionMetadata:
    return PartitionMetadata(0, leader, 0, replicas, in_sync)


def cluster(*partitions: PartitionMetadata) -> ClusterMetadata:
    """Of brokers 1, 2 and 4, with a topic for each partition."""
    return ClusterMetadata(
        brokers={each: BrokerMetadata(each, Address("h", 9000 + each)) for each in (1, 2, 4)},
        topics={
            f"t{index}": TopicMetadata(f"t{index}", None, (each,))
            for index, each in enumerate(partitions)
        },
    )


def test_who_leads_follows_and_is_away() -> None:
    found = roles_by_broker(
        cluster(
            partition(1, (1, 2, 3), (1, 2)),
            partition(2, (2, 1), (2,)),
            partition(NO_LEADER, (3,), (3,)),
        )
    )
    assert list(found) == [1, 2, 3, 4]
    assert [[each.role for each in found[id_].replicas] for id_ in found] == [
        [LEADS, BEHIND],
        [IN_SYNC, LEADS],
        [AWAY, AWAY],
        [],
    ]
    assert [each.under_replicated for each in found.values()] == [1, 1, 0, 0]
    assert [each.waiting for each in found.values()] == [0, 0, 1, 0]
    assert found[3].broker is None


def test_why_a_partition_has_fewer_copies() -> None:
    for each, why in (
        (partition(1, (1, 2), (1, 2)), ""),
        (partition(1, (1, 2, 3), (1,)), "2 behind; 3 away"),
        (partition(NO_LEADER, (3, 1), (3,)), "no leader until 3 is back; 1 behind"),
        (partition(NO_LEADER, (1, 2), (1, 2)), "no leader yet"),
    ):
        assert why_under(each, cluster(each)) == why


Cluster = tuple[dict[Key, Replicas], dict[int, str | None]]


@st.composite
def clusters(draw: st.DrawFn, partitions: int = 30) -> Cluster:
    """Replicas anywhere."""
    ids = draw(st.lists(st.integers(0, 50), min_size=2, max_size=7, unique=True))
    racks = {each: draw(st.sampled_from([None, "a", "b", "c"])) for each in ids}
    anywhere = st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True).map(tuple)
    topics = st.lists(anywhere, max_size=partitions)
    placed = {
        (topic, index): replicas
        for topic in ("t", "u")
        for index, replicas in enumerate(draw(topics))
    }
    return placed, racks


def loads(placed: Placement, racks: Racks) -> Counter[int]:
    found = Counter(each for replicas in placed.values() for each in replicas)
    return Counter({each: found[each] for each in racks})


def unevenness(placed: Placement, racks: Racks) -> int:
    return sum(each**2 for each in loads(placed, racks).values())


def range_of(counted: Counter[int]) -> int:
    return max(counted.values()) - min(counted.values())


@given(clusters())
def test_a_drained_broker_has_nothing_and_all_else_stays(cluster: Cluster) -> None:
    before, racks = cluster
    gone = min(racks)
    left = {each: rack for each, rack in racks.items() if each != gone}
    if any(gone in each and len(each) > len(left) for each in before.values()):
        with pytest.raises(NoPlace, match="no broker can take"):
            drained(before, racks, gone)
        return
    changed = drained(before, racks, gone)
    assert changed.keys() == {key for key, replicas in before.items() if gone in replicas}
    for key, after in changed.items():
        stay = set(before[key]) - {gone}
        assert len(after) == len(set(after)) == len(before[key])
        assert stay < set(after) <= left.keys() or (not stay and set(after) <= left.keys())
        widest = max(spread([*stay, each], left) for each in left if each not in stay)
        assert spread(after, left) == widest >= spread(before[key], racks) - 1
        if before[key][0] != gone:
            assert after[0] == before[key][0]


@given(clusters(partitions=3))
def test_a_drain_leaves_brokers_as_even_as_can_be(cluster: Cluster) -> None:
    before, racks = cluster
    gone = min(racks)
    left = {each: rack for each, rack in racks.items() if each != gone}
    moving = [key for key, replicas in before.items() if gone in replicas]
    assume(len(moving) <= 4)
    assume(all(len(before[key]) <= len(left) for key in moving))
    planned = unevenness({**before, **drained(before, racks, gone)}, left)
    choices = []
    for key in moving:
        stay = [each for each in before[key] if each != gone]
        free = [each for each in left if each not in stay]
        widest = max(spread([*stay, each], left) for each in free)
        wide = [each for each in free if spread([*stay, each], left) == widest]
        choices.append([(*stay, each) for each in wide])
    best = min(
        unevenness({**before, **dict(zip(moving, each, strict=True))}, left)
        for each in product(*choices)
    )
    assert planned == best


@given(clusters(), st.data())
def test_filled_brokers_get_their_share_from_those_that_have_most(
    cluster: Cluster, data: st.DataObject
) -> None:
    before, racks = cluster
    new = set(data.draw(st.lists(st.sampled_from(sorted(racks)), min_size=1, unique=True)))
    changed = filled(before, racks, new)
    placed, old = {**before, **changed}, racks.keys() - new
    then, now = loads(before, racks), loads(placed, racks)
    moves = 0
    for key, after in changed.items():
        assert len(after) == len(set(after)) == len(before[key])
        assert spread(after, racks) >= spread(before[key], racks)
        swaps = [(a, b) for a, b in zip(before[key], after, strict=True) if a != b]
        assert all(giver in old and to in new for giver, to in swaps)
        moves += len(swaps)
    assert moves == sum(now[each] - then[each] for each in new & racks.keys())
    share = -(-sum(then.values()) // len(racks))
    for to in new:
        assert now[to] <= max(share, then[to])
        assert now[to] >= then[to]
        if now[to] >= share:
            continue
        for giver in old:  # whoever has more has nothing that could go there
            if now[giver] >= now[to] + 2:
                assert not any(_may_go(replicas, giver, to, racks) for replicas in placed.values())


def _may_go(replicas: Replicas, giver: int, to: int, racks: Racks) -> bool:
    swapped = [to if each == giver else each for each in replicas]
    return (
        giver in replicas
        and to not in replicas
        and spread(swapped, racks) >= spread(replicas, racks)
    )


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.booleans())
def test_what_was_even_is_even_again_to_within_one(
    old: int, new: int, factor: int, partitions: int, apart: bool
) -> None:
    """With as few moves as that takes."""
    assume(factor <= old)
    racks: dict[int, str | None] = dict.fromkeys(range(old + new), None if apart else "r")
    before = {
        ("t", index): tuple((index * factor + each) % old for each in range(factor))
        for index in range(partitions)
    }
    coming = set(range(old, old + new))
    then = loads(before, dict.fromkeys(range(old)))
    assume(range_of(then) <= 1)
    changed = filled(before, racks, coming)
    after = loads({**before, **changed}, racks)
    assert range_of(after) <= 1
    share = partitions * factor // (old + new)
    moves = sum(len(set(after) - set(before[key])) for key, after in changed.items())
    assert new * share <= moves <= new * (share + 1)

    back = {**before, **changed}
    for each in sorted(coming):  # and when they are taken away again
        back |= drained(back, racks, each)
        racks = {broker: rack for broker, rack in racks.items() if broker != each}
        if factor == 1:  # else the other replicas may be in the way
            assert range_of(loads(back, racks)) <= 1


def test_racks_are_kept_apart() -> None:
    """Three racks, a copy in each: the new broker takes only from its own rack."""
    racks = {1: "a", 2: "b", 3: "c", 4: "a"}
    before = {("t", index): (1, 2, 3) for index in range(6)}
    changed = filled(before, racks, {4})
    assert loads({**before, **changed}, racks) == {1: 3, 2: 6, 3: 6, 4: 3}
    assert all(spread(each, racks) == 3 for each in changed.values())
    left = drained(before, racks, 1)
    assert {frozenset(each) for each in left.values()} == {frozenset({2, 3, 4})}


def test_what_is_led_is_shared_out_too() -> None:
    racks = {1: None, 2: None, 3: None}
    before = {("t", index): ((1, 2) if index % 2 else (2, 1)) for index in range(12)}
    changed = filled(before, racks, {3})
    leads = Counter(each[0] for each in {**before, **changed}.values())
    assert sorted(leads.values()) == [4, 4, 4]
    left = drained({**before, **changed}, racks, 3)
    leads = Counter(each[0] for each in {**before, **changed, **left}.values())
    assert sorted(leads.values()) == [6, 6]


def test_nobody_is_left_to_go_to() -> None:
    with pytest.raises(NoPlace, match=r"no broker can take 1 partitions \(t-0 is on 1,2\)"):
        drained({("t", 0): (1, 2), ("t", 1): (2,)}, {1: None, 2: None}, 1)
    assert drained({("t", 1): (2,)}, {1: None, 2: None}, 1) == {}


def work(plan: Callable[[], object]) -> int:
    """How many functions it calls, built-in ones too: the same on every machine."""
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        plan()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("topics", [1, 50])
def test_four_times_the_partitions_are_four_times_the_work(topics: int) -> None:
    """Of what is looked at for each that is moved, it would be sixteen times."""
    racks: dict[int, str | None] = {each: f"r{each % 3}" for each in range(8)}

    def placed(partitions: int, brokers: int) -> dict[Key, Replicas]:
        return {
            (f"t{topic}", index): tuple((topic + index + each) % brokers for each in range(3))
            for topic in range(topics)
            for index in range(partitions // topics)
        }

    few, many = placed(300, 6), placed(1200, 6)
    assert work(lambda: filled(many, racks, {6, 7})) < 6 * work(lambda: filled(few, racks, {6, 7}))
    few, many = placed(300, 8), placed(1200, 8)
    assert work(lambda: drained(many, racks, 0)) < 6 * work(lambda: drained(few, racks, 0))
