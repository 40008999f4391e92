"""The paper's assignment: complete, disjoint, balanced, the same whoever computes it."""

import random

from hypothesis import given
from hypothesis import strategies as st

from client.group.assignment import assigned
from cluster.values import TopicPartition

TOPICS = ["clicks", "orders", "views"]
some_members = st.dictionaries(
    st.text(min_size=1, max_size=4), st.sets(st.sampled_from(TOPICS)), max_size=12
)
some_partitions = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 40))


def numbers(share: frozenset[TopicPartition]) -> list[int]:
    return sorted(each.partition for each in share)


def test_ranges_as_in_the_paper() -> None:
    members = {"b": ["t"], "a": ["t"], "c": ["t"]}
    shares = [numbers(assigned(each, members, {"t": 10})) for each in "abc"]
    assert shares == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_more_members_than_partitions() -> None:
    members = {str(each): ["t"] for each in range(5)}
    assert [len(assigned(each, members, {"t": 2})) for each in members] == [1, 1, 0, 0, 0]


def test_who_is_not_a_member_has_nothing() -> None:
    assert assigned("x", {"a": ["t"]}, {"t": 3}) == frozenset()
    assert assigned("a", {"a": ["t"]}, {}) == frozenset()


@given(some_members, some_partitions)
def test_every_partition_is_exactly_one_subscribers(
    members: dict[str, set[str]], partitions: dict[str, int]
) -> None:
    shares = {each: assigned(each, members, partitions) for each in members}
    given_out = sorted(each for share in shares.values() for each in share)
    subscribed = {topic for topics in members.values() for topic in topics}
    assert given_out == sorted(
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        if topic in subscribed
        for number in range(count)
    )
    for member, share in shares.items():
        assert {each.topic for each in share} <= members[member]


@given(some_members, some_partitions)
def test_shares_of_a_topic_differ_by_one_at_most(
    members: dict[str, set[str]], partitions: dict[str, int]
) -> None:
    for topic in partitions:
        sizes = [
            sum(each.topic == topic for each in assigned(member, members, partitions))
            for member, topics in members.items()
            if topic in topics
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1
        in_order = [
            size for _, size in sorted(zip(_subscribed(members, topic), sizes, strict=True))
        ]
        assert in_order == sorted(sizes, reverse=True)


def _subscribed(members: dict[str, set[str]], topic: str) -> list[str]:
    return [member for member, topics in members.items() if topic in topics]


@given(some_members, some_partitions, st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_seen_changes_nothing(
    members: dict[str, set[str]], partitions: dict[str, int], chance: random.Random
) -> None:
    shuffled_members = list(members.items())
    shuffled_partitions = list(partitions.items())
    chance.shuffle(shuffled_members)
    chance.shuffle(shuffled_partitions)
    for member in members:
        assert assigned(member, members, partitions) == assigned(
            member, dict(shuffled_members), dict(shuffled_partitions)
        )


@given(st.integers(1, 12), st.integers(0, 60))
def test_a_share_is_one_range(count: int, partitions: int) -> None:
    members = {f"m{each:02}": ["t"] for each in range(count)}
    for member in members:
        share = numbers(assigned(member, members, {"t": partitions}))
        assert share == list(range(share[0], share[0] + len(share))) if share else True
