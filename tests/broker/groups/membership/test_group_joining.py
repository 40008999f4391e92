"""Who joins a group, when a generation begins, who leads it, and by which protocol."""

import pytest
from msgspec.structs import replace

from broker.groups.membership.values import JoinedMember, Protocol, State
from tests.broker.groups.membership.scene import DELAY, REBALANCE, RULES, SESSION, Scene, with_most
from wire.errors import ErrorCode

BOTH = (Protocol("sticky", b"s"), Protocol("range", b"r"))
STICKY = (Protocol("sticky", b"s"),)
OTHER = (Protocol("range", b"other topics"),)
FULL = ErrorCode.group_max_size_reached
INCONSISTENT = ErrorCode.inconsistent_group_protocol

# Member ids


def test_who_has_no_id_is_given_one_and_joins_with_it(scene: Scene) -> None:
    asked = scene.join(client_id="app")
    assert asked.code is ErrorCode.member_id_required
    assert (asked.outcome.member_id, asked.outcome.generation) == ("app-1", -1)
    assert len(scene.group) == 0
    again = scene.join("app-1")
    assert again.waits
    scene.after(DELAY)
    assert again.outcome.member_id == "app-1"


def test_before_version_4_and_for_static_members_an_id_is_not_asked_for(scene: Scene) -> None:
    old, static = scene.join(client_id="app", version=3), scene.join(instance_id="left")
    assert old.waits
    scene.after(2 * DELAY)
    assert [each.outcome.member_id for each in (old, static)] == ["app-1", "left-2"]


def test_an_id_that_nobody_gave_or_used_is_unknown(scene: Scene) -> None:
    member_id = scene.member_id()
    scene.after(SESSION)
    assert scene.join(member_id).code is ErrorCode.unknown_member_id
    assert scene.group.next_time() is None
    asked = scene.join("mine")
    assert (asked.code, asked.outcome.member_id) == (ErrorCode.unknown_member_id, "mine")


@pytest.mark.parametrize("late_one", ["joins", "leaves", "vanishes"])
def test_a_rebalance_waits_for_ids_that_were_given_out(scene: Scene, late_one: str) -> None:
    members = scene.stable(2)
    late = scene.member_id("late")
    asked = [scene.join(each.member_id) for each in members]
    assert all(each.waits for each in asked)
    if late_one == "joins":
        scene.join(late)
    elif late_one == "leaves":
        assert scene.leave(late) == (ErrorCode.none,)
    else:
        scene.after(SESSION)
    assert not any(each.waits for each in asked)
    assert len(asked[0].outcome.members) == (3 if late_one == "joins" else 2)


# The first generation


def test_the_first_generation_waits_for_more_to_come(scene: Scene) -> None:
    first = scene.joins()
    scene.after(DELAY - 0.1)
    second = scene.joins()
    scene.after(DELAY)
    assert first.waits, "each that comes extends it"
    scene.after(DELAY)
    leader, follower = scene.generation(first, second)
    assert (leader.generation, follower.generation) == (1, 1)
    assert {each.member_id for each in leader.members} == {leader.member_id, follower.member_id}
    assert follower.members == ()


def test_it_waits_no_longer_than_a_rebalance_may_take(scene: Scene) -> None:
    first = scene.joins(rebalance=4 * DELAY + 1)
    for _ in range(5):
        assert first.waits
        scene.joins(rebalance=4 * DELAY + 1)
        scene.after(DELAY - 0.1)
    assert not first.waits
    assert not Scene(replace(RULES, initial_delay=0.0)).joins().waits, "without a delay, at once"


def test_an_empty_group_waits_again(scene: Scene) -> None:
    (first,) = scene.stable(1)
    scene.leave(first.member_id)
    assert (scene.group.state, scene.group.generation) == (State.EMPTY, 2)
    asked = scene.joins()
    scene.after(DELAY - 0.1)
    assert asked.waits
    scene.after(0.1)
    assert asked.outcome.generation == 3


