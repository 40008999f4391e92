"""Groups in ZooKeeper: of one kind, of one coordinator, saved whole, gone without a rest."""

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.errors import (
    Cause,
    Conflict,
    Fenced,
    GroupTooLarge,
    InvalidGroupName,
    MapMissing,
    NodeUnreadable,
    OtherGroupKind,
)
from cluster.groups import groups
from cluster.groups.groups import StoredGroup
from cluster.groups.offsets import GroupCommit, OffsetWriter
from cluster.layout import nodes, paths
from cluster.layout.names import LONGEST_GROUP
from cluster.session.operations import Create, Delete, Set
from cluster.session.session import Session
from cluster.values import (
    CommittedOffset,
    GroupFence,
    GroupInfo,
    GroupKind,
    GroupMember,
    TopicPartition,
)
from tests.cluster.conftest import Connect
from tests.cluster.proxy import Proxy

PATIENCE = 30.0  # what is written here is large, the machine may be busy
NAMES = ["readers", "", ".", "..", "a/b", "ä ö", "%", "%2E", "🚂" * LONGEST_GROUP]


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect(timeout_s=PATIENCE)


def a_group(name: str = "readers", **changes: object) -> GroupInfo:
    values: dict[str, object] = {"name": name, "kind": GroupKind.KAFKA, "coordinator": 1}
    return GroupInfo(**values | changes)  # type: ignore[arg-type]


def a_member(number: int = 0, **changes: object) -> GroupMember:
    values: dict[str, object] = {
        "member_id": f"consumer-{number}",
        "client_id": "app",
        "host": "/127.0.0.1",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "metadata": b"\0\1 topics",
        "assignment": bytes([number % 256, 255]),
    }
    return GroupMember(**values | changes)  # type: ignore[arg-type]


def taken_over(session: Session, name: str = "readers", by: int = 2) -> GroupFence:
    taken = groups.take_over(session, name, by, GroupKind.KAFKA)
    assert taken is not None
    return taken[0]


# Names


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("console-consumer-1", "console-consumer-1"),
        ("", "%"),
        ("%", "%25"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("../brokers", "..%2Fbrokers"),
        ("a b\0", "a%20b%00"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ],
)
def test_a_group_is_one_segment(name: str, segment: str) -> None:
    assert paths.group(name) == f"/consumers/{segment}"
    assert paths.group_of(segment) == name


@given(st.text(max_size=LONGEST_GROUP))
def test_any_name_comes_back(name: str) -> None:
    segment = paths.group(name).removeprefix("/consumers/")
    assert segment.isascii()
    assert segment.isprintable()
    assert "/" not in segment
    assert segment not in {"", ".", ".."}
    assert paths.group_of(segment) == name


@given(st.text(max_size=50))
def test_a_segment_that_is_no_groups(segment: str) -> None:
    name = paths.group_of(segment)
    assert name is None or paths.group(name) == f"/consumers/{segment}"


@pytest.mark.parametrize(
    ("name", "said"), [("x" * 250, "250 characters"), ("a\ud800", "not valid Unicode")]
)
def test_no_group_is_called_that(name: str, said: str) -> None:
    with pytest.raises(InvalidGroupName, match=said) as error:
        paths.group(name)
    assert len(str(error.value)) < 250


def test_a_segment_that_would_be_too_long_a_name() -> None:
    assert paths.group_of("x" * LONGEST_GROUP) == "x" * LONGEST_GROUP
    assert paths.group_of("x" * (LONGEST_GROUP + 1)) is None


# What stands in the nodes


def test_the_format_is_fixed() -> None:
    """Whoever changes these bytes changes what other releases read."""
    group = a_group(generation=3, protocol_type="consumer", protocol="range", leader="consumer-0")
    assert nodes.encode(nodes.group_node(group)) == (
        b'{"version":1,"kind":"kafka","coordinator":1,"generation":3,"protocol_type":"consumer",'
        b'"protocol":"range","leader":"consumer-0","empty_since_ms":null}'
    )
    assert nodes.encode_offset(CommittedOffset(offset=7, committed_ms=5)) == (
        b'{"version":1,"offset":7,"committed_ms":5}'
    )
    whole = CommittedOffset(offset=7, leader_epoch=2, metadata="m", committed_ms=5)
    assert nodes.encode_offset(whole) == (
        b'{"version":1,"offset":7,"leader_epoch":2,"metadata":"m","committed_ms":5}'
    )


