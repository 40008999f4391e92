"""Static members (KIP-345): who has an instance id keeps its place while it is away for a while."""

import pytest
from msgspec.structs import replace

from broker.groups.membership.values import Leaving, Protocol, State
from tests.broker.groups.membership.scene import DELAY, REBALANCE, SESSION, Asked, Scene, with_most
from wire.errors import ErrorCode

BOTH = (Protocol("sticky", b"s"), Protocol("range", b"r"))
OTHER = (Protocol("range", b"other topics"),)


def test_who_comes_back_has_its_place_again(scene: Scene) -> None:
    leader, follower = scene.static("left", "right")
    asked = scene.join(instance_id="right", client_id="new", client_host="/10.0.0.2")
    assert asked.waits, "until it is saved"
    record = scene.save()
    back = asked.outcome
    assert back.code is ErrorCode.none
    assert back.member_id == record.members[1].member_id != follower.member_id
    assert record.members[1].client_host == "/10.0.0.2"
    assert record.members[1].assignment == follower.member_id.encode()
    assert (back.generation, back.leader, back.members) == (1, leader.member_id, ())
    assert scene.group.state is State.STABLE
    assert scene.sync(back, instance_id="right").assignment.assignment == (
        follower.member_id.encode()
    )
    assert scene.beat(leader, "left") is ErrorCode.none


def test_who_was_replaced_is_fenced(scene: Scene) -> None:
    _, follower = scene.static("left", "right")
    back = scene.join(instance_id="right")
    scene.save()
    fenced = ErrorCode.fenced_instance_id
    assert scene.beat(follower, "right") is fenced
    assert scene.commit(follower, "right") is fenced
    assert scene.sync(follower, instance_id="right").code is fenced
    assert scene.join(follower.member_id, instance_id="right").code is fenced
    left = scene.left(Leaving(member_id=follower.member_id, instance_id="right"))
    assert left.codes == (fenced,)
    assert scene.beat(back.outcome, "right") is ErrorCode.none
    assert scene.beat(follower) is ErrorCode.unknown_member_id


def test_an_instance_id_that_nobody_has_is_unknown(scene: Scene) -> None:
    leader, _ = scene.static("left", "right")
    unknown = ErrorCode.unknown_member_id
    assert scene.beat(leader, "middle") is unknown
    assert scene.join(leader.member_id, instance_id="middle").code is unknown
    pending = scene.member_id()
    assert scene.join(pending, instance_id="left").code is ErrorCode.fenced_instance_id
    assert scene.join(pending, instance_id="middle").code is unknown
    assert scene.beat(leader) is ErrorCode.none, "it need not be said"


def test_a_waiting_one_that_is_replaced_is_fenced(scene: Scene) -> None:
    first = scene.join(instance_id="left")
    second = scene.join(instance_id="left")
    assert first.code is ErrorCode.fenced_instance_id
    scene.after(2 * DELAY)
    syncing = scene.sync(second.outcome, {})
    third = scene.join(instance_id="left")
    assert syncing.code is ErrorCode.fenced_instance_id
    assert third.outcome.generation == 2, "the leader may have been told of the other"


def test_a_leader_that_comes_back_leads_and_assigns_nothing(scene: Scene) -> None:
    """KIP-814. Before version 9 it is not told that it leads."""
    _, follower = scene.static("left", "right")
    asked = scene.join(instance_id="left")
    scene.save()
    back = asked.outcome
    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert {each.member_id for each in back.members} == {back.member_id, follower.member_id}
    assert scene.group.leader == back.member_id
    asked = scene.join(instance_id="left", version=8)
    scene.save()
    old = asked.outcome
    assert (old.leader, old.skip_assignment, old.members) == (back.member_id, False, ())
    assert scene.group.leader == old.member_id
    scene.join(old.member_id, instance_id="left")
    assert scene.group.state is State.PREPARING, "a leader it is"


def test_other_metadata_alone_begins_no_rebalance(scene: Scene) -> None:
    """As in Kafka: what it owned is in it, for some ways to assign, so it is other metadata
    whenever a member comes back."""
    scene.static("left", "right")
    asked = scene.join(instance_id="right", protocols=OTHER)
    assert scene.save().members[1].metadata == b"other topics"
    assert asked.code is ErrorCode.none
    assert scene.group.state is State.STABLE


