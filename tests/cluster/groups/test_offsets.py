"""Committed offsets: many in a transaction, refused group by group, found again as they were."""

import random
import threading

import pytest

from cluster.errors import Fenced, InvalidTopicName, NodeUnreadable
from cluster.groups import groups
from cluster.groups.offsets import GATHERED, GroupCommit, OffsetWriter, read_offsets
from cluster.layout import paths
from cluster.session.operations import Create, Delete, Node, Set
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupFence, GroupInfo, GroupKind, TopicPartition
from tests.cluster.conftest import Connect
from tests.cluster.proxy import Proxy

PATIENCE = 30.0  # what is written here is large, the machine may be busy

Offsets = dict[TopicPartition, CommittedOffset]


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect(timeout_s=PATIENCE)


def created(session: Session, name: str = "readers") -> GroupFence:
    return groups.create_group(session, GroupInfo(name=name, kind=GroupKind.KAFKA, coordinator=1))


def offsets(*partitions: int, offset: int = 0, topic: str = "views", metadata: str = "") -> Offsets:
    return {
        TopicPartition(topic, each): CommittedOffset(
            offset=offset + each, metadata=metadata, committed_ms=1_700_000_000_000
        )
        for each in partitions
    }


def nodes_of(session: Session, group: str, wanted: Offsets) -> list[Node]:
    found = session.read_all(
        [f"{paths.topic_offsets(group, topic)}/{each}" for topic, each in wanted]
    )
    return [node for node in found if node is not None]


def versions(session: Session, group: str, wanted: Offsets) -> set[int]:
    """How often the nodes of these have been set."""
    return {node.version for node in nodes_of(session, group, wanted)}


@pytest.mark.parametrize("name", ["readers", "", "..", "ä/b"])
def test_what_was_committed_is_read(session: Session, name: str) -> None:
    writer, fence = OffsetWriter(session), created(session, name)
    assert read_offsets(session, name) == {}
    first = offsets(0, 1, 5) | offsets(3, topic="clicks", metadata="by ü")
    assert writer.commit([GroupCommit(fence, first)]) == set()
    assert read_offsets(session, name) == first
    assert list(read_offsets(session, name)) == sorted(first)
    second = offsets(1, 2, offset=100)
    assert writer.commit([GroupCommit(fence, second)]) == set()
    assert read_offsets(session, name) == first | second
    some = [TopicPartition("views", 1), TopicPartition("views", 9), TopicPartition("other", 0)]
    assert read_offsets(session, name, some) == {some[0]: second[some[0]]}
    assert read_offsets(session, name, []) == {}
    assert read_offsets(session, "nobody") == {}


def test_nodes_are_made_once_and_then_set(session: Session, connect: Connect) -> None:
    writer, fence = OffsetWriter(session), created(session)
    for offset in range(3):
        writer.commit([GroupCommit(fence, offsets(0, 1, offset=offset))])
    assert versions(session, "readers", offsets(0, 1)) == {2}
    other = OffsetWriter(connect(timeout_s=PATIENCE))  # one that knows of none is told by ZooKeeper
    other.commit([GroupCommit(fence, offsets(0, 1, 2, offset=9))])
    assert read_offsets(session, "readers") == offsets(0, 1, 2, offset=9)


def test_commits_of_many_groups_share_a_transaction(session: Session) -> None:
    writer = OffsetWriter(session)
    fences = [created(session, f"g{number}") for number in range(20)]
    commits = [GroupCommit(fence, offsets(*range(10))) for fence in fences]
    assert writer.commit(commits) == set()
    assert writer.commit(commits) == set()
    changed = {
        node.changed
        for fence in fences
        for node in nodes_of(session, fence.group, offsets(*range(10)))
    }
    assert len(changed) == 1
    for fence in fences:
        assert read_offsets(session, fence.group) == offsets(*range(10))


