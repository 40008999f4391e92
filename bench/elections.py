"""`python -m bench.elections`: how long partitions lack a leader after a broker's session ends.

A controller runs with a real ZooKeeper and without brokers, so only the cluster map's part is
measured, from the end of the session that registered a broker. Prints milliseconds until the new
leaders of all its partitions are in ZooKeeper, and until a follower of the map has read them.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bench.figures.measurement import Figure, Sample
from broker.controller.leaders import Leaders
from cluster.controller.controller import elect
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.topics import create_topic
from cluster.layout import nodes, paths
from cluster.layout.nodes import StateNode
from cluster.records.brokers import register
from cluster.session.session import Session
from cluster.values import BrokerInfo, ClusterSnapshot, PartitionInfo, TopicInfo
from cluster.view import ClusterView
from cluster.zookeeper_server.server import EmbeddedZooKeeper

_OF_A_TOPIC: Final = 10
_STAYS, _GOES = 1, 2
_BOTH: Final = (_GOES, _STAYS)

WRITTEN: Final = Figure("ms, until they stand in ZooKeeper")
READ: Final = Figure("ms, until a broker has read them")


def timings(zookeeper: str, partitions: int, rounds: int) -> Sample:
    """Measures elections for several rounds; returns the medians."""
    with ExitStack() as ends:
        session = Session.connect(zookeeper, secret=None)
        ends.callback(session.close)
        topics = _create(session, partitions)
        register(session, _broker(_STAYS))
        view = ClusterView(session)
        leaders = Leaders(session, view, {})
        stopping_session = _registered(zookeeper, _GOES)
        view.start(lambda _: leaders.follow())
        ends.callback(view.close)
        leaders.start()
        ends.callback(leaders.close)
        leaders.lead(elect(session, _STAYS))
        samples = []
        for _ in range(rounds):
            samples.append(_without_leader(session, view, stopping_session, topics[-1]))
            stopping_session = _registered(zookeeper, _GOES)
            _give_back(session, view)
        stopping_session.close()
    write_times, read_times = zip(*samples, strict=True)
    return {
        WRITTEN: statistics.median(write_times) * 1e3,
        READ: statistics.median(read_times) * 1e3,
    }


def _without_leader(
    session: Session, view: ClusterView, stopping_session: Session, last: str
) -> tuple[float, float]:
    path = paths.partition_state(last, _OF_A_TOPIC - 1)
    stopping_session.close()
    start_time = time.perf_counter()
    while (node := session.read(path)) is None or _leader(path, node.data) != _STAYS:
        time.sleep(0.002)
    write_seconds = time.perf_counter() - start_time
    view.wait_for(lambda snapshot: all(state.leader == _STAYS for _, _, state in _all(snapshot)))
    return write_seconds, time.perf_counter() - start_time


def _give_back(session: Session, view: ClusterView) -> None:
    view.wait_for(lambda snapshot: _GOES in snapshot.brokers)
    changes = [
        StateChange(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=index,
            after=replace(state, leader=_GOES, isr=_BOTH, leader_epoch=state.leader_epoch + 1),
        )
        for topic, index, state in _all(view.snapshot)
    ]
    assert None not in change_states(session, changes)
    view.wait_for(lambda snapshot: all(state.leader == _GOES for _, _, state in _all(snapshot)))


def _all(snapshot: ClusterSnapshot) -> Iterator[tuple[TopicInfo, int, PartitionInfo]]:
    for topic in snapshot.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def _leader(path: str, data: bytes) -> int:
    return nodes.decode(path, data, StateNode).leader


def _create(session: Session, partitions: int) -> list[str]:
    partition_info = PartitionInfo(
        replicas=_BOTH, leader=_GOES, leader_epoch=0, isr=_BOTH, controller_epoch=0
    )
    epoch = elect(session, _STAYS)
    assert epoch is not None
    names = [f"topic{number}" for number in range(partitions // _OF_A_TOPIC)]
    for name in names:
        topic = TopicInfo(
            name=name, topic_id=uuid.uuid4(), partitions=(partition_info,) * _OF_A_TOPIC
        )
        create_topic(session, epoch, topic, {})
    return names


def _registered(zookeeper: str, broker_id: int) -> Session:
    session = Session.connect(zookeeper, secret=None)
    register(session, _broker(broker_id))
    return session


def _broker(broker_id: int) -> BrokerInfo:
    return BrokerInfo(
        broker_id=broker_id,
        host="127.0.0.1",
        port=9092,
        directory_id=uuid.UUID(int=broker_id),
        location=str(broker_id),
        started_ms=0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedZooKeeper.start(Path(directory), port=0)
        try:
            sample = timings(f"{server.address}/bench", options.partitions, options.rounds)
        finally:
            server.stop()
    for figure, value in sample.items():
        print(f"{figure.text(value):>10} {figure.name}")


if __name__ == "__main__":
    main()
