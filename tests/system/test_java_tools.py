"""Apache Kafka's own command line tools, with its Java clients, against the broker.

They are in one JVM; one test walks through a topic's life.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.admin.users import remove_user, set_password, users
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from ground.logins.scram import ScramMechanism
from harness.kafka.apache_kafka import ToolFailed
from harness.kafka.kafka_tools import KafkaTools
from harness.processes.waiting import wait_until
from tests.system.clients.contents import EPOCH
from tests.system.clients.interface import Record
from tests.system.clients.librdkafka import Librdkafka
from tests.system.conftest import KAFKA_VERSIONS, Server, against_both, kafka_tools


class Tools:
    """The tools by the names of their scripts, at one server. Each answers its standard output."""

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self._tools = tools
        self._bootstrap = bootstrap

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        where = ("--bootstrap-server", self._bootstrap)
        ended = self._tools.run(f"kafka-{tool}", *where, *arguments, stdin=stdin)
        if ended.status:
            raise ToolFailed(f"{tool} ended with {ended.status}:\n{ended.said}")
        return ended.output


@pytest.fixture(scope="module", params=KAFKA_VERSIONS)
def of_a_release(request: pytest.FixtureRequest) -> Iterator[KafkaTools]:
    with kafka_tools(request.param) as tools:
        yield tools


@pytest.fixture
def tools(server: Server, of_a_release: KafkaTools) -> Tools:
    return Tools(of_a_release, server.bootstrap)


@pytest.mark.timeout(180)
def test_the_life_of_a_topic(server: Server, topic: str, tools: Tools, tmp_path: Path) -> None:
    wanted = ["--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1234567"]
    tools("topics", *wanted)
    with pytest.raises(ToolFailed, match="already exists"):
        tools("topics", *wanted)
    assert topic in tools("topics", "--list").splitlines()

    tools("topics", "--alter", "--topic", topic, "--partitions", "3")
    described = tools("topics", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1234567" in described
    assert described.count("Leader: 1") == 3

    entity = ["--entity-type", "topics", "--entity-name", topic]
    change = "retention.ms=7654321,segment.bytes=2097152"
    tools("configs", "--alter", *entity, "--add-config", change)
    tools("configs", "--alter", *entity, "--delete-config", "segment.bytes")
    described = tools("configs", "--describe", *entity)
    assert "retention.ms=7654321" in described
    assert "segment.bytes" not in described

    lines = [f"key {number}:value {number} äöü" for number in range(500)]
    stdin = "\n".join(lines)
    options = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    options += ["--compression-codec", "lz4"]
    tools("console-producer", "--topic", topic, *options, stdin=stdin)
    offsets = tools("get-offsets", "--topic", topic)
    # The Java client chooses the partitions: together they hold everything.
    ends = [int(line.rsplit(":", 1)[1]) for line in offsets.splitlines()]
    assert len(ends) == 3
    assert sum(ends) == 500

    seen = []
    print_keys = ["--formatter-property", "print.key=true"]
    print_keys += ["--formatter-property", "key.separator=:"]
    for partition, count in enumerate(ends):
        where = ["--topic", topic, "--partition", str(partition), "--offset", "earliest"]
        if count:
            limit = ["--max-messages", str(count), "--timeout-ms", "20000"]
            seen += tools("console-consumer", *where, *limit, *print_keys).splitlines()
    assert sorted(seen) == sorted(lines)

    first = ends.index(max(ends))
    offsets_file = tmp_path / "offsets.json"
    where_to_cut = [{"topic": topic, "partition": first, "offset": 5}]
    offsets_file.write_text(json.dumps({"version": 1, "partitions": where_to_cut}))
    tools("delete-records", "--offset-json-file", str(offsets_file))
    earliest = tools("get-offsets", "--topic", topic, "--time", "earliest")
    assert f"{topic}:{first}:5" in earliest.splitlines()

    described = tools("log-dirs", "--describe", "--topic-list", topic)
    found = json.loads(described.splitlines()[-1])
    (directory,) = found["brokers"][0]["logDirs"]
    assert {each["partition"] for each in directory["partitions"]} == {
        f"{topic}-{number}" for number in range(3)
    }
    assert all(
        each["size"] > 0 for each in directory["partitions"] if ends[int(each["partition"][-1])]
    )

    tools("topics", "--delete", "--topic", topic)
    assert topic not in tools("topics", "--list").splitlines()


@against_both
def test_offsets_by_timestamp(server: Server, topic: str, tools: Tools) -> None:
    tools("topics", "--create", "--topic", topic)
    records = [Record(b"", timestamp=EPOCH + each) for each in (1000, 5000, 2000, 9000, 3000)]
    Librdkafka().produce(server.bootstrap, topic, 0, records)
    expected = {str(EPOCH + 1500): 1, "earliest": 0, "latest": 5, "max-timestamp": 3}
    for time, offset in expected.items():
        assert (
            tools("get-offsets", "--topic", topic, "--time", time).strip() == f"{topic}:0:{offset}"
        )


@against_both
@pytest.mark.timeout(180)
def test_passwords_of_users(server: Server, topic: str, tools: Tools) -> None:
    """Set by Kafka's tool and by our command, seen by both."""
    entity = ["--entity-type", "users", "--entity-name", topic]
    tools(
        "configs", "--alter", *entity, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]"
    )
    with Brokers(Bootstrap.of(server.bootstrap)) as brokers:
        (found,) = users(brokers, topic)
        assert found.iterations == {ScramMechanism.SHA_256: 8192}
        set_password(brokers, topic, "y", 4096)
        described = tools("configs", "--describe", *entity)
        for mechanism in ScramMechanism:
            assert f"{mechanism}=iterations=4096" in described
        tools("configs", "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
        (found,) = users(brokers, topic)
        assert found.iterations == {ScramMechanism.SHA_512: 4096}
        remove_user(brokers, found)
        wait_until(lambda: not users(brokers, topic), within=10, what="the user is gone")
    assert "iterations" not in tools("configs", "--describe", *entity)
