"""What people see of three brokers when one, and then another, is not there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from prometheus_client.parser import text_string_to_metric_families

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from harness.server_process import RunningServers, free_ports
from harness.waiting import wait_until
from tests.deploy.test_broker_monitoring import DASHBOARD, RULES, spoken_of
from tests.penstock.running import At
from tests.system.produce import high_watermark, must_produce, produce
from tests.system.raw import Closed

LONG = 120


class Cluster(RunningServers):
    """Brokers 1, 2 and 3, each in a rack of its own."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.servers: list[BrokerProcess] = [
            BrokerProcess(
                directory / f"broker-{each}",
                zookeeper=zookeeper,
                broker_id=each,
                topic_defaults={"replication_factor": 3},
                settings={
                    "rack": f"r{each}",
                    "zookeeper_session_seconds": 4,
                    "ledger": False,
                    "auto_create_topics": False,
                },
            )
            for each in (1, 2, 3)
        ]

    @property
    def at(self) -> At:
        return At(",".join(each.bootstrap for each in self.servers))


@pytest.fixture
def cluster(tmp_path: Path, chroot: str) -> Iterator[Cluster]:
    with Cluster(tmp_path, chroot) as cluster:
        yield cluster


def scraped(broker: BrokerProcess) -> dict[str, list[float]]:
    """The values of each metric."""
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(broker.http("/metrics")[1]):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.value)
    return found


def value(broker: BrokerProcess, name: str) -> float:
    (only,) = scraped(broker)[f"penstock_broker_{name}"]
    return only


def listed(at: At) -> dict[int, dict[str, Any]]:
    return {each["id"]: each for each in at.json("brokers", "list")}


def test_what_is_seen_when_brokers_go(cluster: Cluster, new_topic: str) -> None:
    first, second, third = cluster.servers
    at = cluster.at
    at.output("topics", "create", new_topic, "--partitions", "3")
    at.output("produce", new_topic, stdin="a\nb\nc\n")
    wait_until(
        lambda: sum(value(each, "copied_bytes_total") for each in cluster.servers) > 0,
        within=LONG,
        what="something is copied",
    )
    assert [value(each, "led_partitions") for each in cluster.servers] == [1, 1, 1]
    assert [value(each, "followed_partitions") for each in cluster.servers] == [2, 2, 2]
    assert sum(value(each, "is_controller") for each in cluster.servers) == 1
    assert {each["rack"] for each in listed(at).values()} == {"r1", "r2", "r3"}
    assert all(each["under_replicated"] == 0 for each in listed(at).values())
    exposed = "".join(each.http("/metrics")[1] for each in cluster.servers)
    assert not {each for each in spoken_of(DASHBOARD + RULES.read_text()) if each not in exposed}

    third.kill()
    wait_until(
        lambda: f"{third.broker_id} is away: start it" in first.http("/readyz")[1],
        within=LONG,
        what="the first one says who is away",
    )
    status, page = first.http("/readyz")
    assert status == 200
    assert page.startswith("ready\nunder-replicated: ")
    wait_until(
        lambda: sum(value(each, "under_replicated_partitions") for each in (first, second)) == 3,
        within=LONG,
        what="all are under-replicated",
    )
    away = listed(at)[third.broker_id]
    assert (away["address"], away["replicas"], away["behind"]) == (None, 3, 3)
    described = at.json("topics", "describe", new_topic)["partitions"]
    assert {each["why"] for each in described} == {"3 away"}
    rows = at.json("brokers", "describe", "3", "--behind")["partitions"]
    assert [(each["role"], each["in_sync"], each["of"]) for each in rows] == [("away", 2, 3)] * 3

    second.kill()
    wait_until(
        lambda: value(first, "below_min_in_sync_partitions") == 3,
        within=LONG,
        what="the last one refuses acks=all",
    )
    page = first.http("/readyz")[1]
    assert "not enough in sync for min.insync.replicas: 3 partitions" in page
    assert "brokers 2, 3 are away: start them" in page
    assert value(first, "brokers_away") == 2
    refused = at.run("topics", "create", f"{new_topic}2")
    assert "Replication factor: 3 larger than available brokers: 1." in refused.stderr
    wait_until(
        lambda: "not enough in sync for min.insync.replicas: " in first.log(),
        within=LONG,
        what="it stands in the log",
    )

    for each in (second, third):
        each.start(within=LONG)
    wait_until(
        lambda: all(each.http("/readyz") == (200, "ready\n") for each in cluster.servers),
        within=LONG,
        what="all is well",
    )
    assert value(first, "under_replicated_partitions") == 0