def test_another_protocol_begins_one(scene: Scene) -> None:
    asked = [scene.join(instance_id="left", protocols=BOTH)]
    asked.append(scene.join(instance_id="right", protocols=BOTH))
    scene.after(2 * DELAY)
    scene.complete(*(each.outcome for each in asked))
    assert scene.group.protocol == "sticky"
    assert scene.join(instance_id="right", protocols=OTHER).waits
    assert scene.group.state is State.PREPARING
    assert scene.group.take_save() is None


def test_where_it_cannot_be_saved_the_old_id_counts(scene: Scene) -> None:
    leader, follower = scene.static("left", "right")
    asked = scene.join(instance_id="right", protocols=OTHER)
    assert scene.group.take_save() is not None
    scene.group.not_saved(ErrorCode.coordinator_not_available, scene.now)
    assert asked.code is ErrorCode.coordinator_not_available
    assert asked.outcome.member_id == ""
    assert scene.beat(follower, "right") is ErrorCode.none
    assert scene.group.describe().members[-1].metadata == b"topics"
    assert scene.beat(leader, "left") is ErrorCode.none
    again = scene.join(instance_id="right")
    scene.save()
    assert again.code is ErrorCode.none


def test_who_comes_back_twice_before_it_is_saved(scene: Scene) -> None:
    _, follower = scene.static("left", "right")
    first = scene.join(instance_id="right")
    assert scene.group.take_save() is not None
    second = scene.join(instance_id="right")
    assert first.code is ErrorCode.fenced_instance_id
    scene.group.saved(scene.now)
    assert second.waits, "it was not in it"
    record = scene.group.take_save()
    assert record is not None
    scene.group.not_saved(ErrorCode.unknown_server_error, scene.now)
    assert second.code is ErrorCode.unknown_server_error
    saved = scene.group.describe().members
    ids = {each.instance_id: each.member_id for each in saved}
    assert ids["right"] == "right-3", "as it was saved last"
    assert scene.beat(follower, "right") is ErrorCode.fenced_instance_id


def test_an_unsaved_id_dies_with_the_group(scene: Scene) -> None:
    """The next coordinator has the id of before, and would fence the new one for good."""
    leader, *_ = scene.static("left", "right", "third")
    back = scene.join(instance_id="right")
    again = scene.join(leader.member_id, instance_id="left", protocols=OTHER)
    scene.group.die(ErrorCode.not_coordinator)
    assert (back.outcome.code, back.outcome.member_id) == (ErrorCode.not_coordinator, "")
    assert again.outcome.member_id == leader.member_id, "it asked with this one"


def test_two_come_back_one_after_the_other(scene: Scene) -> None:
    """Also to a full group."""
    scene.static("left", "right")
    first = scene.join(instance_id="left")
    assert scene.group.take_save() is not None
    second = scene.join(instance_id="right")
    scene.group.saved(scene.now)
    assert first.code is ErrorCode.none
    assert second.waits
    scene.save()
    assert second.code is ErrorCode.none
    scene = Scene(with_most(2))
    scene.static("left", "right")
    assert scene.join(instance_id="middle").code is ErrorCode.group_max_size_reached
    back = scene.join(instance_id="right")
    scene.save()
    assert back.code is ErrorCode.none


def test_a_rebalance_that_begins_before_it_is_saved_takes_it_along(scene: Scene) -> None:
    """It waits with the rest until all have joined."""
    leader, _, third = scene.static("left", "right", "third")
    asked = scene.join(instance_id="right")
    assert scene.group.take_save() is not None
    again = scene.join(leader.member_id, instance_id="left")
    scene.group.saved(scene.now)
    assert asked.waits
    scene.join(third.member_id, instance_id="third")
    assert (asked.outcome.generation, again.outcome.generation) == (2, 2)


