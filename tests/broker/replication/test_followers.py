"""What a leader knows of the other replicas: what is committed, who lags, who may join."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from broker.replication.followers import Followers
from cluster.values import PartitionInfo

LEADER = 1


def info(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), version: int = 0) -> PartitionInfo:
    return PartitionInfo(
        replicas=replicas, leader=LEADER, leader_epoch=4, isr=isr, controller_epoch=1,
        version=version,
    )  # fmt: skip


def test_who_is_not_in_sync_holds_up_nobody() -> None:
    followers = Followers(info(1, 2), 100, 0.0)
    followers.fetched(2, 120, 120, 1.0)
    assert followers.committed == 120
    assert Followers(info(1), 100, 0.0).committed == inf


def test_while_a_change_is_under_way_the_old_and_the_new_count() -> None:
    followers = Followers(info(1, 2), 0, 0.0)
    followers.fetched(2, 50, 50, 1.0)
    followers.fetched(3, 40, 50, 1.0)
    followers.propose(frozenset({1, 2, 3}))
    assert followers.committed == 40
    followers.follow(info(1, 2, 3, version=1))
    assert (followers.committed, followers.proposed) == (40, None)
    followers.propose(frozenset({1, 2}))
    assert followers.committed == 40
    followers.follow(info(1, 2, version=2))
    assert followers.committed == 50


def test_who_stands_still_lags_and_who_has_nothing_to_ask_for_does_not() -> None:
    followers = Followers(info(1, 2, 3), 0, 0.0)
    followers.fetched(2, 10, 10, 1.0)
    followers.fetched(3, 10, 10, 1.0)
    for now in range(2, 40, 2):
        assert followers.lagging(10, float(now), 10.0) == frozenset()
    followers.fetched(2, 20, 20, 39.0)
    assert followers.lagging(20, 40.0, 10.0) == frozenset()
    assert followers.lagging(20, 49.0, 10.0) == {3}


def test_who_follows_a_log_that_always_grows_has_caught_up_with_what_there_was() -> None:
    followers = Followers(info(1, 2), 0, 0.0)
    end = 0
    for now in range(1, 60):
        followers.fetched(2, end, end + 5, float(now))
        end += 5
        assert followers.lagging(end, float(now), 3.0) == frozenset()


def test_who_falls_behind_a_log_that_grows_lags() -> None:
    followers = Followers(info(1, 2), 0, 0.0)
    for now in range(1, 6):
        followers.fetched(2, now, 100 * now, float(now))
    assert followers.lagging(500, 5.0, 3.0) == {2}


def test_one_joins_who_has_what_is_committed_and_what_the_leader_began_with() -> None:
    followers = Followers(info(1, 2), 100, 0.0)
    followers.fetched(3, 90, 120, 1.0)
    assert not followers.may_join(3, 80)  # the leader began with 100
    followers.fetched(3, 100, 120, 1.0)
    assert not followers.may_join(3, 110)
    assert followers.may_join(3, 100)
    assert not followers.may_join(2, 0)  # it is
    followers.propose(frozenset({1, 2, 3}))
    assert not followers.may_join(3, 100)  # it will be


def test_replicas_come_and_go() -> None:
    followers = Followers(info(1, 2), 0, 0.0)
    followers.follow(info(1, 2, replicas=(1, 2, 4)))
    assert followers.knows(4)
    assert not followers.knows(3)
    assert followers.ordered({4, 1}) == (1, 4)


offsets = st.integers(0, 50)


@given(st.lists(st.tuples(st.sampled_from([2, 3]), offsets), max_size=30))
def test_committed_is_the_least_of_those_in_sync(fetches: list[tuple[int, int]]) -> None:
    followers = Followers(info(1, 2, 3), 0, 0.0)
    known = {2: -1, 3: -1}
    for number, (who, offset) in enumerate(fetches):
        followers.fetched(who, offset, 50, float(number))
        known[who] = offset
        assert followers.committed == min(known.values())
