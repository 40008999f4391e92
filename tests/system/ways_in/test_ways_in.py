"""The clients of Java, Go and Node.js at a broker with locks: every mechanism, every listener, and
doors that stay closed; and what an administrator does with Apache Kafka's command line tools.

The clients of Go and Node.js are programs, started once, that come to all doors at the same time.
"""

import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from client.admin.acls import add_acls
from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.secured_broker import SecuredBroker
from tests.system.conftest import KAFKA_VERSIONS, kafka_tools
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, Client, ClientUnavailable
from tests.system.ways_in.doors import (
    CLOSED,
    NOT_ALLOWED,
    NOT_LET_IN,
    OPEN,
    TOPIC,
    Door,
    as_json,
    way,
)
from tests.system.ways_in.java_tools import JavaTools
from wire.acls import (
    ANYTHING,
    USER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

pytestmark = pytest.mark.long

ADMIN = Door("LOCKED", "SCRAM-SHA-512", "broker")
BOB = Door("LOCKED", "SCRAM-SHA-512", "bob")
TASK: Final = "ways_in"  # of a program
RUN_WITHIN: Final = 120.0


@pytest.fixture(scope="module")
def secured(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    """It goes by ACLs: alice may do everything to topics, bob nothing."""
    everything = Acl(f"{USER}alice", ANYTHING, Operation.ALL, Permission.ALLOW)
    all_topics = ResourcePattern(ResourceType.TOPIC, ANYTHING, PatternType.LITERAL)
    with SecuredBroker(
        tmp_path_factory.mktemp("ways-in"),
        zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}",
        settings={"authorization": {"super_users": ["broker"]}},
    ) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, "broker")) as brokers:
            create_topic(brokers, TOPIC, partitions=1)
            add_acls(brokers, [(all_topics, everything)])
        yield secured


# Java


@pytest.fixture(scope="module", params=KAFKA_VERSIONS)
def tools(
    request: pytest.FixtureRequest, secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaTools]:
    with kafka_tools(request.param) as kafka:
        yield JavaTools(kafka, secured, tmp_path_factory.mktemp("tools"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, of another release neither."""
    return re.sub(r"[^\w.-]+", "-", request.node.name)


@pytest.mark.parametrize("door", OPEN, ids=str)
def test_java_comes_in_where_it_may(tools: JavaTools, topic: str, door: Door) -> None:
    written = tools.write(door, topic, str(door))
    assert written.status == 0, written.said
    read = tools.read(door, topic)
    assert str(door) in read.output.splitlines()


@pytest.mark.parametrize("door", CLOSED, ids=str)
def test_java_is_told_where_it_may_not(tools: JavaTools, door: Door) -> None:
    written = tools.write(door, TOPIC, str(door))
    assert re.search(CLOSED[door], written.said)
    assert written.status != 0
    if CLOSED[door] == NOT_ALLOWED:  # who may not write may not read either
        read = tools.read(door, TOPIC)
        assert re.search(CLOSED[door], read.said)
        assert "Processed a total of 0 messages" in read.said


def succeeds(tools: JavaTools, script: str, *arguments: str) -> str:
    """As the administrator."""
    ended = tools.run(script, ADMIN, *arguments)
    assert ended.status == 0, ended.said
    return ended.output


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


# Go and Node.js


class Outcome(msgspec.Struct, frozen=True):
    """Of one way. `read` is what was read back, by a client that can."""

    name: str
    offset: int
    error: str
    read: str = ""


def come(client: Client, secured: SecuredBroker, doors: list[Door]) -> Mapping[str, Outcome]:
    """What came of each, by the door's name."""
    command = client.program(TASK)
    ended = subprocess.run(
        command.words,
        env=command.environment,
        input=as_json(secured, doors).encode(),
        capture_output=True,
        timeout=RUN_WITHIN,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in ended.stdout.splitlines()]
    return {each.name: each for each in outcomes}


@pytest.fixture(scope="module", params=[FRANZ_GO, KAFKAJS], ids=lambda each: each.name)
def client(request: pytest.FixtureRequest) -> Client:
    asked: Client = request.param
    try:
        asked.program(TASK)
    except ClientUnavailable as reason:
        pytest.skip(f"{asked.name} cannot be had: {reason}")
    return asked


@pytest.fixture(scope="module")
def outcomes(client: Client, secured: SecuredBroker) -> Mapping[str, Outcome]:
    return come(client, secured, [*OPEN, *CLOSED])


@pytest.fixture(scope="module")
def written(outcomes: Mapping[str, Outcome], secured: SecuredBroker) -> Mapping[int, bytes]:
    """What is there once the client has ended, by offset."""
    with (
        Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512)) as brokers,
        Consumer(brokers, TOPIC, Beginning(), to_end=True) as consumer,
    ):
        return {each.record.offset: each.record.value or b"" for each in consumer}


@pytest.mark.parametrize("door", OPEN, ids=str)
def test_other_languages_come_in_where_they_may(
    client: Client, outcomes: Mapping[str, Outcome], written: Mapping[int, bytes], door: Door
) -> None:
    outcome = outcomes[str(door)]
    assert outcome.error == ""
    assert written[outcome.offset].decode() == str(door)
    if client.reads:
        assert outcome.read == str(door)


@pytest.mark.parametrize("door", CLOSED, ids=str)
def test_other_languages_are_told_where_they_may_not(
    outcomes: Mapping[str, Outcome], door: Door
) -> None:
    assert re.search(CLOSED[door], outcomes[str(door)].error)
