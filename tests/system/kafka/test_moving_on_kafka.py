"""`penstock brokers drain` and `fill` on Apache Kafka, which they ask as its own tools do.

On Penstock, which Apache Kafka's tool asks as well: tests/system/test_three_brokers.py.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka.apache_kafka import QUICK_JVM, ApacheKafkaCluster, kafka_classpath, why_no_kafka
from tests.system.conftest import KAFKA_VERSIONS
from tests.system.replicas_at import LISTS, RATES, ReplicasAt

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

PAIRS = ([1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2])
LINES = [f"line {each}" for each in range(600)]


@pytest.fixture(params=KAFKA_VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplicasAt]:
    """Of three nodes."""
    if kafka_classpath(request.param) is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(request.param)}")
    cluster = ApacheKafkaCluster(tmp_path, heap="384m", jvm=QUICK_JVM, version=request.param)
    with cluster:
        yield ReplicasAt(",".join(each.bootstrap for each in cluster.nodes.values()))


def test_a_broker_of_apache_kafka_is_drained_and_filled_again(kafka: ReplicasAt) -> None:
    at = kafka.at
    kafka.create("t", *PAIRS)
    at.output("produce", "t", stdin="\n".join(LINES))
    assert {each["id"] for each in at.json("brokers", "list")} == {1, 2, 3}

    planned = at.json("brokers", "drain", "3", "--dry-run")
    assert len(planned) == 4
    assert all(3 in each["from"] and 3 not in each["to"] for each in planned)
    assert kafka.replicas("t") == [tuple(each) for each in PAIRS], "a dry run moves nothing"

    begun = at.run("brokers", "drain", "3", "--throttle", "5e6", "--no-wait")
    assert begun.returncode == 0, begun.stderr
    assert "4 partitions are being moved" in begun.stderr
    kafka.until_throttles_are(RATES | LISTS, "t")
    watched = at.run("brokers", "drain", "3")
    assert watched.returncode == 0, watched.stderr
    assert "the throttle was removed" in watched.stderr
    assert kafka.loads("t") == {1: 6, 2: 6}
    kafka.until_throttles_are(set(), "t")
    other = at.run("brokers", "drain", "2")
    assert other.returncode == 0, other.stderr
    assert kafka.loads("t") == {1: 6, 3: 6}

    filled = at.run("brokers", "fill", "2", "--throttle", "5e6")
    assert filled.returncode == 0, filled.stderr
    assert "broker 2 now has its share of the replicas" in filled.stderr
    assert kafka.loads("t") == {1: 4, 2: 4, 3: 4}
    assert Counter(each[0] for each in kafka.replicas("t")) == {1: 2, 2: 2, 3: 2}
    kafka.until_throttles_are(set(), "t")
    read = at.output("consume", "t", "--from", "beginning", "--count", str(len(LINES)))
    assert sorted(read.splitlines()) == sorted(LINES)
