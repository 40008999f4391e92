"""Replicas that move: who leads, who is in sync, and when it is over."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.controller.elections import Brokers, elected
from broker.controller.reassignments import begun, cancelled, finished
from cluster.values import NO_LEADER, Move, PartitionInfo
from tests.broker.controller.test_elections import IDS, brokers, live, partition, partitions

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


def test_a_move_gets_another_target() -> None:
    all_ = live(1, 2, 3, 4)
    moving = begun(partition(1, 2), (3, 2), all_)
    assert moving is not None
    again = begun(replace(moving, isr=(1, 2, 3)), (4, 2), all_)
    assert again is not None
    assert again.replicas == (4, 2, 1)
    assert again.isr == (1, 2)
    assert again.move == Move(target=(4, 2), origin=(1, 2))


def test_nothing_is_under_way() -> None:
    assert finished(partition(1, 2), live(1, 2)) is None


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