def test_zookeeper_is_away(tmp_path: Path, new_topic: str) -> None:
    """Whoever leads goes on, with acks=all too, as long as all in sync are there. Nobody takes over
    from a broker that dies meanwhile, and nothing is acknowledged that it does not have."""
    (port,) = free_ports(1)
    zookeeper = EmbeddedZooKeeper.start(tmp_path / "zookeeper", port=port)
    try:
        with Cluster(tmp_path, f"{zookeeper.address}/away") as cluster:
            cluster.at.output("topics", "create", new_topic, "--partitions", "3")
            leaders = {
                each["partition"]: cluster.servers[each["leader"] - 1]
                for each in cluster.at.json("topics", "describe", new_topic)["partitions"]
            }
            zookeeper.stop()
            for each in cluster.servers:
                wait_until(
                    lambda each=each: "\nno connection to ZooKeeper: " in each.http("/readyz")[1],
                    within=LONG,
                    what=f"broker {each.broker_id} says it",
                )
            for index, leader in leaders.items():
                must_produce(leader.bootstrap, new_topic, [b"meanwhile"], partition=index)

            leaders[0].kill()
            left = leaders[1]
            try:
                answer = produce(left.bootstrap, new_topic, [b"not on all"], partition=1, within=5)
            except (TimeoutError, Closed):
                pass
            else:
                assert answer.error != 0
            assert high_watermark(left.bootstrap, new_topic, partition=1) == 1

            zookeeper = EmbeddedZooKeeper.start(tmp_path / "zookeeper", port=port)
            wait_until(
                lambda: high_watermark(left.bootstrap, new_topic, partition=1) == 2,
                within=LONG,
                what="it is committed by those that are left",
            )
            leaders[0].start(within=LONG)
            wait_until(
                lambda: all(each.http("/readyz") == (200, "ready\n") for each in cluster.servers),
                within=LONG,
                what="all is well",
            )
    finally:
        zookeeper.stop()


def test_no_broker_is_the_controller(
    cluster: Cluster, zookeeper: EmbeddedZooKeeper, chroot: str, new_topic: str
) -> None:
    """Somebody else holds the place: what is led goes on, nothing can be created, and it is said
    what to do."""
    at = cluster.at
    at.output("topics", "create", new_topic)
    node = chroot.removeprefix(zookeeper.address) + "/controller"
    usurper = KazooClient(hosts=zookeeper.address)
    usurper.start()
    try:
        change = usurper.transaction()
        change.delete(node)
        change.create(node, b'{"version":1,"broker_id":99}', ephemeral=True)
        assert not [each for each in change.commit() if isinstance(each, Exception)]
        for each in cluster.servers:
            wait_until(
                lambda each=each: (
                    "\nno controller: broker 99 has that office" in each.http("/readyz")[1]
                ),
                within=LONG,
                what=f"broker {each.broker_id} says it",
            )
        led = {
            each["partition"]: each["leader"]
            for each in at.json("topics", "describe", new_topic)["partitions"]
        }
        leader = cluster.servers[led[0] - 1]
        must_produce(leader.bootstrap, new_topic, [b"all the same"], partition=0)
        refused = at.run("topics", "create", f"{new_topic}2")
        assert refused.returncode == 1
        assert "no broker is controller" in refused.stderr
    finally:
        usurper.stop()
        usurper.close()
    wait_until(
        lambda: all(each.http("/readyz") == (200, "ready\n") for each in cluster.servers),
        within=LONG,
        what="one of them is the controller",
    )
    at.output("topics", "create", f"{new_topic}2")
