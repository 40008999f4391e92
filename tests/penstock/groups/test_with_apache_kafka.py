"""`penstock groups` against a broker of Apache Kafka's, and beside its kafka-consumer-groups.sh:
each goes on with what the other did."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.apache_kafka import NEWEST, VERSION, ApacheKafka, kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.jvm import Jvm
from tests.penstock.groups.consumer_groups import (
    describe,
    fill_topic,
    member,
    names,
    offsets,
    read_all,
)
from tests.penstock.running import At

pytestmark = pytest.mark.long

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Tool = Callable[..., str]


def test_groups_are_shown_set_and_deleted(
    running_kafka: ApacheKafka, new_topic: str, tmp_path: Path
) -> None:
    at = At(running_kafka.bootstrap)
    fill_topic(at, new_topic)
    every = ["groups", "reset", new_topic, "--all-topics", "--to-beginning", "--yes"]
    with member(at, new_topic, new_topic, 6):
        [listed] = [each for each in at.json("groups", "list") if each["name"] == new_topic]
        assert (listed["kind"], listed["state"], listed["members"]) == ("kafka", "Stable", 1)
        found = describe(at, new_topic)
        assert [each["lag"] for each in found["partitions"]] == [0, 0]
        assert found["membership"][0]["partitions"] == [f"{new_topic}-0", f"{new_topic}-1"]
        assert "has 1 member" in at.refused(*every)
    exported = tmp_path / "offsets.csv"
    exported.write_text(at.output("groups", "export", new_topic))
    at.output(*every)
    assert offsets(at, new_topic) == [0, 0]
    read_all(at, new_topic, new_topic)
    assert offsets(at, new_topic) == [3, 3]
    at.output("groups", "reset", new_topic, "--topic", f"{new_topic}:1", "--shift", "-2", "--yes")
    assert offsets(at, new_topic) == [3, 1]
    at.output("groups", "import", str(exported), "--yes")
    assert offsets(at, new_topic) == [3, 3]
    at.output("groups", "delete-offsets", new_topic, "--topic", f"{new_topic}:0", "--yes")
    assert offsets(at, new_topic) == [3]
    at.output("groups", "delete", new_topic, "--yes")
    assert new_topic not in names(at)


@pytest.fixture(scope="module", params=[pytest.param(VERSION, marks=pytest.mark.long), NEWEST])
def java(request: pytest.FixtureRequest) -> Iterator[Jvm]:
    classpath = kafka_classpath(request.param)
    if classpath is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(request.param)}")
    with Jvm(classpath) as java:
        yield java


@pytest.fixture
def tool(java: Jvm, running_broker: BrokerProcess) -> Tool:
    """Runs it, and returns what it prints."""

    def run(*arguments: str) -> str:
        printed = java.new("java.io.ByteArrayOutputStream")
        java.find("java.lang.System").setOut(java.new("java.io.PrintStream", printed))
        where = ["--bootstrap-server", running_broker.bootstrap]
        java.find(TOOL).main(java.array("java.lang.String", *where, *arguments))
        said = str(printed.toString())
        assert "Error" not in said, said
        return said

    return run


def rows_of(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines() if line.strip()]


def test_what_one_exports_the_other_takes(
    at: At, new_topic: str, tmp_path: Path, tool: Tool
) -> None:
    fill_topic(at, new_topic)
    read_all(at, new_topic, new_topic)
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    ours.write_text(at.output("groups", "export", new_topic))
    group = ["--group", new_topic]
    reset = ["--reset-offsets", *group]
    theirs.write_text(tool(*reset, "--all-topics", "--to-offset", "1", "--export", "--dry-run"))
    at.output("groups", "reset", new_topic, "--from-file", str(theirs), "--yes")
    assert offsets(at, new_topic) == [1, 1]
    tool(*reset, "--from-file", str(ours), "--execute")
    assert offsets(at, new_topic) == [3, 3]
    tool(*reset, "--topic", f"{new_topic}:1", "--to-earliest", "--execute")
    assert offsets(at, new_topic) == [3, 0]
    described = rows_of(tool("--describe", *group))
    assert sorted(each[1:6] for each in described if each[0] == new_topic) == [
        [new_topic, "0", "3", "3", "0"],
        [new_topic, "1", "0", "3", "3"],
    ]
