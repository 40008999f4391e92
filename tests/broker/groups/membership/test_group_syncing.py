"""How members learn what they are to read: nobody before it is saved, everybody afterwards."""

import pytest
from msgspec.structs import replace

from broker.groups.membership.values import JoinOutcome, MemberRecord, Protocol, State
from tests.broker.groups.membership.scene import DELAY, REBALANCE, RULES, SESSION, Scene
from wire.errors import ErrorCode

OTHER = (Protocol("range", b"other topics"),)


def joined(scene: Scene, *, session: float = SESSION) -> tuple[JoinOutcome, ...]:
    """A leader and a follower, which have yet to sync."""
    asked = [scene.joins(session=session) for _ in range(2)]
    scene.after(2 * DELAY)
    return scene.generation(*asked)


# Assigning


def test_all_are_told_when_it_is_saved(scene: Scene) -> None:
    leader, follower = joined(scene)
    first = scene.sync(follower)
    assert scene.group.take_save() is None
    second = scene.sync(leader, {leader.member_id: b"1", follower.member_id: b"2"})
    record = scene.group.take_save()
    assert first.waits
    assert second.waits
    assert scene.group.describe().state is State.COMPLETING
    scene.group.saved(scene.now)
    assert scene.group.state is State.STABLE
    assert (second.assignment.assignment, first.assignment.assignment) == (b"1", b"2")
    assert first.assignment.protocol_type == "consumer"
    assert first.assignment.protocol == "range"
    assert record is not None
    assert record.generation == 1
    assert record.leader == leader.member_id
    assert record.members[1] == MemberRecord(
        member_id=follower.member_id,
        instance_id=None,
        client_id="c",
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        metadata=b"topics",
        assignment=b"2",
    )


def test_who_syncs_late_is_told_at_once(scene: Scene) -> None:
    """Whom the leader forgets reads nothing; and what it assigns first counts."""
    leader, follower = joined(scene)
    early = scene.sync(leader, {follower.member_id: b"2", "nobody": b"3"})
    later = scene.sync(leader, {leader.member_id: b"1", follower.member_id: b"4"})
    assert early.code is ErrorCode.rebalance_in_progress
    assert [each.assignment for each in scene.save().members] == [b"", b"2"]
    assert (later.code, later.assignment.assignment) == (ErrorCode.none, b"")
    for _ in range(2):
        assert scene.sync(follower).assignment.assignment == b"2"


def test_what_the_leader_assigns_is_bounded() -> None:
    scene = Scene(replace(RULES, most_bytes=10_000))
    leader, follower = joined(scene)
    waiting = scene.sync(follower)
    asked = scene.sync(leader, {leader.member_id: bytes(5_000), follower.member_id: bytes(5_001)})
    assert {asked.code, waiting.code} == {ErrorCode.unknown_server_error}
    assert scene.group.take_save() is None
    assert scene.group.state is State.PREPARING


# Refusing


def test_who_may_not_sync_is_told_why(scene: Scene) -> None:
    leader, follower = joined(scene)
    unknown = scene.sync(replace(follower, member_id="nobody"))
    assert unknown.code is ErrorCode.unknown_member_id
    for generation in (0, 2, -1):
        old = scene.sync(replace(follower, generation=generation))
        assert old.code is ErrorCode.illegal_generation
    kind = scene.sync(leader, {}, protocol_type="connect")
    assert kind.code is ErrorCode.inconsistent_group_protocol
    protocol = scene.sync(leader, {}, protocol_type="consumer", protocol="sticky")
    assert protocol.code is ErrorCode.inconsistent_group_protocol
    assert scene.group.take_save() is None
    assert scene.sync(leader, {}, protocol_type="consumer", protocol="range").waits
    scene.save()
    scene.join(leader.member_id)
    assert scene.sync(follower).code is ErrorCode.rebalance_in_progress


# What goes before saving


@pytest.mark.parametrize("taken", [True, False])
def test_a_rebalance_goes_before_what_is_assigned(scene: Scene, taken: bool) -> None:
    leader, follower = joined(scene)
    waiting = scene.sync(leader, {leader.member_id: b"1"})
    if taken:
        assert scene.group.take_save() is not None
    again = scene.join(follower.member_id, protocols=OTHER)
    assert waiting.code is ErrorCode.rebalance_in_progress
    if taken:
        scene.group.saved(scene.now)
    else:
        assert scene.group.take_save() is None, "what is void is not saved"
    assert scene.group.state is State.PREPARING
    assert again.waits
    scene.join(leader.member_id)
    assert again.outcome.generation == 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_save_of_an_old_generation_completes_and_harms_no_new_one(
    scene: Scene, fails: bool
) -> None:
    leader, follower = joined(scene)
    scene.sync(leader, {})
    assert scene.group.take_save() is not None
    again = [scene.join(follower.member_id, protocols=OTHER), scene.join(leader.member_id)]
    waiting = scene.sync(again[1].outcome, {leader.member_id: b"new"})
    assert scene.group.take_save() is None, "one at a time"
    if fails:
        scene.group.not_saved(ErrorCode.unknown_server_error, scene.now)
    else:
        scene.group.saved(scene.now)
    assert waiting.waits
    assert scene.group.state is State.COMPLETING
    assert scene.save().generation == 2
    assert waiting.assignment.assignment == b"new"


