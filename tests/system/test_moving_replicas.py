"""Replicas moved between three brokers: throttled, by our commands, by Apache Kafka's own tool."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from client.reassignments import Moving, move, moving, take_throttle_away, throttle
from harness.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.broker_process import BrokerProcess
from harness.kafka_tools import KafkaTools
from harness.server_process import RunningServers
from harness.waiting import wait_until
from tests.system.replicas_at import LISTS, LONG, RATES, ReplicasAt

MIB = 2**20


class Throttled(NamedTuple):
    """What `/metrics` of a broker says of one side of its throttle."""

    rate: float | None
    bytes: float
    waited: float


def throttled(broker: BrokerProcess, side: str) -> Throttled:
    found = {
        sample.name.removeprefix("penstock_broker_"): sample.value
        for family in text_string_to_metric_families(broker.http("/metrics")[1])
        for sample in family.samples
        if sample.labels == {"side": side}
    }
    return Throttled(
        found.get("throttle_bytes_per_second"),
        found["throttled_bytes_total"],
        found["throttle_waited_seconds_total"],
    )


class Cluster(ReplicasAt, RunningServers):
    """Brokers 1, 2 and 3."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        settings = {"zookeeper_session_seconds": 4, "ledger": False, "auto_create_topics": False}
        self.servers: list[BrokerProcess] = [
            BrokerProcess(
                directory / f"broker-{each}",
                zookeeper=zookeeper,
                broker_id=each,
                settings={"rack": f"r{each}", **settings},
            )
            for each in (1, 2, 3)
        ]
        super().__init__(",".join(each.bootstrap for each in self.servers))

    def throttled(self, broker: int, side: str) -> Throttled:
        return throttled(self.servers[broker - 1], side)


@pytest.fixture
def cluster(tmp_path: Path, chroot: str) -> Iterator[Cluster]:
    with Cluster(tmp_path, chroot) as cluster:
        yield cluster


