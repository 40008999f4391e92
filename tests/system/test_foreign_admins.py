"""The admin clients of others create, alter and delete topics, and describe what is there."""

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from client.admin.quotas import alter_quotas
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.java.jvm import Jvm
from harness.processes.waiting import wait_until
from tests.system.clients import kcat
from tests.system.clients.aiokafka_client import AiokafkaAdmin
from tests.system.clients.interface import Admin, Record, Refused
from tests.system.clients.kafka_python import KafkaPythonAdmin
from tests.system.clients.librdkafka import Librdkafka, LibrdkafkaAdmin
from tests.system.conftest import Server, against_both, kafka_java
from tests.system.topics import create

ADMINS: list[Admin] = [LibrdkafkaAdmin(), KafkaPythonAdmin(), AiokafkaAdmin()]
JAVA_ADMIN = "org.apache.kafka.clients.admin"
each_admin = pytest.mark.parametrize("admin", ADMINS, ids=lambda admin: admin.name)


def refused(pattern: str) -> "pytest.RaisesExc[Refused]":
    """Each client writes Kafka's names of errors its own way."""
    return pytest.raises(Refused, match=f"(?i){pattern.replace('_', '.?')}")


def numbered(count: int) -> list[Record]:
    return [Record(f"{number}".encode()) for number in range(count)]


