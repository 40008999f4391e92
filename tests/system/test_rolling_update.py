"""Brokers of the release before and of this one are one cluster: they are updated one after the
other, and taken back, while clients write and read and hear of nothing."""

from pathlib import Path

import pytest

from harness.broker_cluster import BrokerCluster
from harness.broker_process import REPOSITORY
from tests.releases.kept import releases, unpack_broker
from tests.system.carrying import (
    PARTITIONS,
    Clients,
    at_work,
    go_on,
    pairs_of_python,
    wait_until_led_by_others,
    wait_until_whole,
)

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SESSION_SECONDS = 8  # so long that nobody loses one where much else runs


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", releases()[-1:])
def test_brokers_are_updated_one_after_the_other(tmp_path: Path, release: str) -> None:
    before = tmp_path / release
    unpack_broker(release, before)
    cluster = BrokerCluster(tmp_path, settings={"zookeeper_session_seconds": SESSION_SECONDS})
    for broker in cluster.brokers.values():
        broker.run_from(before)
    with cluster:
        clients = pairs_of_python(cluster.bootstrap)
        for topic in clients:
            cluster.create_topic(topic, replicas=REPLICAS, configs={})
        wait_until_whole(cluster, clients)
        with at_work(clients):
            go_on(clients)
            restart(cluster, clients, 1, REPOSITORY)
            # Leaders of both, chosen by a controller of either.
            for broker_id in (3, 1):
                cluster.kill(broker_id)
                wait_until_led_by_others(cluster, clients, broker_id)
                cluster.spawn(broker_id)
                wait_until_whole(cluster, clients)
                go_on(clients)
            restart(cluster, clients, 2, REPOSITORY)
            restart(cluster, clients, 1, before)
            restart(cluster, clients, 3, REPOSITORY)
            restart(cluster, clients, 1, REPOSITORY)


def restart(cluster: BrokerCluster, clients: Clients, broker_id: int, program: Path) -> None:
    assert cluster.stop(broker_id) == 0
    broker = cluster.brokers[broker_id]
    broker.run_from(program)
    cluster.spawn(broker_id)
    wait_until_whole(cluster, clients)
    assert Path(f"/proc/{broker.process.pid}/cwd").readlink() == program
    topic = f"by-{broker_id}-of-{program.name}-{len(list(broker.data_dir.iterdir()))}"
    cluster.create_topic(topic, replicas=REPLICAS, configs={"min.insync.replicas": "2"})
    cluster.wait_in_sync(topic, PARTITIONS, within=60)
    go_on(clients)
