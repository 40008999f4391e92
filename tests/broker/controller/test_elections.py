"""Who leads and who is in sync after brokers have come or gone, and while replicas move."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.controller.elections import Brokers, due, elected, preferred
from broker.controller.reassignments import begun, cancelled, finished
from cluster.values import NO_LEADER, NO_VERSION, Move, PartitionInfo, TopicInfo
from tests.cluster.conftest import a_partition

IDS = range(1, 6)


def partition(*replicas: int, epoch: int = 3, **changes: object) -> PartitionInfo:
    return a_partition(*replicas, leader_epoch=epoch, version=7, **changes)


def live(*brokers: int, draining: tuple[int, ...] = ()) -> Brokers:
    return Brokers(frozenset(brokers), frozenset(draining))


@st.composite
def partitions(draw: st.DrawFn) -> PartitionInfo:
    """As the map may have them: led by one that is in sync, or by nobody."""
    replicas = tuple(draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    return partition(*replicas, leader=leader, isr=isr, epoch=draw(st.integers(0, 9)))


@st.composite
def brokers(draw: st.DrawFn) -> Brokers:
    alive = draw(st.frozensets(st.sampled_from(IDS)))
    return Brokers(alive, draw(st.frozensets(st.sampled_from(IDS))))


def test_a_dead_leader_is_followed_by_the_first_live_one_in_sync() -> None:
    before = partition(1, 2, 3, 4, isr=(4, 1, 3))
    assert elected(before, live(2, 3, 4)) == replace(before, leader=3, leader_epoch=4, isr=(4, 3))


def test_dead_followers_leave_and_the_epoch_stays() -> None:
    before = partition(1, 2, 3)
    assert elected(before, live(1, 3)) == replace(before, isr=(1, 3))


def test_nobody_in_sync_lives_so_nobody_leads_and_what_they_have_is_remembered() -> None:
    before = partition(1, 2, 3, isr=(1, 2))
    headless = elected(before, live(3))
    assert headless == replace(before, leader=NO_LEADER, leader_epoch=4)
    assert elected(headless, live(2, 3)) == replace(before, leader=2, leader_epoch=5, isr=(2,))


def test_where_it_is_allowed_one_that_is_not_in_sync_leads_alone() -> None:
    before = partition(1, 2, 3, isr=(1,))
    after = elected(before, live(2, 3), unclean=True)
    assert after == replace(before, leader=2, leader_epoch=4, isr=(2,), unclean=(4,))
    in_sync = partition(1, 2, 3, isr=(1, 3))
    assert elected(in_sync, live(2, 3), unclean=True).leader == 3, "one in sync is better"


def test_the_state_keeps_which_epochs_began_without_one_in_sync() -> None:
    """Also when the next one was elected as it should be; of very many, the newest."""
    after = elected(partition(1, 2, 3, isr=(1,)), live(2), unclean=True)
    after = elected(after, live(1), unclean=True)
    assert (after.leader, after.leader_epoch, after.unclean) == (1, 5, (4, 5))
    after = elected(replace(after, isr=(1, 3)), live(3), unclean=True)
    assert (after.leader, after.leader_epoch, after.unclean) == (3, 6, (4, 5))
    for number in range(20):
        after = elected(after, live(1 + number % 2), unclean=True)
    assert after.unclean == tuple(range(after.leader_epoch - 7, after.leader_epoch + 1))


def test_a_draining_leader_makes_way_and_stays_in_sync() -> None:
    before = partition(1, 2, 3)
    after = elected(before, live(1, 2, 3, draining=(1, 2)))
    assert after == replace(before, leader=3, leader_epoch=4)


def test_a_draining_leader_stays_if_no_other_can_lead() -> None:
    before = partition(1, 2, 3, isr=(1, 2))
    assert elected(before, live(1, 2, 3, draining=(1, 2))) is before
    assert elected(before, live(1, 3, draining=(1,))) == replace(before, isr=(1,))
    assert elected(partition(1, 2), live(2, draining=(2,))).leader == 2, "or leads, if it alone can"


def test_a_partition_that_nobody_was_ever_in_sync_of_begins() -> None:
    before = partition(1, 2, leader=NO_LEADER, isr=())
    assert elected(before, live(2)) == replace(before, leader=2, leader_epoch=4, isr=(2,))
    assert elected(before, live()) is before
    nothing = replace(before, replicas=())
    assert elected(nothing, live(1)) is nothing


def test_a_leader_that_is_no_replica_any_more_makes_way() -> None:
    before = replace(partition(1, 2), replicas=(2, 3))
    assert elected(before, live(1, 2, 3)) == replace(before, leader=2, leader_epoch=4, isr=(2,))


@given(partitions(), brokers(), st.booleans())
def test_the_rules(before: PartitionInfo, brokers: Brokers, unclean: bool) -> None:
    after = elected(before, brokers, unclean=unclean)

    assert elected(after, brokers, unclean=unclean) is after
    assert after.isr
    assert len(set(after.isr)) == len(after.isr)
    assert (after.version, after.replicas) == (before.version, before.replicas)
    moved = after.leader != before.leader
    assert after.leader_epoch == before.leader_epoch + moved
    if after.leader != NO_LEADER:
        assert after.leader in after.isr
        assert set(after.isr) <= brokers.live
    in_sync_alive = set(before.isr) & brokers.live
    if in_sync_alive:
        assert after.leader in in_sync_alive
        assert set(after.isr) == in_sync_alive
    elif not (unclean and set(before.replicas) & brokers.live):
        assert after.leader == NO_LEADER
        assert after.isr == before.isr
    lost = moved and after.leader != NO_LEADER and after.leader not in before.isr
    assert after.unclean == (*before.unclean, *([after.leader_epoch] if lost else []))
    if in_sync_alive - brokers.draining:
        assert after.leader not in brokers.draining
    if moved and before.leader in in_sync_alive:
        assert before.leader in brokers.draining


@given(partitions(), brokers())
def test_preferred_leaders(before: PartitionInfo, brokers: Brokers) -> None:
    standing = elected(before, brokers)
    after = preferred(standing, brokers)
    assert preferred(after, brokers) is after
    assert elected(after, brokers) is after
    first, epoch = standing.replicas[0], standing.leader_epoch
    if after is not standing:
        assert after == replace(standing, leader=first, leader_epoch=epoch + 1)
    can = first in standing.isr and first in brokers.live and first not in brokers.draining
    if standing.leader != NO_LEADER and can:
        assert after.leader == first


@pytest.mark.parametrize("unclean", [False, True])
def test_only_what_is_due_is_changed(unclean: bool) -> None:
    topic = TopicInfo(
        name="views",
        topic_id=UUID(int=1),
        partitions=(
            partition(1, 2),
            partition(2, 1),
            partition(2, 1, isr=(2,)),
            replace(partition(2, 1), version=NO_VERSION),  # of whose state nothing is known
        ),
    )
    changes = due(topic, live(1), unclean=unclean)
    assert [(each.topic, each.topic_id, each.partition) for each in changes] == [
        ("views", UUID(int=1), index) for index in range(3)
    ]
    assert [each.after.leader for each in changes] == [1, 1, 1 if unclean else NO_LEADER]
    assert {each.after.version for each in changes} == {7}


# Replicas that move: who leads, who is in sync, and when it is over

TARGETS = st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True).map(tuple)


def test_from_two_brokers_to_two_others() -> None:
    all_ = live(1, 2, 3, 4)
    before = partition(1, 2)
    moving = begun(before, (3, 4), all_)
    move = Move(target=(3, 4), origin=(1, 2))
    assert moving == replace(before, replicas=(3, 4, 1, 2), move=move)
    assert (move.adding, move.removing) == ((3, 4), (1, 2))
    half = replace(moving, isr=(1, 2, 3))
    assert finished(half, all_) is None
    arrived = finished(replace(moving, isr=(1, 2, 4, 3)), all_)
    assert arrived == partition(3, 4, leader=3, isr=(4, 3), epoch=4)


def test_a_leader_that_stays_leads_on() -> None:
    all_ = live(1, 2, 3)
    moving = begun(partition(1, 2), (3, 1), all_)
    assert moving is not None
    arrived = finished(replace(moving, isr=(1, 2, 3)), all_)
    assert arrived == partition(3, 1, leader=1, isr=(1, 3))


def test_what_was_begun_is_taken_back() -> None:
    all_ = live(1, 2, 3)
    before = partition(1, 2)
    moving = begun(before, (3,), all_)
    assert moving is not None
    assert cancelled(moving, all_) == before
    assert begun(moving, (1, 2), all_) == before
    assert cancelled(replace(moving, leader=3, isr=(3, 2)), all_) == replace(
        before, leader=2, isr=(2,), leader_epoch=4
    )
    assert cancelled(replace(moving, leader=3, isr=(3,)), all_) is None  # they lack something
    assert finished(before, all_) is None, "nothing is under way"


def test_a_move_gets_another_target() -> None:
    all_ = live(1, 2, 3, 4)
    moving = begun(partition(1, 2), (3, 2), all_)
    assert moving is not None
    again = begun(replace(moving, isr=(1, 2, 3)), (4, 2), all_)
    assert again is not None
    assert again.replicas == (4, 2, 1)
    assert again.isr == (1, 2)
    assert again.move == Move(target=(4, 2), origin=(1, 2))


@given(partitions(), TARGETS, TARGETS, st.tuples(brokers(), brokers()), st.data())
def test_somebody_in_sync_always_stays(
    before: PartitionInfo,
    target: tuple[int, ...],
    other: tuple[int, ...],
    then_and_later: tuple[Brokers, Brokers],
    data: st.DataObject,
) -> None:
    then, later = then_and_later
    moving = begun(before, target, then)
    if moving is None:
        return
    assert set(moving.replicas) >= set(target)
    caught_up = data.draw(st.lists(st.sampled_from(moving.replicas), unique=True))
    leader_and_more = [each for each in caught_up if each not in moving.isr]
    moving = replace(moving, isr=(*moving.isr, *leader_and_more))
    for after in (
        finished(moving, later),
        begun(moving, other, later),
        cancelled(moving, later) if moving.move else None,
    ):
        if after is None:
            continue
        assert elected(after, later) is after
        assert after.isr
        if after.leader != NO_LEADER:
            assert after.leader in after.isr
            assert set(after.isr) <= later.live & set(after.replicas)
            assert set(after.isr) <= set(moving.isr)
        else:
            assert set(after.replicas) >= set(moving.replicas)
    arrived = finished(moving, later)
    if arrived is not None:
        assert moving.move is not None
        assert arrived.replicas == moving.move.target
        assert arrived.move is None
        assert set(moving.move.target) <= set(moving.isr)
