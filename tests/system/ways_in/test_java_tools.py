"""Apache Kafka's command line tools at a broker with locks, those of two releases: every mechanism,
every listener, doors that stay closed; and what an administrator does with them."""

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from harness.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.kafka_tools import KafkaTools
from harness.secured_broker import SecuredBroker
from tests.system.ways_in.doors import CLOSED, NOT_ALLOWED, NOT_LET_IN, OPEN, TOPIC, Door, way
from tests.system.ways_in.java_tools import JavaTools

ADMIN = Door("LOCKED", "SCRAM-SHA-512", "broker")
BOB = Door("LOCKED", "SCRAM-SHA-512", "bob")


@pytest.fixture(scope="module", params=[VERSION, NEWEST])
def tools(
    request: pytest.FixtureRequest,
    secured: SecuredBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[JavaTools]:
    try:
        kafka = KafkaTools(request.param)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be had: {reason}")
    with kafka:
        yield JavaTools(kafka, secured, tmp_path_factory.mktemp("tools"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, of another release neither."""
    return re.sub(r"[^\w.-]+", "-", request.node.name)


@pytest.mark.parametrize("door", OPEN, ids=str)
def test_who_may_comes_in(tools: JavaTools, topic: str, door: Door) -> None:
    written = tools.write(door, topic, str(door))
    assert written.status == 0, written.said
    read = tools.read(door, topic)
    assert str(door) in read.output.splitlines()


@pytest.mark.parametrize("door", CLOSED, ids=str)
def test_who_may_not_is_told_so(tools: JavaTools, door: Door) -> None:
    written = tools.write(door, TOPIC, str(door))
    assert re.search(CLOSED[door], written.said)
    assert written.status != 0
    read = tools.read(door, TOPIC)
    assert re.search(CLOSED[door], read.said)
    assert "Processed a total of 0 messages" in read.said


def succeeds(tools: JavaTools, script: str, *arguments: str) -> str:
    """As the administrator."""
    ended = tools.run(script, ADMIN, *arguments)
    assert ended.status == 0, ended.said
    return ended.output


def test_topics(tools: JavaTools, topic: str) -> None:
    succeeds(tools, "kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    assert "PartitionCount: 2" in succeeds(tools, "kafka-topics", "--describe", "--topic", topic)
    assert {topic, TOPIC} <= set(succeeds(tools, "kafka-topics", "--list").splitlines())
    seen_by_bob = tools.run("kafka-topics", BOB, "--list")
    assert (seen_by_bob.status, seen_by_bob.output.strip()) == (0, "")
    for what in (("--create", "--topic", f"{topic}-2"), ("--delete", "--topic", topic)):
        refused = tools.run("kafka-topics", BOB, *what)
        assert refused.status != 0
        assert re.search(rf"{NOT_ALLOWED}|does not exist", refused.said)
    succeeds(tools, "kafka-topics", "--delete", "--topic", topic)
    assert topic not in succeeds(tools, "kafka-topics", "--list").splitlines()


def test_rules(tools: JavaTools, topic: str) -> None:
    succeeds(tools, "kafka-topics", "--create", "--topic", topic)
    rule = ("--allow-principal", "User:bob", "--operation", "Write", "--topic", topic)
    assert tools.write(BOB, topic, "not yet").status != 0
    refused = tools.run("kafka-acls", BOB, "--add", *rule)
    assert refused.status != 0
    assert re.search(NOT_ALLOWED, refused.said)

    succeeds(tools, "kafka-acls", "--add", *rule)
    listed = succeeds(tools, "kafka-acls", "--list", "--topic", topic)
    assert re.search("principal=User:bob.*operation=WRITE.*permissionType=ALLOW", listed)
    written = tools.write(BOB, topic, "now")
    assert written.status == 0, written.said

    succeeds(tools, "kafka-acls", "--remove", "--force", *rule)
    assert "bob" not in succeeds(tools, "kafka-acls", "--list", "--topic", topic)
    assert tools.write(BOB, topic, "no more").status != 0


def test_users_and_quotas(tools: JavaTools, secured: SecuredBroker) -> None:
    name = f"carol-{tools.version}"
    carol = replace(way(secured, BOB), user=name, secret="first")
    entity = ("--entity-type", "users", "--entity-name", name)
    refused = tools.run("kafka-broker-api-versions", carol)
    assert re.search(NOT_LET_IN, refused.said)

    password = "SCRAM-SHA-512=[iterations=4096,password=first]"
    succeeds(tools, "kafka-configs", "--alter", *entity, "--add-config", password)
    succeeds(tools, "kafka-configs", "--alter", *entity, "--add-config", "producer_byte_rate=98765")
    described = succeeds(tools, "kafka-configs", "--describe", *entity)
    assert "SCRAM-SHA-512=iterations=4096" in described
    assert "producer_byte_rate=98765" in described
    let_in = tools.run("kafka-broker-api-versions", carol)
    assert let_in.status == 0, let_in.said
    assert re.search(r"Produce\(0\): 0 to \d+", let_in.output)
    refused = tools.run("kafka-configs", carol, "--alter", *entity, "--add-config", password)
    assert refused.status != 0
    assert re.search(NOT_ALLOWED, refused.said)

    succeeds(tools, "kafka-configs", "--alter", *entity, "--delete-config", "producer_byte_rate")
    succeeds(tools, "kafka-configs", "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    described = succeeds(tools, "kafka-configs", "--describe", *entity)
    assert "producer_byte_rate" not in described
    assert "SCRAM" not in described
