"""Kafka's tool for groups and its Java administrator, of both releases, at Penstock as at Kafka.

The administrator is asked what kafka-ui and AKHQ ask it of groups.
"""

import functools
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from harness.java.jvm import Jvm
from harness.kafka.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.kafka.kafka_tools import KafkaTools
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.conftest import Server
from tests.system.groups.history import WITHIN, History, Source, committed
from tests.system.groups.members import Members, librdkafka

# Apache Kafka keeps these tests honest.
against_both = pytest.mark.parametrize(
    "server", ["penstock", pytest.param("apache-kafka", marks=pytest.mark.long)], indirect=True
)
PARTITIONS = 3
NAMES = "org.apache.kafka"


@pytest.fixture(scope="module", params=[pytest.param(VERSION, marks=pytest.mark.long), NEWEST])
def tools(request: pytest.FixtureRequest) -> Iterator[KafkaTools]:
    try:
        tools = KafkaTools(request.param)
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    with tools:
        yield tools


@pytest.fixture
def topic(server: Server, new_topic: str) -> Source:
    return Source(server.bootstrap, new_topic, partitions=PARTITIONS)


class Group:
    """One with a reader, which has read and committed 20 records of each of three partitions."""

    def __init__(self, server: Server, topic: Source) -> None:
        self.name = f"group-of-{topic.topic}"
        self.topic = topic
        self._bootstrap = server.bootstrap
        self._history = History()
        self.members = Members(server.bootstrap, self.name, topic.topic, self._history)

    def start_reader(self) -> None:
        self.members.start("reader", librdkafka())
        self.topic.write(20 * PARTITIONS)
        self._history.wait_for(self.topic.written)
        wait_until(
            lambda: self.committed() == self.topic.ends, within=WITHIN, what="all is committed"
        )

    def committed(self) -> dict[int, int]:
        return committed(self._bootstrap, self.name, self.topic.topic, range(PARTITIONS))


@pytest.fixture
def group(server: Server, topic: Source) -> Iterator[Group]:
    group = Group(server, topic)
    with group.members.all_stopped():
        group.start_reader()
        yield group


@against_both
@pytest.mark.timeout(180)
def test_the_tool_shows_resets_and_deletes(
    server: Server, tools: KafkaTools, group: Group, tmp_path: Path
) -> None:
    name, topic = group.name, group.topic.topic

    def tool(*arguments: str) -> str:
        where = ("--bootstrap-server", server.bootstrap)
        ended = tools.run("kafka-consumer-groups", *where, *arguments)
        assert ended.status == 0, ended.said
        return " ".join(ended.said.split())

    assert name in tool("--list").split()
    assert f"{name} Stable" in tool("--list", "--state", "stable")
    of_it = ("--group", name)
    described = tool("--describe", *of_it)
    assert all(f"{name} {topic} {each} 20 20 0 reader-" in described for each in range(PARTITIONS))
    members = tool("--describe", "--members", "--verbose", *of_it)
    assert ("(0,1,2)" if tools.version == VERSION else f"{topic}:0,1,2") in members
    assert "reader 3" in members
    assert "range Stable 1" in tool("--describe", "--state", *of_it)

    to = (*of_it, "--topic", topic)
    execute = functools.partial(tool, "--reset-offsets", "--execute")
    assert "current state is Stable" in execute("--to-offset", "3", *to)
    assert "GroupNotEmptyException" in tool("--delete", *of_it)
    assert "GroupSubscribedToTopicException" in tool("--delete-offsets", *to)
    assert group.committed() == group.topic.ends

    group.members.stop("reader")
    assert f"{name} Empty" in tool("--list", "--state")
    tool("--reset-offsets", "--to-earliest", "--dry-run", *to)
    assert group.committed() == group.topic.ends
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,7\n{topic},2,5\n")
    for how, expected in (
        (("--to-offset", "3", *to), [3, 3, 3]),
        (("--shift-by", "-2", *to), [1, 1, 1]),
        (("--to-current", *to), [1, 1, 1]),
        (("--by-duration", "PT1H", *to), [0, 0, 0]),
        (("--to-datetime", "2100-01-01T00:00:00.000", *to), [20, 20, 20]),
        (("--from-file", str(plan), *of_it), [7, 20, 5]),
        (("--to-earliest", "--all-topics", *of_it), [0, 0, 0]),
        (("--to-latest", *of_it, "--topic", f"{topic}:0,1"), [20, 20, 0]),
    ):
        execute(*how)
        assert group.committed() == dict(enumerate(expected)), how
    exported = tool("--reset-offsets", "--to-current", "--export", "--dry-run", *to)
    assert set(exported.split()) == {f"{topic},0,20", f"{topic},1,20", f"{topic},2,0"}

    assert "Successful" in tool("--delete-offsets", *of_it, "--topic", f"{topic}:0")
    assert group.committed()[0] < 0
    assert "was successful" in tool("--delete", *of_it)
    assert name not in tool("--list").split()
    assert "does not exist" in tool("--describe", *of_it)
    assert "GroupIdNotFoundException" in tool("--delete", *of_it)