def write(cluster: Cluster, topic: str, size: int, *, partition: int = 0) -> None:
    """So many bytes, as they are; acknowledged by all in sync."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    message = bytes(100_000)
    for _ in range(size // len(message)):
        while True:
            try:
                producer.produce(
                    topic,
                    message,
                    partition=partition,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(LONG) == 0
    assert not refused


def moved(cluster: Cluster, topic: str, *replicas: Sequence[int]) -> bool:
    return cluster.replicas(topic) == [tuple(each) for each in replicas]


def test_a_throttled_move_takes_its_time_and_nobody_else_does(cluster: Cluster) -> None:
    """What is written meanwhile, to be copied by who is in sync, would alone take as long."""
    size, rate = 10 * MIB, MIB
    cluster.create("big", [1])
    cluster.create("kept", [1, 2])
    write(cluster, "big", size)
    move_of_big = {("big", 0): Moving((1, 2), adding=(2,), removing=(1,))}
    throttled_too = {("kept", 0): Moving((1, 2), adding=(1, 2), removing=())}
    with cluster.asked() as brokers:
        throttle(brokers, {**move_of_big, **throttled_too}, (1, 2, 3), rate)
        assert cluster.throttles("big", "kept") == RATES | LISTS
        wait_until(
            lambda: cluster.throttled(2, "copied") == (rate, 0, 0),
            within=LONG,
            what="a broker shows the rate",
        )
        began = time.monotonic()
        assert move(brokers, {("big", 0): (2,)}) == {}
        write(cluster, "kept", size)
        write(cluster, "big", MIB)
        assert moving(brokers).keys() == {("big", 0)}, "what was written was throttled"
        wait_until(lambda: moved(cluster, "big", [2]), within=LONG, what="it is moved")
        took = time.monotonic() - began
        # A second's worth comes at once; the last answer, a quarter of that, is not waited for.
        assert took >= size / rate - 1.25
        for broker, side, other in ((1, "sent", "copied"), (2, "copied", "sent")):
            shown = cluster.throttled(broker, side)
            assert shown.rate == rate
            assert shown.bytes >= size
            assert shown.waited < took + 1  # what waits is counted when it begins
            assert cluster.throttled(broker, other).bytes == 0, "what is copied by who is in sync"
        # Who copies waits before it asks, so that who sends need not hold anything back.
        waited = cluster.throttled(1, "sent").waited + cluster.throttled(2, "copied").waited
        assert waited > 0
        assert take_throttle_away(brokers, ["big", "kept"], (1, 2, 3))
        assert cluster.throttles("big", "kept") == set()
        assert not take_throttle_away(brokers, ["big", "kept"], (1, 2, 3))
        wait_until(
            lambda: cluster.throttled(2, "sent").rate is None,
            within=LONG,
            what="the rate is shown no more",
        )

        began = time.monotonic()
        assert move(brokers, {("big", 0): (3,)}) == {}
        wait_until(lambda: moved(cluster, "big", [3]), within=LONG, what="it is moved again")
        assert time.monotonic() - began < took
        assert cluster.throttled(2, "sent").bytes == 0


def test_the_leaders_side_is_throttled_by_itself(cluster: Cluster) -> None:
    size, rate = 6 * MIB, MIB
    cluster.create("big", [1])
    write(cluster, "big", size)
    with cluster.asked() as brokers:
        sends_only = {("big", 0): Moving((1,), adding=(), removing=())}
        throttle(brokers, sends_only, (1, 2, 3), rate)
        began = time.monotonic()
        assert move(brokers, {("big", 0): (2,)}) == {}
        wait_until(lambda: moved(cluster, "big", [2]), within=LONG, what="it is moved")
        # A second's worth comes at once; what is left may come in two answers of a batch each.
        assert time.monotonic() - began >= size / rate - 2
        assert take_throttle_away(brokers, ["big"], (1, 2, 3))


def test_a_broker_is_drained_and_filled_again(cluster: Cluster) -> None:
    at = cluster.at
    pairs = ([1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2])
    cluster.create("t", *pairs)
    lines = [f"line {each}" for each in range(600)]
    at.output("produce", "t", stdin="\n".join(lines))

    planned = at.json("brokers", "drain", "3", "--dry-run")
    assert len(planned) == 4
    assert all(3 in each["from"] and 3 not in each["to"] for each in planned)
    assert moved(cluster, "t", *pairs), "a dry run moves nothing"

    ended = at.run("brokers", "drain", "3", "--throttle", "5e6")
    assert ended.returncode == 0, ended.stderr
    assert "4 of 4 partitions moved" in ended.stderr
    assert "broker 3 has no replicas now" in ended.stderr
    assert cluster.loads("t") == {1: 6, 2: 6}
    assert cluster.throttles("t") == set()
    again = at.run("brokers", "drain", "3")
    assert (again.returncode, again.stderr) == (0, "broker 3 has no replicas\n")

    third = cluster.servers[2]
    assert third.terminate() == 0
    assert sorted(
        at.output("consume", "t", "--from", "beginning", "--count", "600").splitlines()
    ) == (sorted(lines))
    stuck = at.run("brokers", "drain", "2")
    assert stuck.returncode == 1
    assert "6 partitions have nowhere to go" in stuck.stderr
    absent = at.run("brokers", "fill", "3")
    assert (absent.returncode, "no broker 3" in absent.stderr) == (1, True)
    third.start()

    begun = at.run("brokers", "fill", "3", "--no-wait")
    assert begun.returncode == 0, begun.stderr
    assert "4 partitions are being moved" in begun.stderr
    watched = at.run("brokers", "fill", "3")
    assert watched.returncode == 0, watched.stderr
    assert cluster.loads("t") == {1: 4, 2: 4, 3: 4}
    assert Counter(each[0] for each in cluster.replicas("t")) == {1: 2, 2: 2, 3: 2}
    assert sorted(
        at.output("consume", "t", "--from", "beginning", "--count", "600").splitlines()
    ) == (sorted(lines))

    cluster.create("uneven", [1, 2], [3, 1])
    with cluster.asked() as brokers:
        assert move(brokers, {("uneven", 1): (3,)}) == {}
    wait_until(
        lambda: moved(cluster, "uneven", [1, 2], [3]), within=LONG, what="one has fewer replicas"
    )
    [only] = (
        each
        for each in at.json("brokers", "drain", "3", "--dry-run")
        if (each["topic"], each["partition"]) == ("uneven", 1)
    )
    assert (only["from"], len(only["to"])) == ([3], 1), "as uneven as before"


@pytest.mark.parametrize("version", [VERSION, NEWEST])
def test_kafkas_own_tool_moves_replicas(cluster: Cluster, tmp_path: Path, version: str) -> None:
    cluster.create("t", [1], [2])
    write(cluster, "t", 4 * MIB)
    targets = {0: [2], 1: [3, 2]}
    wanted = tmp_path / "moves.json"
    wanted.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": "t", "partition": index, "replicas": replicas}
                    for index, replicas in targets.items()
                ],
            }
        )
    )
    try:
        tools = KafkaTools(version)
    except KafkaUnavailable as why:
        pytest.skip(str(why))
    with tools:

        def reassign(*arguments: str) -> str:
            ended = tools.run(
                "kafka-reassign-partitions",
                *("--bootstrap-server", cluster.bootstrap),
                *("--reassignment-json-file", str(wanted), *arguments),
            )
            assert ended.status == 0, ended.said
            return ended.output

        # So slowly that it is still at it whenever the next JVM has started; then faster.
        said = reassign("--execute", "--throttle", "10000")
        assert "The inter-broker throttle limit was set to 10000 B/s" in said
        assert "Successfully started partition reassignments for t-0,t-1" in said
        assert cluster.throttles("t") == RATES | LISTS
        assert "is still in progress" in reassign("--verify")
        said = reassign("--execute", "--additional", "--throttle", str(4 * MIB))
        assert "The inter-broker throttle limit was set to 4194304 B/s" in said
        wait_until(
            lambda: "still in progress" not in reassign("--verify"),
            within=LONG,
            what="the tool says that all is moved",
            every=0.5,
        )
    assert moved(cluster, "t", *targets.values())
    assert cluster.throttles("t") == set()