# Joining again


def test_while_a_rebalance_is_prepared_all_wait(scene: Scene) -> None:
    first, second = scene.stable(2)
    newcomer = scene.joins("new")
    assert scene.group.state is State.PREPARING
    again = scene.join(first.member_id)
    assert newcomer.waits
    assert again.waits
    last = scene.join(second.member_id, protocols=OTHER)
    outcomes = (again.outcome, newcomer.outcome, last.outcome)
    assert {each.generation for each in outcomes} == {2}
    assert {each.leader for each in outcomes} == {first.member_id}
    told = {each.member_id: each for each in outcomes[0].members}
    assert told[second.member_id] == JoinedMember(second.member_id, None, b"other topics")


def test_while_it_is_completed_one_may_ask_again(scene: Scene) -> None:
    asked = [scene.joins(), scene.joins()]
    scene.after(2 * DELAY)
    leader, follower = scene.generation(*asked)
    for each in (leader, follower):
        assert scene.join(each.member_id).outcome == each
        assert scene.group.state is State.COMPLETING
    # Who has other metadata begins a rebalance.
    waiting = scene.sync(leader, {})
    assert scene.join(follower.member_id, protocols=OTHER).waits
    assert scene.group.state is State.PREPARING
    assert waiting.code is ErrorCode.rebalance_in_progress


