"""Foreign clients, with the settings that they come with, write and read on while brokers go, and
no application hears of it: they are killed, stopped, stand still, are updated and taken back.

Brokers of the release before and of this one are one cluster.
"""

from pathlib import Path

import pytest

from harness.penstock.broker import REPOSITORY
from harness.penstock.clusters.broker_cluster import BrokerCluster
from tests.releases.kept import releases, unpack_broker
from tests.system.carrying import (
    PARTITIONS,
    REPLICAS,
    SESSION_SECONDS,
    Clients,
    at_work,
    go_on,
    make_topics,
    pairs_of_others,
    pairs_of_python,
    wait_until_led_by_others,
    wait_until_whole,
)
from tests.system.conftest import kafka_java
from tests.system.other_languages.programs import ClientUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path) -> BrokerCluster:
    """It does not run yet."""
    return BrokerCluster(tmp_path, settings={"zookeeper_session_seconds": SESSION_SECONDS})


def test_applications_hear_of_no_fault(cluster: BrokerCluster) -> None:
    with cluster, kafka_java() as java:
        clients = pairs_of_python(cluster.bootstrap)
        try:
            clients |= pairs_of_others(cluster.bootstrap, java)
        except ClientUnavailable as reason:
            pytest.skip(str(reason))
        make_topics(cluster, clients)
        with at_work(clients):
            go_on(clients)
            cluster.kill(1)
            wait_until_led_by_others(cluster, clients, 1)
            go_on(clients)
            cluster.spawn(1)
            wait_until_whole(cluster, clients)

            cluster.freeze(2)
            wait_until_led_by_others(cluster, clients, 2)
            go_on(clients)
            cluster.thaw(2)
            wait_until_whole(cluster, clients)

            assert cluster.stop(3) == 0
            go_on(clients)
            cluster.spawn(3)
            wait_until_whole(cluster, clients)


@pytest.mark.parametrize("release", releases()[-1:])
def test_brokers_are_updated_one_after_the_other(
    cluster: BrokerCluster, tmp_path: Path, release: str
) -> None:
    before = tmp_path / release
    unpack_broker(release, before)
    for broker in cluster.brokers.values():
        broker.run_from(before)
    with cluster:
        clients = pairs_of_python(cluster.bootstrap)
        make_topics(cluster, clients)
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