def test_what_cannot_be_saved_is_told_and_all_join_again(scene: Scene) -> None:
    leader, follower = joined(scene)
    waiting = [scene.sync(follower), scene.sync(leader, {})]
    assert scene.group.take_save() is not None
    scene.group.not_saved(ErrorCode.not_coordinator, scene.now)
    assert {each.code for each in waiting} == {ErrorCode.not_coordinator}
    assert scene.group.state is State.PREPARING
    again = [scene.join(follower.member_id), scene.join(leader.member_id)]
    assert {each.outcome.generation for each in again} == {2}


# Who does not sync


def test_who_never_syncs_is_removed(scene: Scene) -> None:
    leader, follower = joined(scene)
    scene.sync(leader, {})
    scene.save()
    for _ in range(int(REBALANCE / 5) - 1):
        scene.after(5)
        assert scene.beat(leader) is ErrorCode.none
        assert scene.beat(follower) is ErrorCode.none
    scene.after(5)
    assert scene.beat(leader) is ErrorCode.rebalance_in_progress
    assert scene.beat(follower) is ErrorCode.unknown_member_id


def test_a_leader_that_never_syncs_is_removed(scene: Scene) -> None:
    leader, follower = joined(scene, session=2 * REBALANCE)
    waiting = scene.sync(follower)
    scene.after(REBALANCE - 0.1)
    assert waiting.waits
    scene.after(0.1)
    assert waiting.code is ErrorCode.rebalance_in_progress
    assert scene.join(follower.member_id).outcome.leader == follower.member_id
    assert scene.beat(leader) is ErrorCode.unknown_member_id


# Being empty


def test_that_it_was_empty_is_saved_also_when_it_is_not_any_more(scene: Scene) -> None:
    (only,) = scene.stable(1)
    scene.leave(only.member_id)
    scene.joins()
    record = scene.save()
    assert (record.generation, record.members, record.leader) == (2, (), None)
    assert (record.protocol_type, record.protocol) == ("consumer", None)
    scene.after(DELAY)
    assert scene.group.state is State.COMPLETING
    # Another coordinator goes on from there.
    scene.taken_over(record)
    asked = scene.joins()
    scene.after(DELAY)
    assert asked.outcome.generation == 3


def test_where_that_cannot_be_saved_nothing_follows(scene: Scene) -> None:
    (only,) = scene.stable(1)
    scene.leave(only.member_id)
    assert scene.group.take_save() is not None
    asked = scene.joins()
    scene.group.not_saved(ErrorCode.unknown_server_error, scene.now)
    assert asked.waits
    assert scene.group.take_save() is None


# Another coordinator


def test_a_group_goes_on_with_another_coordinator(scene: Scene) -> None:
    leader, follower = joined(scene)
    scene.sync(leader, {follower.member_id: b"2"})
    record = scene.save()
    scene.taken_over(record)
    assert scene.group.state is State.STABLE
    assert scene.group.leader == leader.member_id
    scene.after(SESSION - 0.1)
    assert scene.beat(leader) is ErrorCode.none
    assert scene.commit(follower) is ErrorCode.none
    assert scene.sync(follower).assignment.assignment == b"2"
    again = [scene.join(leader.member_id), scene.join(follower.member_id)]
    assert {each.outcome.generation for each in again} == {2}
    waiting = scene.sync(again[0].outcome, {follower.member_id: b"2"})
    assert scene.save().generation == 2
    assert waiting.code is ErrorCode.none


def test_a_generation_that_was_not_saved_is_unknown_to_another_coordinator(scene: Scene) -> None:
    leader, follower = joined(scene)
    scene.sync(leader, {})
    record = scene.save()
    scene.join(leader.member_id)
    newer = scene.join(follower.member_id).outcome
    assert newer.generation == 2
    scene.taken_over(record)
    assert scene.commit(newer) is ErrorCode.illegal_generation
    assert scene.beat(newer) is ErrorCode.illegal_generation
    assert scene.commit(follower) is ErrorCode.none


def test_who_does_not_come_along_is_missed_after_a_session(scene: Scene) -> None:
    leader, _ = joined(scene)
    scene.sync(leader, {})
    scene.taken_over(scene.save())
    scene.after(SESSION - 0.1)
    assert len(scene.group) == 2
    scene.after(0.1 + REBALANCE)
    assert scene.group.state is State.EMPTY
    assert scene.group.generation == 2


# The end


def test_who_waits_is_told_that_the_group_is_not_here_any_more(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    waiting = scene.join(leader.member_id)
    scene.group.die(ErrorCode.not_coordinator)
    assert waiting.code is ErrorCode.not_coordinator
    assert scene.group.next_time() is None
    assert scene.group.take_save() is None
    gone = ErrorCode.coordinator_not_available
    assert scene.join().code is gone
    assert scene.join(leader.member_id).code is gone
    assert scene.sync(follower).code is gone
    assert scene.beat(follower) is gone
    assert scene.commit(follower) is gone
    assert scene.group.check_commit("", None, -1, scene.now) is gone
    assert scene.left().code is gone
    description = scene.group.describe()
    assert (description.state, description.members) == (State.DEAD, ())


def test_who_syncs_is_told_too_and_saving_ends(scene: Scene) -> None:
    leader, _ = joined(scene)
    waiting = scene.sync(leader, {})
    assert scene.group.take_save() is not None
    scene.group.die(ErrorCode.not_coordinator)
    assert waiting.code is ErrorCode.not_coordinator
    scene.group.saved(scene.now)
    scene.after(1000)
    assert scene.group.state is State.DEAD
