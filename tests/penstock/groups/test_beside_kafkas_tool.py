"""`penstock groups` and kafka-consumer-groups.sh: each goes on with what the other did."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.apache_kafka import NEWEST, VERSION, kafka_classpath, run_tool, why_no_kafka
from harness.broker_process import BrokerProcess
from tests.client.group.conftest import zookeeper_of
from tests.penstock.groups.test_groups_commands import a_topic, offsets, read_all
from tests.penstock.running import At

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Tool = Callable[..., str]


@pytest.fixture(params=[VERSION, NEWEST])
def tool(request: pytest.FixtureRequest, running_broker: BrokerProcess, tmp_path: Path) -> Tool:
    """Runs it, and returns what it prints."""
    if kafka_classpath(request.param) is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(request.param)}")

    def run(*arguments: str) -> str:
        where = ["--bootstrap-server", running_broker.bootstrap]
        ended = run_tool(
            TOOL, *where, *arguments, directory=tmp_path, within=120, version=request.param
        )
        said = ended.stdout.decode()
        assert "Error" not in said, said
        return said

    return run


def rows_of(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines() if line.strip()]


def test_what_one_exports_the_other_takes(
    at: At, new_topic: str, tmp_path: Path, tool: Tool
) -> None:
    a_topic(at, new_topic)
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


def test_it_shows_and_changes_groups_of_penstocks_own(
    at: At, new_topic: str, running_broker: BrokerProcess, tool: Tool
) -> None:
    a_topic(at, new_topic)
    consume = ["consume", new_topic, "--group", new_topic, "--from", "beginning"]
    consume += ["--zookeeper", zookeeper_of(running_broker)]
    at.output(*consume, "--count", "6")
    assert new_topic in tool("--list").split()
    group = ["--group", new_topic]
    state = rows_of(tool("--describe", *group, "--state"))
    assert "Empty" in state[-1]
    described = rows_of(tool("--describe", *group))
    assert sorted(each[2:6] for each in described if each[0] == new_topic) == [
        ["0", "3", "3", "0"],
        ["1", "3", "3", "0"],
    ]
    tool("--reset-offsets", *group, "--all-topics", "--shift-by", "-1", "--execute")
    assert sorted(at.output(*consume, "--count", "2").splitlines()) == ["0-2", "1-2"]
    tool("--delete-offsets", *group, "--topic", f"{new_topic}:0")
    assert offsets(at, new_topic) == [3]
    assert "successful" in tool("--delete", *group)
    assert new_topic not in [each["name"] for each in at.json("groups", "list")]
