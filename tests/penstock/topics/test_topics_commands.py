"""`penstock topics`, against a running broker; `apply` also against one without others' topics."""

import re
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.penstock.declared import Declared
from tests.penstock.running import At
from tests.penstock.terminals import typed


def test_the_life_of_a_topic(at: At, new_topic: str) -> None:
    options = ("--partitions", "2", "--config", "retention.ms=7200000")
    created = at.json("topics", "create", new_topic, *options)
    assert re.fullmatch(r"[0-9a-f-]{36}", created["id"])
    known = {"name": new_topic, "id": created["id"], "partitions": 2, "replication_factor": 1}
    assert created == known
    listed = {each["name"]: each for each in at.json("topics", "list")}
    assert listed[new_topic] == created | {"under_replicated": 0, "without_leader": 0}

    at.output("produce", new_topic, "--partition", "1", stdin="a\nb\n")
    described = at.json("topics", "describe", new_topic)
    assert described["id"] == created["id"]
    assert [(each["first"], each["next"]) for each in described["partitions"]] == [(0, 0), (0, 2)]
    retention = {"config": "retention.ms", "value": "7200000", "is_default": False}
    assert described["configs"] == [retention]

    changes = ["--config", "max.message.bytes=5000", "--default", "retention.ms"]
    assert at.output("topics", "alter", new_topic, *changes) == f"altered {new_topic}\n"
    at.output("topics", "alter", new_topic, "--partitions", "3")
    described = at.json("topics", "describe", new_topic)
    assert len(described["partitions"]) == 3
    assert [each["config"] for each in described["configs"]] == ["max.message.bytes"]
    everything = at.json("topics", "describe", new_topic, "--all")["configs"]
    assert {"config": "retention.ms", "value": "604800000", "is_default": True} in everything
    assert at.output("topics", "delete", new_topic, "--yes") == f"deleted {new_topic}\n"
    refusal = at.refused("topics", "describe", new_topic)  # may add a topic of a similar name
    assert refusal.startswith(f"penstock: no topic {new_topic}")


def test_tables_for_people(at: At, new_topic: str) -> None:
    said = at.output("topics", "create", new_topic, "--config", "cleanup.policy=compact")
    assert said == f"created {new_topic}: partitions 1, replication factor 1\n"
    lines = at.output("topics", "list").splitlines()
    titles = "name partitions replication factor under replicated without leader id"
    assert lines[0].split() == titles.split()
    (row,) = [line.split() for line in lines if line.startswith(new_topic)]
    assert row[1:5] == ["1", "1", "0", "0"]
    lines = at.output("topics", "describe", new_topic).splitlines()
    titles = "partition leader epoch replicas in sync first next"
    assert lines[0].split() == titles.split()
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
        assert said in at.refused("topics", *arguments).lower(), arguments