def test_in_a_stable_group_a_leader_that_joins_again_begins_a_rebalance(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    again = scene.join(follower.member_id)
    assert (again.outcome, scene.group.state) == (follower, State.STABLE)
    first = scene.join(leader.member_id, reason="a topic has grown")
    assert first.waits
    assert scene.group.state is State.PREPARING
    assert scene.group.reason.endswith("rejoins as the leader: a topic has grown")
    second = scene.join(leader.member_id)
    assert first.code is ErrorCode.rebalance_in_progress, "who joins twice is answered twice"
    assert second.waits


def test_a_follower_with_other_metadata_begins_a_rebalance(scene: Scene) -> None:
    _, follower = scene.stable(2)
    assert scene.join(follower.member_id, protocols=OTHER, reason="x" * 1000).waits
    assert scene.group.state is State.PREPARING
    assert len(scene.group.reason) < 400


# Time-outs of a rebalance


def test_who_does_not_join_again_is_dropped(scene: Scene) -> None:
    leader, follower = scene.stable(2, session=2 * REBALANCE)
    again = scene.join(leader.member_id, session=2 * REBALANCE)
    scene.after(REBALANCE - 0.1)
    assert again.waits
    scene.after(0.1)
    assert [each.member_id for each in again.outcome.members] == [leader.member_id]
    assert scene.beat(follower) is ErrorCode.unknown_member_id


def test_a_rebalance_may_take_as_long_as_the_slowest_says(scene: Scene) -> None:
    asked = [scene.joins(rebalance=most, session=500.0) for most in (20.0, 200.0)]
    scene.after(2 * DELAY)
    leader, _ = scene.complete(*(each.outcome for each in asked))
    again = scene.join(leader.member_id, rebalance=20.0, session=500.0)
    scene.after(199.0)
    assert again.waits
    scene.after(1.0)
    assert not again.waits


@pytest.mark.parametrize("leader_leaves", [True, False])
def test_another_leads_when_the_leader_leaves_or_does_not_join_again(
    scene: Scene, leader_leaves: bool
) -> None:
    leader, follower = scene.stable(2, session=2 * REBALANCE)
    if leader_leaves:
        assert scene.leave(leader.member_id) == (ErrorCode.none,)
        assert scene.group.leader == follower.member_id
    again = scene.join(follower.member_id, protocols=OTHER)
    assert again.waits != leader_leaves
    scene.after(REBALANCE)
    assert (again.outcome.leader, again.outcome.generation) == (follower.member_id, 2)
    assert len(again.outcome.members) == 1


# Protocols


@pytest.mark.parametrize(
    "known", [(BOTH, BOTH[::-1], BOTH[::-1]), (BOTH, BOTH, BOTH[1:])], ids=["votes", "all know"]
)
def test_the_protocol_with_most_votes_of_those_that_all_know_is_taken(
    scene: Scene, known: tuple[tuple[Protocol, ...], ...]
) -> None:
    asked = [scene.joins(protocols=each) for each in known]
    scene.after(2 * DELAY)
    assert {each.outcome.protocol for each in asked} == {"range"}
    assert {each.metadata for each in asked[0].outcome.members} == {b"r"}


def test_who_knows_no_protocol_of_the_others_is_refused(scene: Scene) -> None:
    assert scene.join(protocols=()).code is INCONSISTENT
    assert scene.join(protocol_type="").code is INCONSISTENT
    scene.joins()
    for how in ({"protocols": STICKY}, {"protocol_type": "connect"}, {"protocols": ()}):
        assert scene.join(**how).code is INCONSISTENT
    assert scene.join(protocols=BOTH).code is ErrorCode.member_id_required


def test_an_empty_group_may_become_one_of_another_kind(scene: Scene) -> None:
    (only,) = scene.stable(1)
    scene.leave(only.member_id)
    asked = scene.joins(protocol_type="connect", protocols=STICKY)
    scene.after(DELAY)
    assert (asked.outcome.protocol_type, asked.outcome.protocol) == ("connect", "sticky")


def test_a_protocol_that_only_one_knew_is_possible_when_it_has_left(scene: Scene) -> None:
    first, second = scene.joins(protocols=BOTH), scene.joins()
    scene.after(2 * DELAY)
    scene.complete(first.outcome, second.outcome)
    assert scene.join(protocols=STICKY).code is INCONSISTENT
    scene.leave(second.outcome.member_id)
    assert scene.join(protocols=STICKY).code is ErrorCode.member_id_required


# Room


def test_a_full_group_takes_nobody_else_and_gives_out_no_more_ids() -> None:
    scene = Scene(with_most(2))
    first, _ = scene.stable(2)
    asked = scene.join()
    assert (asked.code, asked.outcome.member_id) == (FULL, "")
    assert scene.beat(first) is ErrorCode.none
    scene = Scene(with_most(2))
    given, _ = scene.member_id(), scene.member_id()
    assert scene.join().code is FULL
    assert scene.join(given).waits


def test_of_too_many_members_the_first_that_join_again_stay(scene: Scene) -> None:
    asked = [scene.joins() for _ in range(3)]
    scene.after(2 * DELAY)
    scene.sync(asked[0].outcome, {})
    scene.taken_over(scene.save(), with_most(2))
    assert scene.group.state is State.PREPARING
    ids = [each.outcome.member_id for each in asked]
    second, third = scene.join(ids[1]), scene.join(ids[2])
    assert third.waits
    assert scene.join(ids[0]).code is FULL
    assert {second.code, third.code} == {ErrorCode.none}
    assert second.outcome.leader == ids[1]
    assert len(scene.group) == 2


def test_what_members_say_is_bounded() -> None:
    def large(size: int) -> tuple[Protocol, ...]:
        return (Protocol("range", bytes(size)),)

    scene = Scene(replace(RULES, most_bytes=1_000))
    first = scene.joins(protocols=large(300))
    assert scene.join(protocols=large(700)).code is FULL
    scene.after(DELAY)
    scene.complete(first.outcome)
    assert scene.join(first.outcome.member_id, protocols=large(1000)).code is FULL
    assert scene.group.state is State.EMPTY, "it was told that it is no member"


@pytest.mark.parametrize(
    ("session", "fits"), [(5.9, False), (6.0, True), (1800.0, True), (1801.0, False)]
)
def test_session_time_outs_are_bounded(scene: Scene, session: float, fits: bool) -> None:
    code = scene.join(session=session).code
    assert (code is ErrorCode.invalid_session_timeout) != fits
