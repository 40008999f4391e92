"""`penstock topics`, against a running broker."""

import re

from tests.penstock.running import At


def test_the_life_of_a_topic(at: At, new_topic: str) -> None:
    created = at.json(
        "topics", "create", new_topic, "--partitions", "2", "--config", "retention.ms=7200000"
    )
    assert re.fullmatch(r"[0-9a-f-]{36}", created["id"])
    assert created == {
        "name": new_topic,
        "id": created["id"],
        "partitions": 2,
        "replication_factor": 1,
    }
    listed = {each["name"]: each for each in at.json("topics", "list")}
    assert listed[new_topic] == created | {"under_replicated": 0, "without_leader": 0}

    at.output("produce", new_topic, "--partition", "1", stdin="a\nb\n")
    described = at.json("topics", "describe", new_topic)
    assert described["id"] == created["id"]
    assert [(each["first"], each["next"]) for each in described["partitions"]] == [(0, 0), (0, 2)]
    assert described["configs"] == [
        {"config": "retention.ms", "value": "7200000", "is_default": False}
    ]

    changes = ["--config", "max.message.bytes=5000", "--default", "retention.ms"]
    assert at.output("topics", "alter", new_topic, *changes) == f"altered {new_topic}\n"
    at.output("topics", "alter", new_topic, "--partitions", "3")
    described = at.json("topics", "describe", new_topic)
    assert len(described["partitions"]) == 3
    assert [each["config"] for each in described["configs"]] == ["max.message.bytes"]
    everything = at.json("topics", "describe", new_topic, "--all")["configs"]
    assert {"config": "retention.ms", "value": "604800000", "is_default": True} in everything

    assert at.output("topics", "delete", new_topic, "--yes") == f"deleted {new_topic}\n"
    gone = at.run("topics", "describe", new_topic)
    assert (gone.returncode, gone.stderr) == (1, f"penstock: no topic {new_topic}\n")


def test_tables_for_people(at: At, new_topic: str) -> None:
    said = at.output("topics", "create", new_topic, "--config", "cleanup.policy=compact")
    assert said == f"created {new_topic}: partitions 1, replication factor 1\n"
    lines = at.output("topics", "list").splitlines()
    assert lines[0].split() == [
        *("name", "partitions", "replication", "factor"),
        *("under", "replicated", "without", "leader", "id"),
    ]
    (row,) = [line.split() for line in lines if line.startswith(new_topic)]
    assert row[1:5] == ["1", "1", "0", "0"]
    lines = at.output("topics", "describe", new_topic).splitlines()
    assert lines[0].split() == [
        "partition",
        "leader",
        "epoch",
        "replicas",
        "in",
        "sync",
        "first",
        "next",
    ]
    assert lines[1].split() == ["0", "1", "0", "1", "1", "0", "0"]
    assert lines[4].split() == ["cleanup.policy", "compact", "no"]


def test_what_a_broker_refuses_is_one_line(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    for arguments, said in (
        (["create", new_topic], "exists"),
        (["create", "../x"], "topic"),
        (["create", f"{new_topic}2", "--config", "no.such=1"], "no.such"),
        (["create", f"{new_topic}2", "--replication-factor", "2"], "replication"),
        (["alter", new_topic, "--config", "retention.ms=soon"], "retention.ms"),
        (["alter", new_topic, "--partitions", "1"], "partition"),
        (["delete", f"{new_topic}3", "-y"], "does not exist"),
        (["describe", f"{new_topic}3"], "no topic"),
    ):
        ended = at.run("topics", *arguments)
        assert ended.returncode == 1, arguments
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
        assert said in ended.stderr.lower(), ended.stderr