def test_a_topic_is_deleted_by_whoever_says_yes(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    for answer, code, said in (("n\n", 1, "nothing was deleted"), ("y\n", 0, "")):
        with typed(answer) as terminal:
            ended = at.run("topics", "delete", new_topic, stdin=terminal)
        assert (ended.returncode, said in ended.stderr) == (code, True)
        assert f"delete {new_topic} with all messages, irreversibly? [y/N]" in ended.stderr
    assert ended.stdout == f"deleted {new_topic}\n"


@pytest.fixture
def topics(at: At, tmp_path: Path) -> Declared:
    return Declared(at, "topics", tmp_path)


def described(at: At, topic: str) -> tuple[int, dict[str, str]]:
    said = at.json("topics", "describe", topic)
    return len(said["partitions"]), {each["config"]: each["value"] for each in said["configs"]}


def test_topics_become_what_is_declared(at: At, topics: Declared, new_topic: str) -> None:
    first = {"name": new_topic, "partitions": 2, "configs": {"retention.ms": 7200000}}
    other = {"name": f"{new_topic}.other"}
    assert topics.dry(first, other) == {new_topic: "new", other["name"]: "new"}
    assert at.run("topics", "describe", new_topic).returncode == 1
    assert topics.apply(first, other) == {new_topic: "new", other["name"]: "new"}
    assert described(at, new_topic) == (2, {"retention.ms": "7200000"})
    assert topics.apply(first, other) == {new_topic: "unchanged", other["name"]: "unchanged"}

    configs = {"retention.ms": None, "max.message.bytes": 5000}
    changed = {"name": new_topic, "partitions": 3, "configs": configs}
    assert topics.dry(changed) == {new_topic: "changed"}
    assert described(at, new_topic)[0] == 2
    topics.write(changed)
    assert at.output("topics", "apply", str(topics.file)).splitlines() == [
        f"changed    {new_topic}",
        "  ~ max.message.bytes: default → 5000",
        "  ~ partitions: 2 → 3",
        "  ~ retention.ms: 7200000 → default",
    ]
    assert described(at, new_topic) == (3, {"max.message.bytes": "5000"})
    assert topics.apply(changed) == {new_topic: "unchanged"}
    # What it does not say stays.
    assert topics.apply({"name": new_topic}) == {new_topic: "unchanged"}

    gone = [{"name": each, "state": "absent"} for each in (new_topic, other["name"])]
    topics.write(*gone)
    assert "pass --yes" in at.refused("topics", "apply", str(topics.file), code=2)
    assert set(topics.dry(*gone).values()) == {"deleted"}
    assert set(topics.apply(*gone).values()) == {"deleted"}
    assert set(topics.apply(*gone).values()) == {"unchanged"}


def test_nothing_is_begun_if_anything_would_be_refused(
    at: At, topics: Declared, new_topic: str
) -> None:
    topics.apply({"name": new_topic, "partitions": 2})
    well = {"name": f"{new_topic}.well"}
    for entry, why in (
        ({"name": new_topic, "partitions": 1}, "partitions cannot be removed"),
        ({"name": new_topic, "replication": 3}, "its replication factor stays 1"),
        ({"name": new_topic, "configs": {"no.such": 1}}, "no.such"),
        ({"name": new_topic, "configs": {"retention.ms": "soon"}}, "retention.ms"),
        ({"name": f"{new_topic}.2", "replication": 2}, "replication"),
        ({"name": f"{new_topic}.2", "configs": {"no.such": 1}}, "no.such"),
        ({"name": "../x"}, "topic"),
    ):
        said, line = topics.refused(well, entry)
        assert line == "penstock: 1 of 2 topics refused, and nothing was changed"
        (bad,) = [each for each in said["topics"] if each["outcome"] == "refused"]
        assert why in " ".join(bad["reasons"]).lower()
        assert at.run("topics", "describe", well["name"]).returncode == 1
    assert described(at, new_topic) == (2, {})


def test_what_is_wrong_with_the_file(topics: Declared, new_topic: str) -> None:
    for entries, why in (
        (({"name": new_topic}, {"name": new_topic}), "is declared twice"),
        (({"name": new_topic, "partition": 3},), "did you mean partitions?"),
        (({"name": new_topic, "partitions": 0},), "`partitions` must be at least 1, not 0"),
    ):
        said, line = topics.refused(*entries, code=2)
        assert (said, why in line) == ({}, True), line


def test_all_that_there_may_be(tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        at = At(broker.bootstrap)
        topics = Declared(at, "topics", tmp_path)
        kept = {"name": "kept", "configs": {"retention.ms": "3600000"}}
        topics.apply(kept, {"name": "other"}, {"name": "_ours"})
        at.output("topics", "alter", "kept", "--config", "max.message.bytes=5000")
        exact = ("--exact",)
        expected = {"kept": "changed", "other": "deleted"}
        assert topics.dry(kept, options=exact) == expected
        assert topics.apply(kept, options=exact) == expected
        assert topics.apply(kept, options=exact) == {"kept": "unchanged"}
        assert [each["name"] for each in at.json("topics", "list")] == ["_ours", "kept"]
        assert described(at, "kept") == (1, {"retention.ms": "3600000"})
        topics.write()
        nothing = at.refused("topics", "apply", str(topics.file), "--exact", "--yes", code=2)
        assert "would delete all" in nothing
