"""What members of the paper's kind write into ZooKeeper, with connections that break at it."""

import threading
from uuid import uuid4

import pytest
from msgspec.structs import replace

from cluster.errors import Fenced, MapMissing, Unavailable
from cluster.groups import members as group_members
from cluster.groups.members import claim, commit, join, leave, open_topic, owned, release
from cluster.groups.offsets import read_offsets
from cluster.layout import nodes, paths
from cluster.layout.nodes import GroupNode, OwnerNode, TopicNode
from cluster.session.operations import Create, Set
from cluster.session.session import Session
from cluster.values import (
    NOBODY,
    CommittedOffset,
    GroupKind,
    Membership,
    OwnedTopic,
    TopicPartition,
)
from tests.cluster.conftest import Connect, expire
from tests.cluster.proxy import Proxy

GROUP = "a group/of readers"
TOPIC = "views"
TOPIC_ID = uuid4()


def make_topic(session: Session, partitions: int = 4) -> None:
    node = TopicNode(topic_id=TOPIC_ID, replicas=((1,),) * partitions)
    session.write([Create(paths.topic(TOPIC), nodes.encode(node))])


def opened(session: Session, membership: Membership, partitions: int = 4) -> OwnedTopic:
    return open_topic(session, membership, TOPIC, TOPIC_ID, partitions)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, committed_ms=1_700_000_000_000)


def offsets(*each: int) -> dict[TopicPartition, CommittedOffset]:
    """Of partitions 0, 1 and so on."""
    return {TopicPartition(TOPIC, number): at(offset) for number, offset in enumerate(each)}


def owner(session: Session, partition: int) -> str | None:
    path = paths.partition_owner(GROUP, TOPIC, partition)
    node = session.read(path)
    return None if node is None else nodes.decode(path, node.data, OwnerNode).member


def test_a_group_is_made_by_its_first_member(session: Session) -> None:
    assert join(session, GROUP, "one", ["b", "a"]).session_id == session.session_id
    node = session.read(paths.group(GROUP))
    assert node is not None
    group = nodes.decode("", node.data, GroupNode)
    assert (group.kind, group.coordinator) == (GroupKind.PENSTOCK, NOBODY)
    join(session, GROUP, "two/ü", ["a"])
    assert group_members.members(session, GROUP, {}) == {"one": ("a", "b"), "two/ü": ("a",)}


def test_many_make_it_at_once(connect: Connect) -> None:
    sessions = [connect() for _ in range(6)]
    failures: list[Exception] = []

    def enter(number: int) -> None:
        try:
            join(sessions[number], GROUP, f"m{number}", ["t"])
        except Exception as failure:  # noqa: BLE001  # the assertion shows it
            failures.append(failure)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(group_members.members(sessions[0], GROUP, {})) == {f"m{n}" for n in range(6)}


def test_where_no_broker_was(connect: Connect) -> None:
    with pytest.raises(MapMissing, match="/consumers"):
        join(connect(makes_map=False), GROUP, "one", ["t"])


def test_a_partition_has_one_owner(session: Session, connect: Connect) -> None:
    other = connect()
    one, two = join(session, GROUP, "one", [TOPIC]), join(other, GROUP, "two", [TOPIC])
    topic = opened(session, one)
    assert claim(session, one, topic, [0, 1]) == {0, 1}
    assert claim(other, two, topic, [1, 2]) == {2}
    assert claim(session, one, topic, [0, 1]) == {0, 1}, "it knows its own"
    release(other, two, [TopicPartition(TOPIC, 1)])
    assert owner(session, 1) == "one", "what is not one's own is not given up"
    release(session, one, [TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 3)])
    assert claim(other, two, topic, [1, 2]) == {1, 2}
    leave(other, two, [TopicPartition(TOPIC, 1)])
    leave(other, two, [])
    assert set(group_members.members(session, GROUP, {})) == {"one"}


def test_only_an_owner_commits(session: Session, connect: Connect) -> None:
    other = connect()
    one, two = join(session, GROUP, "one", [TOPIC]), join(other, GROUP, "two", [TOPIC])
    topic = opened(session, one)
    claim(session, one, topic, [0, 1])
    commit(session, one, {TOPIC: topic}, offsets(5, 6))
    commit(session, one, {TOPIC: topic}, offsets(7, 8))
    assert read_offsets(session, GROUP) == offsets(7, 8)
    release(session, one, [TopicPartition(TOPIC, 1)])
    with pytest.raises(Fenced):
        commit(session, one, {TOPIC: topic}, offsets(9, 9))
    assert read_offsets(session, GROUP) == offsets(7, 8), "all or nothing"
    commit(session, one, {TOPIC: topic}, offsets(9))
    expire(session)
    claim(other, two, topic, [0])
    for membership in (one, replace(one, session_id=session.session_id or 0)):
        with pytest.raises(Fenced):  # though the owner's node is there
            commit(session, membership, {TOPIC: topic}, offsets(10))
        with pytest.raises(Fenced):
            claim(session, membership, topic, [3])
    assert read_offsets(session, GROUP) == offsets(9, 8)
    assert owned(session, GROUP, TOPIC) == {0}