class Administrator:
    """Kafka's own, in Java; what is refused is a `Py4JJavaError`."""

    def __init__(self, java: Jvm, bootstrap: str, release: str) -> None:
        self._java = java
        self._bootstrap = bootstrap
        self._release = release
        create = java.find(f"{NAMES}.clients.admin.AdminClient").create
        self._admin = create({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        self._admin.close()

    def partitions(self, topic: str, *numbers: int) -> list[Any]:
        return [self._java.new(f"{NAMES}.common.TopicPartition", topic, each) for each in numbers]

    def offsets(self, offsets: Mapping[Any, int]) -> dict[Any, Any]:
        new = functools.partial(self._java.new, f"{NAMES}.clients.consumer.OffsetAndMetadata")
        return {where: new(offset) for where, offset in offsets.items()}

    def listed(self, *states: str) -> set[str]:
        options = self._java.new(f"{NAMES}.clients.admin.ListConsumerGroupsOptions")
        if states and self._release == VERSION:
            of = self._java.find(f"{NAMES}.common.ConsumerGroupState").parse
            options = options.inStates(set(map(of, states)))
        elif states:
            of = self._java.find(f"{NAMES}.common.GroupState").parse
            options = options.inGroupStates(set(map(of, states)))
        return {each.groupId() for each in self._admin.listConsumerGroups(options).all().get()}

    def described(self, *groups: str) -> Mapping[str, Any]:
        options = self._java.new(f"{NAMES}.clients.admin.DescribeConsumerGroupsOptions")
        asked = options.includeAuthorizedOperations(True)
        found: Mapping[str, Any] = (
            self._admin.describeConsumerGroups(list(groups), asked).all().get()
        )
        return found

    def committed(self, *groups: str, partitions: list[Any] | None = None) -> dict[str, Any]:
        """Of all groups in one call."""
        specification = self._java.new(f"{NAMES}.clients.admin.ListConsumerGroupOffsetsSpec")
        asked = dict.fromkeys(groups, specification.topicPartitions(partitions))
        found = self._admin.listConsumerGroupOffsets(asked).all().get()
        return {name: plain(found[name]) for name in groups}

    def committed_of_one(self, group: str) -> dict[tuple[str, int], int | None]:
        return plain(
            self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
        )

    def alter(self, group: str, offsets: Mapping[Any, int]) -> None:
        self._admin.alterConsumerGroupOffsets(group, self.offsets(offsets)).all().get()

    def delete_offsets(self, group: str, partitions: list[Any]) -> None:
        self._admin.deleteConsumerGroupOffsets(group, set(partitions)).all().get()

    def delete(self, *groups: str) -> None:
        self._admin.deleteConsumerGroups(list(groups)).all().get()

    def remove_members(self, group: str, *instances: str) -> None:
        """All, if none is named."""
        to_remove = f"{NAMES}.clients.admin.MemberToRemove"
        named = [{self._java.new(to_remove, each) for each in instances}] if instances else []
        options = f"{NAMES}.clients.admin.RemoveMembersFromConsumerGroupOptions"
        new = self._java.new(options, *named)
        self._admin.removeMembersFromConsumerGroup(group, new).all().get()

    def commit_as_consumer(self, group: str, offsets: Mapping[Any, int]) -> None:
        """As AKHQ resets: by a consumer of the group that reads nothing."""
        bytes_ = self._java.new(f"{NAMES}.common.serialization.ByteArrayDeserializer")
        consumer = self._java.new(
            f"{NAMES}.clients.consumer.KafkaConsumer",
            {"bootstrap.servers": self._bootstrap, "group.id": group},
            *(bytes_, bytes_),
        )
        with closing(consumer):
            consumer.commitSync(self.offsets(offsets))


def plain(offsets: Any) -> dict[tuple[str, int], int | None]:
    return {
        (each.topic(), each.partition()): None if offset is None else offset.offset()
        for each, offset in offsets.items()
    }


def refused(name: str) -> "pytest.RaisesExc[Py4JJavaError]":
    return pytest.raises(Py4JJavaError, match=name)


@pytest.fixture
def administrator(server: Server, tools: KafkaTools) -> Iterator[Administrator]:
    with closing(Administrator(tools.java, server.bootstrap, tools.version)) as administrator:
        yield administrator


@against_both
@pytest.mark.timeout(180)
def test_what_pages_about_kafka_ask_of_groups(
    administrator: Administrator, group: Group, new_topic: str
) -> None:
    name, other, ask = group.name, f"other-{new_topic}", administrator
    all_of_it = ask.partitions(new_topic, *range(PARTITIONS))
    first = all_of_it[0]
    ask.alter(other, {first: 4})  # which makes the group
    assert {name, other} <= ask.listed()
    assert name in ask.listed("Stable")
    assert other not in ask.listed("Stable")
    assert other in ask.listed("Empty")

    described = ask.described(name, other)
    active, empty = described[name], described[other]
    assert str(active.state()) == "Stable"
    assert active.partitionAssignor() == "range"
    (member,) = active.members()
    assert member.clientId() == "reader"
    assert {each.partition() for each in member.assignment().topicPartitions()} == {0, 1, 2}
    assert {str(each) for each in active.authorizedOperations()} >= {"READ", "DESCRIBE", "DELETE"}
    assert str(empty.state()) == "Empty"
    assert not list(empty.members())
    assert active.coordinator().id() == 1

    ends = {(new_topic, each): 20 for each in range(PARTITIONS)}
    assert ask.committed_of_one(name) == ends
    nobodys = f"nobodys-{new_topic}"
    assert ask.committed(name, other, nobodys) == {
        name: ends,
        other: {(new_topic, 0): 4},
        nobodys: {},
    }
    assert ask.committed(other, partitions=all_of_it) == {
        other: {(new_topic, 0): 4, (new_topic, 1): None, (new_topic, 2): None}
    }

    with refused("UnknownMemberIdException"):
        ask.alter(name, {first: 3})
    with refused("GroupSubscribedToTopicException"):
        ask.delete_offsets(name, all_of_it)
    with refused("GroupNotEmptyException"):
        ask.delete(name)
    with refused("GroupIdNotFoundException"):
        ask.delete(nobodys)
    with refused("UnknownTopicOrPartitionException"):
        ask.alter(other, {ask.partitions(f"no-{new_topic}", 0)[0]: 3})
    assert ask.committed_of_one(name) == ends

    group.members.stop("reader")
    ask.commit_as_consumer(name, dict.fromkeys(all_of_it, 7))
    assert set(ask.committed_of_one(name).values()) == {7}
    ask.delete_offsets(name, all_of_it[:2])
    assert ask.committed_of_one(name) == {(new_topic, 2): 7}
    ask.delete(name, other)
    assert not {name, other} & ask.listed()


@against_both
@pytest.mark.timeout(180)
def test_members_are_removed(administrator: Administrator, server: Server, topic: Source) -> None:
    """One by its instance id, which does not come back; then all, who do."""
    name, history = f"group-of-{topic.topic}", History()
    members = Members(server.bootstrap, name, topic.topic, history, session_ms=300_000)

    def instances() -> dict[str, str]:
        found = administrator.described(name)[name]
        if str(found.state()) != "Stable":
            return {}
        return {each.groupInstanceId().orElse(""): each.consumerId() for each in found.members()}

    def wait_for(*wanted: str) -> None:
        wait_until(
            lambda: instances().keys() == set(wanted), within=WITHIN, what=f"{wanted} are there"
        )

    with members.all_stopped():
        for each in ("first", "second"):
            members.start(each, librdkafka(**{"group.instance.id": each}))
        history.wait_until_each_reads({"first", "second"}, topic.write)
        members.stop("second")
        wait_for("first", "second")
        with refused("UnknownMemberIdException"):
            administrator.remove_members(name, "third")
        administrator.remove_members(name, "second")
        wait_for("first")
        before = instances()["first"]
        administrator.remove_members(name)
        wait_for("first")
        assert instances()["first"] != before
        history.wait_until_each_reads({"first"}, topic.write)


@pytest.mark.timeout(180)
def test_a_member_of_the_next_protocol_is_told_that_it_is_not_served(
    running_broker: BrokerProcess, tools: KafkaTools, new_topic: str
) -> None:
    """`group.protocol=consumer`, of KIP-848."""
    Source(running_broker.bootstrap, new_topic, partitions=1)
    settings = {
        "bootstrap.servers": running_broker.bootstrap,
        "group.id": f"group-of-{new_topic}",
        "group.protocol": "consumer",
    }
    strings = tools.java.new(f"{NAMES}.common.serialization.StringDeserializer")
    consumer = tools.java.new(f"{NAMES}.clients.consumer.KafkaConsumer", settings, strings, strings)
    moment = tools.java.find("java.time.Duration").ofMillis(200)

    def reads() -> bool:
        consumer.poll(moment)
        return False

    with closing(consumer):
        consumer.subscribe([new_topic])
        with refused("UnsupportedVersionException"):
            wait_until(reads, within=WITHIN, what="it is refused")