def test_of_two_commits_of_a_partition_the_later_one_stands(session: Session) -> None:
    fence = created(session)
    commits = [GroupCommit(fence, offsets(0, 1, offset=offset)) for offset in range(4)]
    assert OffsetWriter(session).commit(commits) == set()
    assert read_offsets(session, "readers") == offsets(0, 1, offset=3)


def test_only_the_commits_of_who_was_fenced_are_refused(session: Session) -> None:
    writer = OffsetWriter(session)
    fences = [created(session, f"g{number}") for number in range(6)]
    commits = [GroupCommit(fence, offsets(0, 1)) for fence in fences]
    writer.commit(commits[::2])
    for fence in fences[:2]:
        assert groups.take_over(session, fence.group, 2, GroupKind.KAFKA) is not None
    groups.delete_group(session, fences[2])
    later = [GroupCommit(fence, offsets(0, 1, offset=7)) for fence in fences]
    assert writer.commit(later) == set(fences[:3])
    assert writer.commit(later) == set(fences[:3])
    assert writer.commit([]) == set()
    stand = [read_offsets(session, fence.group) for fence in fences]
    assert stand == [offsets(0, 1), {}, {}, *[offsets(0, 1, offset=7)] * 3]


def test_a_commit_is_whole_as_long_as_it_fits(session: Session) -> None:
    """More partitions than are gathered of several commits; the group is named at full length."""
    writer, fence = OffsetWriter(session), created(session)
    many = offsets(*range(GATHERED + 500))
    writer.commit([GroupCommit(fence, many)])
    writer.commit([GroupCommit(fence, many)])
    assert len({node.changed for node in nodes_of(session, "readers", many)}) == 1
    assert read_offsets(session, "readers") == many


def test_what_does_not_fit_is_written_in_several(session: Session) -> None:
    """As long as names and metadata may be: ten megabytes of them."""
    writer, fence = OffsetWriter(session), created(session, "ü" * 249)
    topic = "t" * 249
    large = offsets(*range(500), topic=topic, metadata="m" * 4_096)
    small = offsets(0, topic="small")
    assert writer.commit([GroupCommit(fence, large), GroupCommit(fence, small)]) == set()
    assert read_offsets(session, fence.group) == large | small
    assert writer.commit([GroupCommit(fence, large)]) == set()
    assert versions(session, fence.group, large) == {1}


def test_of_a_large_commit_that_is_refused_nothing_more_is_written(session: Session) -> None:
    writer, fence = OffsetWriter(session), created(session)
    assert groups.take_over(session, "readers", 2, GroupKind.KAFKA) is not None
    large = offsets(*range(1_000), metadata="m" * 4_096)
    assert writer.commit([GroupCommit(fence, large)]) == {fence}
    assert read_offsets(session, "readers") == {}


def test_nodes_that_come_and_go_by_another_hand(session: Session) -> None:
    writer, fence = OffsetWriter(session), created(session)
    writer.commit([GroupCommit(fence, offsets(0, 1))])
    parent = paths.topic_offsets("readers", "views")
    session.write([Delete(f"{parent}/0"), Create(f"{parent}/2", b"{}")])
    assert writer.commit([GroupCommit(fence, offsets(0, 1, 2, offset=1))]) == set()
    assert read_offsets(session, "readers") == offsets(0, 1, 2, offset=1)
    session.write([*(Delete(f"{parent}/{each}") for each in range(3))])
    assert writer.commit([GroupCommit(fence, offsets(0, offset=2))]) == set()
    session.write([Delete(f"{parent}/0"), Delete(parent)])
    assert writer.commit([GroupCommit(fence, offsets(0, offset=3))]) == set()
    assert read_offsets(session, "readers") == offsets(0, offset=3)