def test_offsets_that_another_hand_has_removed(session: Session) -> None:
    one = join(session, GROUP, "one", [TOPIC])
    topic = opened(session, one)
    claim(session, one, topic, [0, 1])
    commit(session, one, {TOPIC: topic}, offsets(1, 1))
    session.client.delete(paths.topic_offsets(GROUP, TOPIC), recursive=True)
    commit(session, one, {TOPIC: topic}, offsets(2, 2))
    assert read_offsets(session, GROUP) == offsets(2, 2)


def test_another_topic_of_the_name(session: Session) -> None:
    one = join(session, GROUP, "one", [TOPIC])
    before = opened(session, one)
    assert before.partitions == 4
    claim(session, one, before, [0, 1])
    commit(session, one, {TOPIC: before}, offsets(5, 6))
    after = open_topic(session, one, TOPIC, uuid4(), 4)
    assert after.partitions == 0, "nobody has chosen where to begin in it"
    assert read_offsets(session, GROUP) == {}
    with pytest.raises(Fenced):
        commit(session, one, {TOPIC: before}, offsets(7, 8))
    assert claim(session, one, before, [2]) == set()
    commit(session, one, {TOPIC: after}, offsets(1, 1))


def test_more_than_a_transaction_takes(session: Session) -> None:
    one = join(session, GROUP, "one", [TOPIC])
    topic = opened(session, one, 1_200)
    assert claim(session, one, topic, range(1_200)) == set(range(1_200))
    commit(session, one, {TOPIC: topic}, offsets(*range(1_200)))
    assert read_offsets(session, GROUP) == offsets(*range(1_200))
    release(session, one, offsets(*range(1_200)))
    assert owned(session, GROUP, TOPIC) == set()


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("what", ["join", "claim", "commit", "release", "leave"])
def test_an_answer_is_lost(
    session: Session, proxied: Session, proxy: Proxy, what: str, after: int
) -> None:
    """The connection breaks when it was done, or just read, and before it is known."""

    def next_is(step: str) -> None:
        if what == step:
            proxy.swallow_the_next_answer(after=after)

    next_is("join")
    one = join(proxied, GROUP, "one", [TOPIC])
    topic = opened(proxied, one)
    next_is("claim")
    assert claim(proxied, one, topic, [0, 1]) == {0, 1}
    next_is("commit")
    commit(proxied, one, {TOPIC: topic}, offsets(3, 4))
    assert read_offsets(session, GROUP) == offsets(3, 4)
    next_is("release")
    release(proxied, one, [TopicPartition(TOPIC, 0)])
    assert (owner(session, 0), owner(session, 1)) == (None, "one")
    next_is("leave")
    leave(proxied, one, [TopicPartition(TOPIC, 1)])
    assert group_members.members(session, GROUP, {}) == {}
    assert owned(session, GROUP, TOPIC) == set()


def test_what_zookeeper_grants(connect: Connect) -> None:
    """The tests' server grants a second at least, and a minute at most."""
    granted = {asked: connect(timeout_s=asked).granted_timeout_s for asked in (0.5, 4.0, 90.0)}
    assert granted == {0.5: 1.0, 4.0: 4.0, 90.0: 60.0}


def test_a_topic_and_its_news(session: Session) -> None:
    changed = threading.Event()
    assert group_members.topic_of(session, TOPIC, lambda _: changed.set()) is None
    make_topic(session)
    assert changed.wait(60)
    changed.clear()
    assert group_members.topic_of(session, TOPIC, lambda _: changed.set()) == (TOPIC_ID, 4)
    grown = TopicNode(topic_id=TOPIC_ID, replicas=((1,),) * 5)
    session.write([Set(paths.topic(TOPIC), nodes.encode(grown))])
    assert changed.wait(60)
    assert group_members.topic_of(session, TOPIC) == (TOPIC_ID, 5)


def test_nobody_answers(proxied: Session, proxy: Proxy) -> None:
    one = join(proxied, GROUP, "one", [TOPIC])
    topic = opened(proxied, one)
    proxy.refuse()
    with pytest.raises(Unavailable):
        claim(proxied, one, topic, [0])
    with pytest.raises(Unavailable):
        commit(proxied, one, {TOPIC: topic}, offsets(1))
