"""`penstock consume --group`, against a running broker and its ZooKeeper."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from cluster import group_members, groups
from cluster.group_offsets import read_offsets
from cluster.session import Session
from cluster.values import GroupInfo, GroupKind, TopicPartition
from harness.broker_process import BrokerProcess
from harness.server_process import free_ports
from harness.waiting import wait_until
from tests.client.group.conftest import zookeeper_of
from tests.penstock.running import At, running


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
    return [
        *("consume", new_topic, "--group", new_topic, "--from", "beginning"),
        *("--zookeeper", address),
    ]


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().decode().rstrip("\n") for _ in range(count)]


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


def test_two_share_a_topic_and_one_leaves(
    at: At, new_topic: str, in_group: list[str], session: Session
) -> None:
    at.output("topics", "create", new_topic, "--partitions", "2")
    with (
        running(at.arguments(*in_group)) as one,
        running(at.arguments(*in_group)) as two,
    ):
        wait_until(lambda: owned(session, new_topic) == {2: 2}, within=120, what="two are in")
        for partition in (0, 1):
            to = ["--partition", str(partition)]
            at.output("produce", new_topic, *to, stdin=f"{partition}\n" * 3)
        shares = [lines_of(one, 3), lines_of(two, 3)]
        assert sorted(shares) == [["0"] * 3, ["1"] * 3]
        one.send_signal(signal.SIGINT)
        assert one.wait(60) == 130
        assert one.stdout is not None
        assert one.stderr is not None
        assert (one.stdout.read(), one.stderr.read()) == (b"", b"")
        # It has said goodbye: nobody waits for the end of its session.
        wait_until(lambda: owned(session, new_topic) == {1: 2}, within=60, what="one has all")
        partition = int(shares[0][0])
        committed = read_offsets(session, new_topic)
        assert committed[TopicPartition(new_topic, partition)].offset == 3
        at.output("produce", new_topic, "--partition", str(partition), stdin="more\n")
        assert lines_of(two, 1) == ["more"]


def test_what_was_not_written_is_not_committed(
    at: At, new_topic: str, in_group: list[str], session: Session
) -> None:
    at.output("topics", "create", new_topic)
    with running(at.arguments(*in_group)) as process:
        assert process.stdout is not None
        process.stdout.close()
        at.output("produce", new_topic, stdin="x\n")
        process.wait(60)
    assert [each.offset for each in read_offsets(session, new_topic).values()] == [0]
    assert group_members.members(session, new_topic, {}) == {}
    assert at.output(*in_group, "--count", "1") == "x\n"


def test_kafkas_groups_are_not_joined(
    at: At, new_topic: str, in_group: list[str], session: Session
) -> None:
    at.output("topics", "create", new_topic)
    kafkas = GroupInfo(name=new_topic, kind=GroupKind.KAFKA, coordinator=1)
    groups.create_group(session, kafkas)
    ended = at.run(*in_group)
    assert ended.returncode == 1
    assert "is one of kafka's consumers, penstock's cannot join it" in ended.stderr


def test_who_cannot_meet_the_others(at: At, new_topic: str, address: str) -> None:
    at.output("topics", "create", new_topic)
    ended = at.run("consume", new_topic, "--group", "g")
    assert ended.returncode == 2
    assert "--group needs --zookeeper" in ended.stderr
    for more in (["--to-end"], ["--partition", "0"], ["--avro-file", "-"]):
        ended = at.run("consume", new_topic, "--group", "g", "--zookeeper", address, *more)
        assert ended.returncode == 2
        assert "--group goes with none of" in ended.stderr
    ended = at.run("consume", new_topic, "--zookeeper", address)
    assert (ended.returncode, "--zookeeper goes with --group" in ended.stderr) == (2, True)
    elsewhere = f"{address}/elsewhere"
    ended = at.run("consume", new_topic, "--group", "g", "--zookeeper", elsewhere)
    assert ended.returncode == 1
    assert "no broker has used ZooKeeper" in ended.stderr
    (port,) = free_ports(1)
    ended = at.run("consume", new_topic, "--group", "g", "--zookeeper", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    assert "no ZooKeeper answers" in ended.stderr
