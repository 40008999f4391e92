"""Who is there and who is not: beats, time-outs, leaving, lost connections; commits; describing."""

from msgspec.structs import replace

from broker.groups.membership.values import Leaving, MemberDescription, Protocol, State
from tests.broker.groups.membership.scene import DELAY, REBALANCE, SESSION, Scene
from wire.errors import ErrorCode

FIVE_MINUTES = 300.0
UNKNOWN = ErrorCode.unknown_member_id

# Beats


def test_who_beats_stays(scene: Scene) -> None:
    """Also from when it has joined: clients begin then. And a commit is a beat."""
    asked = [scene.joins(), scene.joins()]
    scene.after(2 * DELAY)
    members = scene.generation(*asked)
    for _ in range(4):
        scene.after(SESSION - 0.1)
        assert {scene.beat(each) for each in members} == {ErrorCode.none}
    scene.complete(*members)
    for number in range(10):
        scene.after(SESSION - 0.1)
        tell = scene.beat if number % 2 else scene.commit
        assert {tell(each) for each in members} == {ErrorCode.none}


def test_who_does_not_is_removed_after_its_session(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    scene.after(SESSION - 0.1)
    scene.beat(leader)
    scene.after(0.1)
    assert scene.group.state is State.PREPARING
    assert scene.group.reason == f"the session of member {follower.member_id} expired"
    assert scene.beat(leader) is ErrorCode.rebalance_in_progress
    assert scene.beat(follower) is UNKNOWN
    assert scene.join(leader.member_id).outcome.generation == 2


def test_beats_are_of_members_of_this_generation(scene: Scene) -> None:
    leader, _ = scene.stable(2)
    scene.after(SESSION - 0.1)
    for generation in (0, 2):
        assert scene.beat(replace(leader, generation=generation)) is ErrorCode.illegal_generation
    assert scene.beat(replace(leader, member_id="")) is UNKNOWN
    scene.after(0.1)
    assert len(scene.group) == 0, "a refused beat is none"


def test_who_has_joined_and_vanishes_is_missed_after_its_session(scene: Scene) -> None:
    asked = scene.joins()
    scene.after(DELAY)
    assert asked.code is ErrorCode.none
    scene.after(SESSION - 0.1)
    assert len(scene.group) == 1
    scene.after(0.1)
    assert len(scene.group) == 0


def test_a_session_that_was_made_shorter_ends_sooner(scene: Scene) -> None:
    leader, _ = scene.stable(2, session=1000.0)
    again = scene.join(leader.member_id, session=SESSION)
    scene.after(REBALANCE)
    scene.sync(again.outcome, {})
    scene.save()
    scene.after(SESSION)
    assert len(scene.group) == 0


# Waiting


def test_who_waits_for_a_generation_need_not_beat(scene: Scene) -> None:
    leader, follower = scene.stable(2, rebalance=100.0)
    waiting = scene.join(leader.member_id, rebalance=100.0)
    for _ in range(9):
        scene.after(SESSION - 0.5)
        scene.beat(follower)
    assert waiting.waits
    scene.join(follower.member_id)
    assert waiting.code is ErrorCode.none
    scene.after(SESSION - 0.1)
    assert len(scene.group) == 2, "a whole session afterwards"


def test_who_waits_for_its_assignment_need_not_beat(scene: Scene) -> None:
    asked = [scene.joins(), scene.joins()]
    scene.after(2 * DELAY)
    leader, follower = scene.generation(*asked)
    waiting = scene.sync(follower)
    for _ in range(4):
        scene.after(SESSION - 0.1)
        scene.beat(leader)
    scene.sync(leader, {})
    scene.after(3 * SESSION)
    assert waiting.waits
    scene.save()
    assert waiting.code is ErrorCode.none
    scene.after(SESSION - 0.1)
    assert len(scene.group) == 2
    scene.after(0.1)
    assert len(scene.group) == 0, "and expected again then"


def test_who_joins_for_the_first_time_waits_five_minutes_at_most(scene: Scene) -> None:
    (static,) = scene.static("left")
    waiting = scene.joins(rebalance=1000.0)
    for _ in range(59):
        scene.after(FIVE_MINUTES / 60)
        assert scene.beat(static, "left") is ErrorCode.rebalance_in_progress
    assert waiting.waits
    scene.after(FIVE_MINUTES / 60)
    assert (waiting.code, waiting.outcome.member_id) == (UNKNOWN, "")
    assert len(scene.group) == 1


# Leaving


def test_who_leaves_is_gone_at_once(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    left = scene.left(Leaving(member_id=follower.member_id, reason="closed"))
    assert left.codes == (ErrorCode.none,)
    assert scene.group.reason == f"member {follower.member_id} leaves: closed"
    assert scene.group.state is State.PREPARING
    assert scene.beat(follower) is UNKNOWN
    assert scene.join(leader.member_id).outcome.generation == 2


def test_several_leave_together_until_the_group_is_empty(scene: Scene) -> None:
    first, second, third = scene.stable(3)
    codes = scene.leave(first.member_id, "nobody", second.member_id, second.member_id, "")
    assert codes == (ErrorCode.none, UNKNOWN, ErrorCode.none, UNKNOWN, UNKNOWN)
    assert scene.group.leader == third.member_id
    scene.leave(third.member_id)
    assert (scene.group.state, scene.group.next_time()) == (State.EMPTY, None)


def test_who_leaves_while_it_waits_is_answered(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    waiting = scene.join(leader.member_id)
    scene.leave(leader.member_id)
    assert waiting.code is UNKNOWN
    again = scene.join(follower.member_id)
    syncing = scene.sync(again.outcome, {})
    scene.leave(follower.member_id)
    assert syncing.code is UNKNOWN
    assert scene.group.state is State.EMPTY


def test_those_that_have_joined_go_on_when_the_last_one_missing_leaves(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    waiting = scene.join(leader.member_id)
    scene.leave(follower.member_id)
    assert waiting.outcome.generation == 2


# Connections that are lost


def test_who_is_gone_is_not_called_and_may_come_back(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    waiting = scene.join(leader.member_id)
    for seconds in (8, 5):
        scene.after(seconds)
        scene.beat(follower)
    scene.group.gone(waiting.join, scene.now)
    scene.after(SESSION - 0.1)
    assert scene.join(follower.member_id).waits
    assert scene.join(leader.member_id).outcome.generation == 2
    assert waiting.waits


def test_who_does_not_come_back_is_missed(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    waiting = scene.join(leader.member_id)
    scene.group.gone(waiting.join, scene.now)
    other = scene.join(follower.member_id)
    scene.after(SESSION)
    assert [each.member_id for each in other.outcome.members] == [follower.member_id]


def test_a_new_member_that_is_gone_may_come_back_and_wait(scene: Scene) -> None:
    leader, _ = scene.stable(2, session=500.0, rebalance=400.0)
    waiting = scene.joins("new")
    scene.group.gone(waiting.join, scene.now)
    again = scene.join("new-3")
    scene.after(5 * SESSION)
    assert again.waits, "it waits, and need not beat"
    scene.leave(leader.member_id)


def test_who_does_not_know_its_id_cannot_come_back(scene: Scene) -> None:
    first, second = scene.join(version=3), scene.join(version=3)
    scene.group.gone(second.join, scene.now)
    assert len(scene.group) == 1
    scene.after(2 * DELAY)
    assert len(first.outcome.members) == 1
    syncing = scene.sync(first.outcome, {})
    scene.group.gone(syncing.sync, scene.now)
    assert len(scene.group) == 1, "now it knows"
    scene.save()
    assert scene.group.state is State.STABLE
    assert syncing.waits
    scene.group.gone(second.join, scene.now)
    scene.after(SESSION)
    assert len(scene.group) == 0


# Commits


def test_commits_of_others_are_refused(scene: Scene) -> None:
    leader, _ = scene.stable(2)
    for generation in (0, -1):
        assert scene.commit(replace(leader, generation=generation)) is ErrorCode.illegal_generation
    for member_id in ("x", ""):
        assert scene.commit(replace(leader, member_id=member_id)) is UNKNOWN
    for instance_id in (None, "left"):
        assert scene.group.check_commit("", instance_id, -1, scene.now) is UNKNOWN


def test_before_a_rebalance_members_may_commit_what_they_have_read(scene: Scene) -> None:
    leader, follower = scene.stable(2)
    scene.join(leader.member_id)
    assert scene.commit(follower) is ErrorCode.none
    again = scene.join(follower.member_id)
    assert scene.commit(follower) is ErrorCode.illegal_generation
    assert scene.commit(again.outcome) is ErrorCode.rebalance_in_progress


def test_an_empty_group_lets_anybody_commit_without_a_generation(scene: Scene) -> None:
    assert scene.group.check_commit("", None, -1, scene.now) is ErrorCode.none
    assert scene.group.check_commit("", None, 0, scene.now) is UNKNOWN
    (only,) = scene.stable(1)
    assert scene.group.check_commit("", None, -1, scene.now) is UNKNOWN
    scene.leave(only.member_id)
    assert scene.group.check_commit("", None, -1, scene.now) is ErrorCode.none
    assert scene.commit(only) is UNKNOWN


# Describing


def test_a_group_is_described(scene: Scene) -> None:
    new = scene.group.describe()
    assert (new.state, new.protocol_type, scene.group.next_time()) == (State.EMPTY, "", None)
    (only,) = scene.stable(1, client_host="/10.1.1.1")
    found = scene.group.describe()
    assert (found.state, found.protocol_type, found.protocol) == (
        State.STABLE, "consumer", "range",
    )  # fmt: skip
    assert found.members == (
        MemberDescription(
            member_id=only.member_id,
            instance_id=None,
            client_id="c0",
            client_host="/10.1.1.1",
            metadata=b"topics",
            assignment=only.member_id.encode(),
        ),
    )
    # Of one that is not stable, only the members.
    scene.joins("new")
    found = scene.group.describe()
    assert (found.state, found.protocol) == (State.PREPARING, "")
    assert {each.client_id for each in found.members} == {"c0", "new"}
    assert {(each.metadata, each.assignment) for each in found.members} == {(b"", b"")}
    assert only.member_id in {each.member_id for each in found.members}


def test_large_groups_work() -> None:
    """3,000 members join, sync, and beat; that takes a second, and minutes where each beat or each
    join looked at all."""
    scene = Scene()
    joined = scene.stable(3_000, protocols=(Protocol("range", b"t"), Protocol("sticky", b"t")))
    assert len(scene.group) == 3_000
    for _ in range(5):
        scene.after(SESSION / 2)
        assert {scene.beat(each) for each in joined} == {ErrorCode.none}
    scene.leave(joined[0].member_id)
    asked = [scene.join(each.member_id) for each in joined[1:]]
    assert {each.outcome.generation for each in asked} == {2}