@against_both
def test_leaders_are_elected_on_request(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    client = AdminClient({"bootstrap.servers": server.bootstrap})
    asked = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
    outcomes = client.elect_leaders(ElectionType.PREFERRED, asked).result(30)
    assert {each.partition: error.code() for each, error in outcomes.items()} == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        7: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    assert client.elect_leaders(ElectionType.PREFERRED, None).result(30) == {}


@against_both
@each_admin
def test_a_topic_is_created_listed_and_deleted(server: Server, topic: str, admin: Admin) -> None:
    where = server.bootstrap
    admin.create_topic(where, topic, 3, {"retention.ms": "1234567"})
    for each in ADMINS:
        listed = f"{each.name} lists it"
        wait_until(lambda each=each: each.topics(where).get(topic) == 3, what=listed)
        assert each.configs(where, topic)["retention.ms"] == "1234567"
    directories = [server.data_dir / f"{topic}-{partition}" for partition in range(3)]
    assert all(each.is_dir() for each in directories)
    with refused("TOPIC_ALREADY_EXISTS"):
        admin.create_topic(where, topic, 3, {})
    admin.delete_topic(where, topic)
    for each in ADMINS:
        gone = f"{each.name} misses it"
        wait_until(lambda each=each: topic not in each.topics(where), what=gone)
    wait_until(lambda: not any(each.exists() for each in directories), what="its directories go")
    with refused("UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topic(where, topic)


@against_both
@each_admin
def test_what_a_topic_cannot_be(server: Server, topic: str, admin: Admin) -> None:
    where = server.bootstrap
    with refused("INVALID_PARTITIONS"):
        admin.create_topic(where, topic, 0, {})
    with refused("INVALID_CONFIG"):
        admin.create_topic(where, topic, 1, {"retention.ms": "a while"})
    with refused("INVALID_CONFIG"):
        admin.create_topic(where, topic, 1, {"no.such.config": "1"})
    for name in ("not/a/name", "..", "x" * 250):
        with refused("TOPIC_EXCEPTION|INVALID_TOPIC"):
            admin.create_topic(where, name, 1, {})
    assert topic not in admin.topics(where)


@against_both
@each_admin
def test_partitions_are_added_and_never_taken_away(
    server: Server, topic: str, admin: Admin
) -> None:
    where = server.bootstrap
    create(where, topic, partitions=2)
    admin.create_partitions(where, topic, 5)
    wait_until(lambda: admin.topics(where).get(topic) == 5, what="it has five partitions")
    Librdkafka().produce(where, topic, 4, numbered(3))
    assert len(Librdkafka().consume(where, topic, 4, "beginning", 3)) == 3
    for fewer_or_the_same in (2, 5):
        with refused("INVALID_PARTITIONS"):
            admin.create_partitions(where, topic, fewer_or_the_same)


@against_both
@each_admin
def test_configs_are_altered_and_described(server: Server, topic: str, admin: Admin) -> None:
    where = server.bootstrap
    create(where, topic, configs={"retention.ms": "1234567"})
    defaults = admin.configs(where, topic)
    assert defaults["cleanup.policy"] == "delete"
    assert defaults["max.message.bytes"] == "1048588"
    wanted = {"retention.ms": "7654321", "segment.bytes": "2097152"}
    admin.alter(where, topic, wanted)
    for each in ADMINS:
        wait_until(
            lambda each=each: wanted.items() <= each.configs(where, topic).items(),
            what=f"{each.name} sees the new values",
        )
    LibrdkafkaAdmin().reset(where, topic, "segment.bytes")
    wait_until(
        lambda: admin.configs(where, topic)["segment.bytes"] == defaults["segment.bytes"],
        what="the default holds again",
    )
    assert admin.configs(where, topic)["retention.ms"] == "7654321"
    with pytest.raises((Refused, ValueError)):
        admin.alter(where, topic, {"segment.bytes": "many"})
    assert admin.configs(where, topic)["segment.bytes"] == defaults["segment.bytes"]


@against_both
@each_admin
def test_records_are_deleted_from_the_beginning(server: Server, topic: str, admin: Admin) -> None:
    where = server.bootstrap
    create(where, topic)
    Librdkafka().produce(where, topic, 0, numbered(20))
    assert admin.delete_records(where, topic, 0, 7) == 7
    seen = Librdkafka().consume(where, topic, 0, "beginning", 13)
    assert [each.offset for each in seen] == list(range(7, 20))
    assert admin.delete_records(where, topic, 0, -1) == 20
    Librdkafka().produce(where, topic, 0, [Record(b"after")])
    assert Librdkafka().consume(where, topic, 0, "beginning", 1)[0].offset == 20
    with refused("OFFSET_OUT_OF_RANGE"):
        admin.delete_records(where, topic, 0, 1000)


@against_both
def test_the_cluster_is_described_alike_to_all(server: Server) -> None:
    where = server.bootstrap
    host, port = where.split(":")
    described = [admin.cluster(where) for admin in ADMINS]
    (first, *others) = described
    assert all(other == first for other in others), described
    assert first.brokers == {(1, host, int(port))}
    assert first.controller == 1
    stored = (server.data_dir / "meta.properties").read_text()
    assert f"cluster.id={first.cluster_id}\n" in stored


@against_both
@each_admin
def test_the_brokers_configs_are_described(server: Server, admin: Admin) -> None:
    configs = admin.broker_configs(server.bootstrap, 1)
    # What graphical tools look for, to know what the cluster can do.
    assert re.fullmatch(r"\d+\.\d+.*", configs["inter.broker.protocol.version"] or "")


@pytest.fixture(scope="module")
def java() -> Iterator[Jvm]:
    with kafka_java() as java:
        yield java


def test_java_tries_again_what_its_quota_did_not_allow(
    server: Server, topic: str, java: Jvm
) -> None:
    name = f"client-{topic}"
    rates: dict[str, float | None] = {"controller_mutation_rate": 2.0}
    with Brokers(Bootstrap.of(server.bootstrap)) as brokers:
        alter_quotas(brokers, {"client-id": name}, rates)
        settings = {"bootstrap.servers": server.bootstrap, "client.id": name}
        client = java.find(f"{JAVA_ADMIN}.Admin").create(settings)
        try:
            for number, partitions in enumerate((24, 1)):  # 22 of them at once
                new = java.new(f"{JAVA_ADMIN}.NewTopic", f"{topic}-{number}", partitions, 1)
                began = time.monotonic()
                client.createTopics([new]).all().get()
        finally:
            client.close(java.find("java.time.Duration").ZERO)
            alter_quotas(brokers, {"client-id": name}, dict.fromkeys(rates))
    assert time.monotonic() - began > 0.5  # it was refused, and has waited


@against_both
def test_java_is_told_what_it_may_do(server: Server, topic: str, java: Jvm) -> None:
    create(server.bootstrap, topic)
    client = java.find(f"{JAVA_ADMIN}.Admin").create({"bootstrap.servers": server.bootstrap})
    options = java.new(f"{JAVA_ADMIN}.DescribeClusterOptions").includeAuthorizedOperations(True)
    on_cluster = client.describeCluster(options).authorizedOperations().get()
    assert names_of(on_cluster) == (
        "ALTER ALTER_CONFIGS CLUSTER_ACTION CREATE DESCRIBE DESCRIBE_CONFIGS IDEMPOTENT_WRITE"
    )
    options = java.new(f"{JAVA_ADMIN}.DescribeTopicsOptions").includeAuthorizedOperations(True)
    described = client.describeTopics([topic], options).allTopicNames().get()
    assert names_of(described[topic].authorizedOperations()) == (
        "ALTER ALTER_CONFIGS CREATE DELETE DESCRIBE DESCRIBE_CONFIGS READ WRITE"
    )
    client.close()


def names_of(operations: Iterable[Any] | None) -> str:
    """Java's set of operations; None if there was none."""
    assert operations is not None, "nothing was told"
    return " ".join(sorted(each.name() for each in operations))


@against_both
def test_kcat_lists_brokers_and_topics(server: Server, topic: str) -> None:
    if not kcat.installed():
        pytest.skip("kcat is not installed")
    create(server.bootstrap, topic, partitions=3)
    listed = kcat.list_topics(server.bootstrap)
    assert f"broker 1 at {server.bootstrap}" in listed
    assert f'topic "{topic}" with 3 partitions' in listed


def test_the_topic_id_is_that_of_its_directory(server: Server, topic: str) -> None:
    create(server.bootstrap, topic)
    stored = Path(server.data_dir / f"{topic}-0" / "partition.metadata").read_text()
    assert re.fullmatch(r"version: 0\ntopic_id: [A-Za-z0-9_-]{22}\n?", stored), stored
