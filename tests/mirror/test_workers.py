"""Several workers of one mirror: they share partitions, and take over from each other."""

import yaml

from client import admin
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess
from harness.waiting import wait_until
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import PATIENCE, batches, values, wait_copied, write

PARTITIONS = 4


def share(mirror: MirrorProcess) -> set[int]:
    topics = (mirror.standing() or {}).get("topics", ())
    return {each["partition"] for topic in topics for each in topic["partitions"]}


def test_two_share_and_the_other_takes_over(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, new_worker: NewWorker
) -> None:
    zookeeper = str(yaml.safe_load(target.config.read_text())["zookeeper"])
    settings = {"zookeeper": zookeeper, "name": f"mirror-{new_topic}"}
    one, other = new_worker(**settings), new_worker(**settings)
    admin.create_topic(there, new_topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        write(there, new_topic, values(0, 20), partition)
    one.start()
    wait_copied(there, here, new_topic, PARTITIONS)
    other.start()
    everything = set(range(PARTITIONS))
    wait_until(
        lambda: (
            len(share(one)) == len(share(other)) == 2 and share(one) | share(other) == everything
        ),
        within=PATIENCE,
        what="each has two",
    )
    for partition in range(PARTITIONS):
        write(there, new_topic, values(20, 20), partition)
    wait_copied(there, here, new_topic, PARTITIONS)
    one.kill()
    wait_until(lambda: share(other) == everything, within=PATIENCE, what="the other has all")
    for partition in range(PARTITIONS):
        write(there, new_topic, values(40, 20), partition)
    wait_copied(there, here, new_topic, PARTITIONS)
    for partition in range(PARTITIONS):
        copied = batches(here, f"dc1.{new_topic}", partition)
        assert copied == batches(there, new_topic, partition)
