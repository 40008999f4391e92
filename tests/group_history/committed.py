"""What a group has committed, asked as its kind does it."""

from collections.abc import Iterable

from cluster.errors import ClusterError
from cluster.group_offsets import read_offsets
from cluster.session import Session
from cluster.values import TopicPartition
from harness.broker_cluster import BrokerCluster
from tests.group_history import requests
from tests.group_history.nemesis import coordinator
from tests.group_history.script import GROUPS, PAPER
from tests.system.raw import Closed, RawConnection


def committed_of(
    cluster: BrokerCluster, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, int] | None:
    """By partition, -1 where nothing is; None if nobody tells it now."""
    if GROUPS[group] == PAPER:
        return _in_zookeeper(cluster, group, topic, partitions)
    broker = coordinator(cluster, group)
    if not broker:
        return None
    try:
        with RawConnection(cluster.to_clients[broker].address) as connection:
            code, found = requests.fetch(connection, group, topic, partitions)
    except (OSError, Closed):
        return None
    return None if code else found


def _in_zookeeper(
    cluster: BrokerCluster, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, int] | None:
    wanted = [TopicPartition(topic, each) for each in partitions]
    try:
        session = Session.connect(cluster.map_address, secret=None, makes_map=False)
    except ClusterError:
        return None
    try:
        session.sync()
        found = read_offsets(session, group, wanted)
    except ClusterError:
        return None
    finally:
        session.close()
    return {each.partition: found[each].offset if each in found else -1 for each in wanted}
