"""`penstock groups`, against a running broker."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from broker.configs.config import AuthorizationConfig
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.broker.api.conftest import client, permit, running
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RunningBroker
from tests.client.group.conftest import zookeeper_of
from tests.penstock.groups.consumer_groups import (
    describe,
    fill_topic,
    member,
    names,
    offsets,
    read_all,
)
from tests.penstock.running import At
from wire.acls import Operation, ResourceType

__all__ = ["client", "permit", "running"]  # fixtures of a broker with permissions

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
WHO = "User:ANONYMOUS (there is no login)"


def test_a_group_is_listed_and_described(at: At, new_topic: str) -> None:
    fill_topic(at, new_topic)
    with member(at, new_topic, new_topic, 6) as consumer:
        at.output("produce", new_topic, "--partition", "1", stdin="more\nand more\n")
        [listed] = [each for each in at.json("groups", "list") if each["name"] == new_topic]
        assert listed == {
            "name": new_topic,
            "kind": "kafka",
            "protocol_type": "consumer",
            "state": "Stable",
            "members": 1,
            "coordinator": 1,
        }
        found = describe(at, new_topic)
        assert {name: found[name] for name in listed} == listed
        assert found["rebalancing"] is False
        [only] = found["membership"]
        assert (only["client"], only["topics"]) == ("reader-of-a-test", [new_topic])
        assert only["partitions"] == [f"{new_topic}-0", f"{new_topic}-1"]
        first, second = found["partitions"]
        assert first == {
            "topic": new_topic,
            "partition": 0,
            "committed": 3,
            "end": 3,
            "lag": 0,
            "lag_seconds": 0.0,
            "member": consumer.memberid(),
            "why": "",
        }
        assert (second["committed"], second["end"], second["lag"]) == (3, 5, 2)
        assert 0 <= second["lag_seconds"] < 600
    lines = at.output("groups", "describe", new_topic).splitlines()
    assert lines[0].split() == ["name", "kind", "state", "members", "coordinator"]
    assert lines[1].split() == [new_topic, "kafka", "Empty", "0", "1"]
    assert " ".join(lines[3].split()) == "topic partition committed end lag lag seconds member"
    assert lines[4].split() == [new_topic, "0", "3", "3", "0", "0.0", "-"]
    assert any(line.split()[0] == new_topic for line in at.output("groups", "list").splitlines())


def test_a_group_is_reset(at: At, new_topic: str, tmp_path: Path) -> None:
    fill_topic(at, new_topic)
    read_all(at, new_topic, new_topic)
    at.output("produce", new_topic, "--partition", "0", stdin="late\n")
    reset = ["groups", "reset", new_topic]
    dry = at.json(*reset, "--all-topics", "--to-beginning", "--dry-run")
    assert dry["dry_run"] is True
    assert [(each["before"], each["after"]) for each in dry["offsets"]] == [(3, 0), (3, 0)]
    assert offsets(at, new_topic) == [3, 3]
    file = tmp_path / "offsets.csv"
    file.write_text(f'"{new_topic}",1,2\n')
    for arguments, after in (
        (["--all-topics", "--to-beginning"], [0, 0]),
        (["--topic", f"{new_topic}:1", "--to-end"], [0, 3]),
        (["--topic", new_topic, "--to-offset", "2"], [2, 2]),
        (["--all-topics", "--shift", "-1"], [1, 1]),
        (["--all-topics", "--to-time", "2001-09-09T01:46:40Z"], [0, 0]),
        (["--all-topics", "--by-duration", "0s"], [4, 3]),
        (["--all-topics", "--by-duration", "7d"], [0, 0]),
        (["--from-file", str(file)], [0, 2]),
    ):
        assert at.json(*reset, *arguments, "--yes")["dry_run"] is False
        assert offsets(at, new_topic) == after, arguments
    clamped = at.json(*reset, "--all-topics", "--to-offset", "100", "--yes")["offsets"]
    assert [each["after"] for each in clamped] == [4, 3]
    assert [each["why"] for each in clamped] == ["100 does not exist: the log ends here"] * 2
    said = at.output(*reset, "--all-topics", "--to-beginning", "--yes").splitlines()
    assert said[0].split() == ["group", "topic", "partition", "before", "after"]
    assert said[1].split() == [new_topic, new_topic, "0", "4", "0"]
    assert said[-1] == f"set {new_topic}: offsets 2"
    with member(at, new_topic, new_topic, 7):
        assert offsets(at, new_topic) == [4, 3]


def test_groups_are_exported_and_imported(at: At, new_topic: str, tmp_path: Path) -> None:
    fill_topic(at, new_topic)
    first, second = groups = [f"{new_topic}-a", f"{new_topic}-b"]
    for name in groups:
        read_all(at, name, new_topic)
    text = at.output("groups", "export", *groups)
    assert text == "".join(
        f'"{name}","{new_topic}",{partition},3\n' for name in groups for partition in (0, 1)
    )
    everything = at.output("groups", "export", "--all")
    assert set(text.splitlines()) <= set(everything.splitlines())
    file = tmp_path / "groups.csv"
    file.write_text(text)
    at.output("groups", "reset", first, "--all-topics", "--to-beginning", "-y")
    assert at.output("groups", "delete", second, "--yes") == f"deleted {second}\n"
    at.json("groups", "import", str(file), "--dry-run")
    assert offsets(at, first) == [0, 0]
    done = at.json("groups", "import", str(file), "--yes")["offsets"]
    assert [each["before"] for each in done] == [0, 0, None, None]
    assert [offsets(at, name) for name in groups] == [[3, 3], [3, 3]]
    rows = json.loads(at.output("groups", "export", first, "--json"))
    assert rows[1] == {"group": first, "topic": new_topic, "partition": 1, "offset": 3}
    file.write_text(json.dumps(rows))
    assert len(at.json("groups", "import", str(file), "--yes")["offsets"]) == 2


def test_what_is_lost_by_retention_is_said(at: At, new_topic: str) -> None:
    fill_topic(at, new_topic, partitions=1)
    read_all(at, new_topic, new_topic, 3)
    reset = ["groups", "reset", new_topic, "--all-topics"]
    at.output(*reset, "--to-beginning", "-y")
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    for done in admin.delete_records([TopicPartition(new_topic, 0, 2)]).values():
        done.result(60)
    [only] = describe(at, new_topic)["partitions"]
    assert (only["committed"], only["end"], only["lag"]) == (0, 3, 1)
    assert only["why"] == "2 messages were deleted before the group read them"
    lines = at.output("groups", "describe", new_topic).splitlines()
    assert lines[4].endswith(only["why"])
    [moved] = at.json(*reset, "--to-offset", "0", "-y")["offsets"]
    assert (moved["after"], moved["why"]) == (2, "0 does not exist: the log begins here")


def test_topics_that_are_read_no_more_are_forgotten(at: At, new_topic: str) -> None:
    other = f"{new_topic}-other"
    for topic in (new_topic, other):
        fill_topic(at, topic)
    read_all(at, new_topic, other)
    forget = ["groups", "delete-offsets", new_topic]
    with member(at, new_topic, new_topic, 6):
        read = at.refused(*forget, "--topic", new_topic, "--yes")
        assert "it has members that read the topic: stop them first" in read
        assert at.json(*forget, "--topic", f"{other}:1", "--yes") == {
            "deleted": [{"group": new_topic, "topic": other, "partition": 1}]
        }
    left = [(each["topic"], each["partition"]) for each in describe(at, new_topic)["partitions"]]
    assert left == [(new_topic, 0), (new_topic, 1), (other, 0)]
    said = at.output(*forget, "--topic", other, "--topic", f"{new_topic}:0", "--yes")
    assert said == f"deleted the offsets of {new_topic} in {new_topic}-0, {other}-0\n"
    again = at.refused(*forget, "--topic", other, "--yes")
    assert f"group {new_topic} has no offsets in topic {other}" in again
    assert at.json(*forget, "--topic", new_topic, "--yes")["deleted"]


def test_who_is_in_the_way_is_named(at: At, new_topic: str) -> None:
    fill_topic(at, new_topic)
    with member(at, new_topic, new_topic, 6):
        for command in (
            ["reset", new_topic, "--all-topics", "--to-end"],
            ["reset", new_topic, "--new", "--topic", new_topic, "--to-end"],
            ["delete", new_topic],
        ):
            assert at.refused("groups", *command, "--yes") == (
                f"penstock: group {new_topic} has 1 member, which would overwrite the offsets: "
                "stop "
                "it first: reader-of-a-test at 127.0.0.1"
            )


def test_what_cannot_be_done_is_one_line(at: At, new_topic: str, tmp_path: Path) -> None:
    fill_topic(at, new_topic)
    read_all(at, new_topic, new_topic)
    file = tmp_path / "offsets.csv"
    file.write_text(f"{new_topic},0,1\n{new_topic},0\n")
    reset = ["reset", new_topic]
    for arguments, code, said in (
        (["describe", "nobody"], 1, "no group nobody: see `penstock groups list`"),
        (["delete", new_topic, "nobody", "-y"], 1, "no group nobody"),
        (["delete-offsets", "nobody", "-t", new_topic, "-y"], 1, "no group nobody"),
        (["delete-offsets", new_topic, "-y"], 2, "missing option '-t' / '--topic'"),
        (["delete-offsets", new_topic, "-t", "x", "-y"], 1, "has no offsets in topic x"),
        (["delete-offsets", new_topic, "-t", f"{new_topic}:9", "-y"], 1, f"in {new_topic}-9"),
        (["export", "nobody"], 1, "no group nobody"),
        (["export"], 2, "name the groups, or pass --all"),
        (["reset", "nobody", "--topic", new_topic, "--to-end", "-y"], 1, "no group nobody"),
        ([*reset, "--to-end", "-y"], 2, "either --topic or --all-topics"),
        ([*reset, "--all-topics", "-y"], 2, "pass one of --to-beginning"),
        ([*reset, "--all-topics", "--to-end", "--shift", "1"], 2, "not --to-end and --shift"),
        ([*reset, "--topic", f"{new_topic}:x", "--to-end"], 2, "neither a topic nor one with"),
        ([*reset, "--topic", f"{new_topic}:7", "--to-end", "-y"], 1, "only 0 to 1"),
        ([*reset, "--topic", "no-such-topic", "--to-end", "-y"], 1, "no topic no-such-topic"),
        ([*reset, "--all-topics", "--to-end"], 2, "stdin is not a terminal: pass --yes to confirm"),
        ([*reset, "--all-topics", "--by-duration", "soon"], 2, "not a duration such as 90s, 15m"),
        ([*reset, "--from-file", str(file), "-y"], 1, "line 2: 2 columns; expected"),
        ([*reset, "--from-file", str(tmp_path), "-y"], 2, "is a directory"),
        (["import", str(file), "-y"], 1, "line 1: 3 columns; expected group,topic"),
        (["import", f"{file}x", "-y"], 1, "no such file"),
    ):
        ended = at.run("groups", *arguments)
        (line,) = ended.stderr.splitlines()
        assert (ended.returncode, said in line) == (code, True), (arguments, line)
    assert offsets(at, new_topic) == [3, 3]


def test_a_group_that_is_not_there_is_made_on_demand(at: At, new_topic: str) -> None:
    fill_topic(at, new_topic)
    at.output("groups", "reset", new_topic, "--new", "--topic", new_topic, "--to-offset", "2", "-y")
    with member(at, new_topic, new_topic, 2):
        assert offsets(at, new_topic) == [3, 3]


def test_a_group_of_penstocks_own_consumers(
    at: At, new_topic: str, running_broker: BrokerProcess
) -> None:
    fill_topic(at, new_topic)
    consume = ["consume", new_topic, "--group", new_topic, "--from", "beginning"]
    consume += ["--zookeeper", zookeeper_of(running_broker)]

    def have_read_all() -> bool:
        return new_topic in names(at) and offsets(at, new_topic) == [3, 3]

    with at.running(*consume) as process:
        wait_until(have_read_all, within=120, what="all is read")
        found = describe(at, new_topic)
        assert (found["kind"], found["state"], found["members"]) == ("penstock", "Stable", 1)
        [only] = found["membership"]
        assert only["partitions"] == [f"{new_topic}-0", f"{new_topic}-1"]
        assert {each["member"] for each in found["partitions"]} == {only["member"]}
        ended = at.run("groups", "reset", new_topic, "--all-topics", "--to-end", "-y")
        assert f"group {new_topic} has 1 member" in ended.stderr
        process.end(signal.SIGTERM)
    wait_until(lambda: describe(at, new_topic)["members"] == 0, within=120, what="it has left")
    at.output("groups", "reset", new_topic, "--all-topics", "--to-offset", "2", "-y")
    assert sorted(at.output(*consume, "--count", "2").splitlines()) == ["0-2", "1-2"]
    assert describe(at, new_topic)["state"] == "Empty"
    at.output("groups", "delete", new_topic, "--yes")
    assert "no group" in at.refused("groups", "describe", new_topic)


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig()}


def test_which_right_is_missing_is_said(
    running: RunningBroker, permit: Callable[[Rules], None], new_topic: str
) -> None:
    at = At(f"127.0.0.1:{running.port}")
    permit(EVERYTHING)
    fill_topic(at, new_topic)
    reset = ["reset", new_topic, "--topic", new_topic, "--to-end", "--yes"]
    at.output("groups", *reset, "--new")
    sees_topic = rule(Operation.DESCRIBE, TOPIC, new_topic)
    sees_group = rule(Operation.DESCRIBE, GROUP, new_topic)
    forget = ["delete-offsets", new_topic, "--topic", new_topic, "--yes"]
    deletes_group = rule(Operation.DELETE, GROUP, new_topic)
    reads_group = rule(Operation.READ, GROUP, new_topic)
    for rules, command, missing in (
        ([], ["describe", new_topic], f"DESCRIBE or READ on group {new_topic}"),
        ([sees_group], ["delete", new_topic, "-y"], f"DELETE on group {new_topic}"),
        ([sees_group, sees_topic], forget, f"DELETE on group {new_topic}"),
        ([deletes_group, sees_topic], forget, f"READ on topic {new_topic}"),
        ([sees_group], reset, f"topic {new_topic}"),
        ([sees_group, sees_topic], reset, f"READ on group {new_topic}"),
        ([reads_group, sees_topic], reset, f"READ on topic {new_topic}"),
    ):
        permit(rules)
        said = at.run("groups", *command)
        assert said.returncode == 1, command
        assert said.stderr.startswith("penstock: "), said.stderr
        assert f"not allowed: {WHO} needs " in said.stderr, said.stderr
        assert said.stderr.endswith(f"{missing}\n"), said.stderr
    permit([])
    assert at.json("groups", "list") == []
    permit([rule(Operation.DESCRIBE, ResourceType.CLUSTER)])
    [listed] = at.json("groups", "list")
    assert (listed["name"], listed["state"]) == (new_topic, "Empty")
    assert (listed["kind"], listed["members"]) == (None, None)
    permit([sees_group])
    assert names(at) == [new_topic]
    assert describe(at, new_topic)["partitions"] == []  # of a topic that it may not see