@pytest.mark.parametrize("saved", [True, False])
def test_one_that_leaves_before_it_is_saved_is_answered(scene: Scene, saved: bool) -> None:
    scene.static("left", "right")
    asked = scene.join(instance_id="right")
    assert scene.group.take_save() is not None
    scene.left(Leaving(member_id="", instance_id="right"))
    assert asked.code is ErrorCode.unknown_member_id
    if saved:
        scene.group.saved(scene.now)
    else:
        scene.group.not_saved(ErrorCode.unknown_server_error, scene.now)
    assert len(scene.group) == 1


def test_one_whose_save_takes_long_has_a_whole_session_then(scene: Scene) -> None:
    leader, _ = scene.static("left", "right")
    asked = scene.join(instance_id="right")
    for _ in range(3):
        scene.after(SESSION - 0.1)
        scene.beat(leader, "left")
    scene.save()
    scene.after(SESSION - 0.1)
    assert asked.code is ErrorCode.none
    assert len(scene.group) == 2
    scene.after(0.1)
    assert len(scene.group) == 0, "and is expected again"


def patient(scene: Scene) -> list[Asked]:
    """Two static members that may be away for longer than a rebalance takes."""
    asked = [scene.join(instance_id=each, session=200.0) for each in ("left", "right")]
    scene.after(2 * DELAY)
    return asked


def test_who_does_not_join_again_stays_for_its_session(scene: Scene) -> None:
    leader, follower = scene.complete(*(each.outcome for each in patient(scene)))
    again = scene.join(leader.member_id, instance_id="left", session=200.0)
    scene.after(REBALANCE)
    assert {each.instance_id for each in again.outcome.members} == {"left", "right"}
    assert scene.beat(follower, "right") is ErrorCode.illegal_generation
    caught_up = scene.join(follower.member_id, instance_id="right", session=200.0)
    assert caught_up.outcome.generation == 2


def test_another_leads_where_the_leader_stays_away(scene: Scene) -> None:
    _, follower = scene.complete(*(each.outcome for each in patient(scene)))
    again = scene.join(follower.member_id, instance_id="right", session=200.0, protocols=OTHER)
    scene.after(REBALANCE)
    assert again.outcome.leader == follower.member_id
    assert len(again.outcome.members) == 2


def test_where_nobody_joins_again_the_generation_waits(scene: Scene) -> None:
    asked = [scene.join(instance_id=each, session=200.0) for each in ("left", "right")]
    asked.append(scene.joins(session=200.0))
    scene.after(2 * DELAY)
    leader, _, dynamic = scene.complete(*(each.outcome for each in asked))
    scene.leave(dynamic.member_id)
    scene.after(2 * REBALANCE)
    assert (scene.group.state, scene.group.generation) == (State.PREPARING, 1)
    again = scene.join(leader.member_id, instance_id="left", session=200.0)
    scene.after(REBALANCE)
    assert again.outcome.generation == 2


def test_an_administrator_removes_by_instance_id(scene: Scene) -> None:
    scene.static("left", "right")
    left = scene.left(
        Leaving(member_id="", instance_id="right", reason="moved"),
        Leaving(member_id="", instance_id="middle"),
    )
    assert left.codes == (ErrorCode.none, ErrorCode.unknown_member_id)
    assert len(scene.group) == 1
    scene.after(REBALANCE + SESSION)
    assert scene.group.state is State.EMPTY


def test_it_comes_back_to_another_coordinator(scene: Scene) -> None:
    scene.static("left", "right")
    scene.join(instance_id="right")
    scene.taken_over(scene.save())
    back = scene.join(instance_id="right")
    scene.save()
    assert (back.outcome.code, back.outcome.generation) == (ErrorCode.none, 1)


def test_one_that_is_gone_while_it_is_saved_is_replaced_all_the_same(scene: Scene) -> None:
    _, follower = scene.static("left", "right")
    asked = scene.join(instance_id="right")
    assert scene.group.take_save() is not None
    scene.group.gone(asked.join, scene.now)
    scene.group.saved(scene.now)
    assert asked.waits
    assert scene.beat(follower, "right") is ErrorCode.fenced_instance_id
    assert scene.beat(replace(follower, member_id="right-3"), "right") is ErrorCode.none