def test_offsets_are_deleted(session: Session) -> None:
    writer, fence = OffsetWriter(session), created(session)
    both = offsets(0, 1, 2) | offsets(0, topic="clicks")
    writer.commit([GroupCommit(fence, both)])
    writer.delete(fence, [TopicPartition("views", 1), TopicPartition("other", 1)])
    assert read_offsets(session, "readers") == offsets(0, 2) | offsets(0, topic="clicks")
    writer.delete(fence, list(both))
    assert session.children(paths.group_offsets("readers")) == ()
    writer.delete(fence, [])
    assert writer.commit([GroupCommit(fence, both)]) == set()
    assert read_offsets(session, "readers") == both


def test_what_is_no_offset(session: Session) -> None:
    writer, fence = OffsetWriter(session), created(session)
    writer.commit([GroupCommit(fence, offsets(0))])
    parent = paths.topic_offsets("readers", "views")
    strange = [f"{parent}/01", f"{parent}/x", f"{paths.group_offsets('readers')}/a b"]
    session.write([Create(path) for path in strange])
    assert read_offsets(session, "readers") == offsets(0)
    session.write([Set(f"{parent}/0", b"{")])
    with pytest.raises(NodeUnreadable, match="/consumers/readers/offsets/views/0"):
        read_offsets(session, "readers")
    for topic in ("../../..", ""):
        with pytest.raises(InvalidTopicName):
            writer.commit([GroupCommit(fence, offsets(0, topic=topic))])


def test_a_lost_answer_is_no_lost_commit(proxied: Session, proxy: Proxy, session: Session) -> None:
    """The last node alone would not tell: it is to stand as it did before."""
    writer, fence = OffsetWriter(proxied), created(proxied)
    last = offsets(9)
    for offset in range(4):
        wanted = offsets(0, offset=offset) | last
        if offset:
            proxy.swallow_the_next_answer()
        assert writer.commit([GroupCommit(fence, wanted)]) == set()
        if offset:
            proxy.wait_until_swallowed()
        assert read_offsets(session, "readers") == wanted


def test_a_commit_that_was_lost_and_then_fenced(
    proxied: Session, proxy: Proxy, session: Session
) -> None:
    """What was on its way when the connection broke is tried again, and refused."""
    writer, fence = OffsetWriter(proxied), created(proxied)
    writer.commit([GroupCommit(fence, offsets(0))])
    proxy.refuse()
    assert groups.take_over(session, "readers", 2, GroupKind.KAFKA) is not None
    refused: list[set[GroupFence]] = []

    def commit() -> None:
        refused.append(writer.commit([GroupCommit(fence, offsets(0, offset=9))]))

    thread = threading.Thread(target=commit)
    thread.start()
    proxy.allow()
    thread.join()
    assert refused == [{fence}]
    assert read_offsets(session, "readers") == offsets(0)


def test_many_threads_commit_at_once_while_groups_change_hands(connect: Connect) -> None:
    """Each group is one thread's. What was not refused stands; what was refused does not."""
    session, other = connect(timeout_s=PATIENCE), connect(timeout_s=PATIENCE)
    writer = OffsetWriter(session)
    done: dict[str, Offsets] = {}
    lost: list[str] = []

    def run(number: int) -> None:
        name = f"g{number}"
        fence = created(session, name)
        choose = random.Random(number)
        done[name] = {}
        for turn in range(30):
            if number % 3 == 0 and turn == 20:
                assert groups.take_over(other, name, 2, GroupKind.KAFKA) is not None
            wanted = offsets(*choose.sample(range(50), 5), offset=turn * 100)
            if writer.commit([GroupCommit(fence, wanted)]):
                lost.append(name)
                return
            done[name] |= wanted

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(lost) == ["g0", "g3"]
    assert len(done) == 6
    for name, wanted in done.items():
        assert read_offsets(session, name) == wanted


def test_deleting_by_who_was_fenced(session: Session) -> None:
    writer, fence = OffsetWriter(session), created(session)
    writer.commit([GroupCommit(fence, offsets(0))])
    assert groups.take_over(session, "readers", 2, GroupKind.KAFKA) is not None
    with pytest.raises(Fenced):
        writer.delete(fence, list(offsets(0)))
    assert read_offsets(session, "readers") == offsets(0)
