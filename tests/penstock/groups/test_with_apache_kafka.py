"""`penstock groups` against a broker of Apache Kafka's."""

from pathlib import Path

import pytest

from harness.kafka.apache_kafka import ApacheKafka
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
