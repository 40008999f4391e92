"""`penstock consume --group`, against a running broker and its ZooKeeper."""

from collections.abc import Iterator

import pytest

from cluster.groups import groups
from cluster.groups import members as group_members
from cluster.groups.offsets import read_offsets
from cluster.session.session import Session
from cluster.values import GroupInfo, GroupKind
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from tests.client.group.conftest import zookeeper_of
from tests.penstock.running import At


@pytest.fixture
def address(running_broker: BrokerProcess) -> str:
    return zookeeper_of(running_broker)


@pytest.fixture
def session(address: str) -> Iterator[Session]:
    session = Session.connect(address, secret=None, connect_timeout_s=60)
    yield session
    session.close()


@pytest.fixture
def in_group(new_topic: str, address: str) -> list[str]:
    """The arguments of a member of the topic's own group."""
    group = ["--group", new_topic, "--zookeeper", address]
    return ["consume", new_topic, *group, "--from", "beginning"]


def owned(session: Session, group: str) -> dict[int, int]:
    """How many members have how many partitions each."""
    members = group_members.members(session, group, {})
    return {len(members): len(group_members.owned(session, group, group))}


def test_a_group_goes_on_where_it_stopped(at: At, new_topic: str, in_group: list[str]) -> None:
    at.output("topics", "create", new_topic)
    at.output("produce", new_topic, stdin="a\nb\nc\nd\n")
    assert at.output(*in_group, "--count", "2") == "a\nb\n"
    assert at.output(*in_group, "--count", "1") == "c\n"
    at.output("produce", new_topic, stdin="e\n")
    documents = at.json(*in_group, "--count", "2")
    assert [each["value"] for each in documents] == ["d", "e"]


def test_what_was_not_written_is_not_committed(
    at: At, new_topic: str, in_group: list[str], session: Session
) -> None:
    at.output("topics", "create", new_topic)
    with at.running(*in_group) as process:
        process.stdout.close()
        at.output("produce", new_topic, stdin="x\n")
        process.wait()
    assert [each.offset for each in read_offsets(session, new_topic).values()] == [0]
    assert group_members.members(session, new_topic, {}) == {}
    assert at.output(*in_group, "--count", "1") == "x\n"


def test_who_cannot_join_or_meet_the_others(
    at: At, new_topic: str, address: str, in_group: list[str], session: Session
) -> None:
    at.output("topics", "create", new_topic)
    kafkas = GroupInfo(name=new_topic, kind=GroupKind.KAFKA, coordinator=1)
    groups.create_group(session, kafkas)
    (port,) = free_ports(1)
    consume, group, zookeeper = ["consume", new_topic], ["--group", "g"], ["--zookeeper", address]
    with_others = [*consume, *group, *zookeeper]
    for arguments, code, said in (
        (in_group, 1, "is for kafka consumers; penstock consumers cannot join"),
        ([*consume, *group], 2, "pass --zookeeper"),
        ([*with_others, "--to-end"], 2, "--group excludes"),
        ([*with_others, "--partition", "0"], 2, "--group excludes"),
        ([*with_others, "--avro-file", "-"], 2, "--group excludes"),
        ([*consume, *zookeeper], 2, "--zookeeper needs --group"),
        ([*consume, *group, "--zookeeper", f"{address}/elsewhere"], 1, "no broker has used ZooKee"),
        ([*consume, *group, "--zookeeper", f"127.0.0.1:{port}"], 1, "no ZooKeeper answers"),
    ):
        assert said in at.refused(*arguments, code=code), arguments
