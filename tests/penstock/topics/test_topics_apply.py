"""`penstock topics apply`, against a running broker, and one with nobody else's topics."""

from pathlib import Path

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from tests.penstock.declared import Declared
from tests.penstock.running import At


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

    changed = {
        "name": new_topic,
        "partitions": 3,
        "configs": {"retention.ms": None, "max.message.bytes": 5000},
    }
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
    asked = at.run("topics", "apply", str(topics.file))
    assert (asked.returncode, "say --yes" in asked.stderr) == (2, True)
    assert set(topics.dry(*gone).values()) == {"deleted"}
    assert set(topics.apply(*gone).values()) == {"deleted"}
    assert set(topics.apply(*gone).values()) == {"unchanged"}


def test_nothing_is_begun_if_anything_would_be_refused(
    at: At, topics: Declared, new_topic: str
) -> None:
    topics.apply({"name": new_topic, "partitions": 2})
    well = {"name": f"{new_topic}.well"}
    for entry, why in (
        ({"name": new_topic, "partitions": 1}, "never has fewer partitions"),
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
        (({"name": new_topic, "partitions": 0},), "0 is less than 1"),
    ):
        said, line = topics.refused(*entries, code=2)
        assert said == {}
        assert why in line


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
        nothing = at.run("topics", "apply", str(topics.file), "--exact", "--yes")
        assert (nothing.returncode, "would delete all" in nothing.stderr) == (2, True)