@given(
    st.builds(
        CommittedOffset,
        offset=st.integers(0, 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.text(max_size=50),
        committed_ms=st.integers(0, 2**53),
    )
)
def test_offsets_come_back_as_they_were(offset: CommittedOffset) -> None:
    assert nodes.offset_of("/x", nodes.encode_offset(offset)) == offset


@given(st.lists(st.builds(a_member, st.integers(0, 9), metadata=st.binary(max_size=99))))
def test_members_come_back_as_they_were(members: list[GroupMember]) -> None:
    assert nodes.members_of("/x", nodes.encode_members("g", members)) == tuple(members)


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_members_that_were_cut_off_are_not_read(cut: int) -> None:
    with pytest.raises(NodeUnreadable, match="/x"):
        nodes.members_of("/x", nodes.encode_members("g", [a_member()])[:cut])


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_members_or_unreadable(data: bytes) -> None:
    with pytest.raises(NodeUnreadable):
        nodes.members_of("/x", data)


# Groups


@pytest.mark.parametrize("name", NAMES)
def test_the_life_of_a_group(session: Session, name: str) -> None:
    assert groups.read_group(session, name) is None
    assert groups.take_over(session, name, 1, GroupKind.KAFKA) is None
    fence = groups.create_group(session, a_group(name))
    assert groups.read_group(session, name) == StoredGroup(a_group(name), ())
    group = a_group(name, generation=1, protocol="range", leader="consumer-1")
    members = (a_member(1, instance_id="i"), a_member(2))
    groups.save_group(session, fence, group, members)
    assert groups.read_group(session, name) == StoredGroup(group, members)
    empty = a_group(name, generation=2, empty_since_ms=1_700_000_000_000)
    groups.save_group(session, fence, empty, ())
    assert groups.read_group(session, name) == StoredGroup(empty, ())
    assert groups.list_groups(session) == [empty]
    groups.delete_group(session, fence)
    assert groups.read_group(session, name) is None
    assert groups.list_groups(session) == []


def test_a_group_is_of_the_kind_that_it_was_made_with(session: Session) -> None:
    groups.create_group(session, a_group(kind=GroupKind.PENSTOCK))
    with pytest.raises(OtherGroupKind, match="'readers' is for penstock consumers"):
        groups.create_group(session, a_group(kind=GroupKind.KAFKA))
    with pytest.raises(OtherGroupKind):
        groups.take_over(session, "readers", 1, GroupKind.KAFKA)
    assert groups.take_over(session, "readers", 1, GroupKind.PENSTOCK) is not None
    with pytest.raises(Conflict) as conflict:
        groups.create_group(session, a_group(kind=GroupKind.PENSTOCK))
    assert conflict.value.cause is Cause.EXISTS


def test_who_was_the_coordinator_before_writes_nothing_more(session: Session) -> None:
    before = groups.create_group(session, a_group())
    groups.save_group(session, before, a_group(generation=1), [a_member()])
    taken = groups.take_over(session, "readers", 2, GroupKind.KAFKA)
    assert taken is not None
    fence, found = taken
    assert found == StoredGroup(a_group(generation=1, coordinator=2), (a_member(),))
    with pytest.raises(Fenced, match="newer coordinator"):
        groups.save_group(session, before, a_group(generation=9), [])
    with pytest.raises(Fenced):
        groups.delete_group(session, before)
    assert groups.read_group(session, "readers") == found
    groups.save_group(session, fence, a_group(generation=2, coordinator=2), [])


def test_a_group_that_was_made_anew_is_another_one(session: Session) -> None:
    """Its nodes have the versions again that they once had."""
    before = groups.create_group(session, a_group())
    groups.delete_group(session, taken_over(session))
    groups.create_group(session, a_group())
    with pytest.raises(Fenced):
        groups.save_group(session, before, a_group(generation=9), [])


def test_of_two_who_take_over_at_once_one_is_the_coordinator(connect: Connect) -> None:
    sessions = [connect(timeout_s=PATIENCE) for _ in range(4)]
    groups.create_group(sessions[0], a_group())
    fences: list[tuple[int, GroupFence]] = []

    def take(number: int) -> None:
        fences.append((number, taken_over(sessions[number], by=number)))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = groups.read_group(sessions[0], "readers")
    assert found is not None
    has_it = []
    for number, fence in fences:
        try:
            groups.save_group(sessions[number], fence, a_group(coordinator=number), [])
        except Fenced:
            continue
        has_it.append(number)
    assert has_it == [found.info.coordinator]


def test_a_fence_that_is_gone_does_not_end_the_group(session: Session) -> None:
    before = groups.create_group(session, a_group())
    session.write([Delete(paths.group_fence("readers", before.token))])
    with pytest.raises(Fenced):
        groups.save_group(session, before, a_group(), [])
    groups.save_group(session, taken_over(session), a_group(coordinator=2), [])


def test_saving_and_committing_do_not_disturb_each_other(session: Session) -> None:
    fence = groups.create_group(session, a_group())
    writer = OffsetWriter(session)
    partition = TopicPartition("t", 0)
    for number in range(3):
        groups.save_group(session, fence, a_group(generation=number), [])
        offset = CommittedOffset(offset=number, committed_ms=0)
        assert writer.commit([GroupCommit(fence, {partition: offset})]) == set()


def test_members_that_say_too_much(session: Session) -> None:
    fence = groups.create_group(session, a_group())
    groups.save_group(session, fence, a_group(generation=1), [a_member()])
    large = [a_member(number, metadata=b"subscribed" * 2_000) for number in range(1_000)]
    groups.save_group(session, fence, a_group(generation=2), large)  # 20 MB of the same
    found = groups.read_group(session, "readers")
    assert found is not None
    assert found.members == tuple(large)
    noise = (b"%d" % (number**7) for number in range(10**9))
    too_large = [a_member(metadata=b"".join(next(noise) for _ in range(60_000)))]
    with pytest.raises(GroupTooLarge, match="'readers'"):
        groups.save_group(session, fence, a_group(generation=3), too_large)
    with pytest.raises(GroupTooLarge, match=r"limit 67108864\): reduce"):
        groups.save_group(session, fence, a_group(generation=3), [a_member(metadata=bytes(2**26))])
    found = groups.read_group(session, "readers")
    assert found is not None
    assert found.info.generation == 2


def test_the_largest_members_that_are_taken_fit_into_a_transaction(session: Session) -> None:
    """By ZooKeeper's own bound, with the longest name beside them."""
    fence = groups.create_group(session, a_group(NAMES[-1]))
    path = paths.group_members(NAMES[-1])
    session.write([Create(path, bytes(nodes.MOST_PACKED))])
    operations = [
        Set(paths.group(NAMES[-1]), nodes.encode(nodes.group_node(a_group()))),
        Set(path, bytes(nodes.MOST_PACKED)),
    ]
    groups.write_fenced(session, [fence], operations)


def test_a_group_goes_with_everything_below_it(session: Session) -> None:
    fence = groups.create_group(session, a_group())
    groups.save_group(session, fence, a_group(generation=1), [a_member()])
    offset = CommittedOffset(offset=1, committed_ms=0)
    offsets = {TopicPartition("t" * 200, number): offset for number in range(3_000)}
    OffsetWriter(session).commit([GroupCommit(fence, offsets)])
    path = paths.group("readers")
    session.write([Create(f"{path}/owners"), Create(f"{path}/owners/t"), Create(f"{path}/ids")])
    session.write([Create(f"{path}/owners/t/0"), Create(f"{path}/ids/m", ephemeral=True)])
    groups.delete_group(session, fence)
    assert session.children(paths.CONSUMERS) == ()
    with pytest.raises(Fenced):
        groups.delete_group(session, fence)


def test_groups_are_listed_by_name_with_kind_and_since_when_they_are_empty(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [
        a_group("", empty_since_ms=5),
        a_group("a/b", coordinator=3),
        a_group("z", kind=GroupKind.PENSTOCK),
    ]
    for each in reversed(wanted):
        groups.create_group(session, each)
    session.write([Create(f"{paths.CONSUMERS}/%zz", b"nobody's")])
    session.write([Create(paths.group("spoilt"), b'{"version":2}')])
    with caplog.at_level(logging.WARNING):
        assert groups.list_groups(session) == wanted
    assert "/consumers/spoilt" in caplog.text
    with pytest.raises(NodeUnreadable, match="newer Penstock"):
        groups.read_group(session, "spoilt")


def test_a_map_is_not_made_unasked(connect: Connect) -> None:
    session = connect(makes_map=False, timeout_s=PATIENCE)
    with pytest.raises(MapMissing):
        groups.create_group(session, a_group())
    assert groups.list_groups(session) == []


def test_others_read_groups_but_do_not_write_them(connect: Connect) -> None:
    guarded = connect(secret="s3", timeout_s=PATIENCE)
    groups.create_group(guarded, a_group())
    stranger = connect(makes_map=False, timeout_s=PATIENCE)
    assert groups.list_groups(stranger) == [a_group()]
    with pytest.raises(Exception, match="denies access"):
        groups.take_over(stranger, "readers", 7, GroupKind.KAFKA)


# Answers that are lost


def test_a_lost_answer_to_each_write(proxied: Session, proxy: Proxy, session: Session) -> None:
    """Each has happened, and is neither done twice nor taken for another's."""
    proxy.swallow_the_next_answer()
    fence = groups.create_group(proxied, a_group())
    proxy.wait_until_swallowed()
    proxy.swallow_the_next_answer()
    groups.save_group(proxied, fence, a_group(generation=1), [a_member()])
    proxy.wait_until_swallowed()
    assert groups.read_group(session, "readers") == StoredGroup(
        a_group(generation=1), (a_member(),)
    )
    fence = taken_over(proxied)
    proxy.swallow_the_next_answer()
    groups.delete_group(proxied, fence)
    proxy.wait_until_swallowed()
    assert groups.read_group(session, "readers") is None


def test_a_takeover_whose_answer_was_lost(proxied: Session, proxy: Proxy) -> None:
    group = a_group(generation=1)
    fence = groups.create_group(proxied, group)
    proxied.read(paths.CONSUMERS)
    fences = []

    def take() -> None:
        fences.append(taken_over(proxied, by=1))

    for _ in range(4):  # the answer that is lost is one of several
        proxy.swallow_the_next_answer()
        take()
        proxy.wait_until_swallowed()
    for old in [fence, *fences[:-1]]:
        with pytest.raises(Fenced):
            groups.save_group(proxied, old, group, [])
    groups.save_group(proxied, fences[-1], replace(group, generation=2), [])
