"""`penstock mirror demote --cut` while the leader that cuts is killed, at every step of it: whoever
leads next brings it to its end, and all replicas end as the source does."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.clusters.two_clusters import PREFIX, TwoClusters
from harness.processes.waiting import wait_until
from tests.campaigns.logs import read_batches, read_replicas
from tests.campaigns.mirror.watermarks import high
from tests.penstock.running import Ended, penstock
from tests.system.faults import Faults

BROKERS = (1, 2, 3)
AGREED = 50
WITHIN = 120.0
HELD = 300.0  # seconds: until somebody has looked, and killed it

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Target:
    """The cluster that cuts, and what its brokers' disks do."""

    clusters: TwoClusters
    faults: dict[int, Faults]

    @property
    def brokers(self) -> BrokerCluster:
        return self.clusters.target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, faults_library: Path) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("clusters")
    faults = {}
    for each in BROKERS:
        (directory / f"disk-{each}").mkdir()
        faults[each] = Faults(faults_library, directory / f"disk-{each}")
    with TwoClusters(
        directory / "both",
        brokers=(1, len(BROKERS)),
        # Whoever does not answer stays in sync: it is to lead next.
        settings={
            "replication": {"lag_seconds": 300.0},
            "topic_defaults": {"replication_factor": len(BROKERS)},
        },
        mirror_settings={"interval": 0.5},
        environments={f"target-{each}": faults[each].environment for each in BROKERS},
    ) as clusters:
        clusters.begin(1)
        yield Target(clusters, faults)


@dataclass(frozen=True)
class Cut:
    """One that is under way."""

    brokers: BrokerCluster
    copy: str
    leader: int
    epoch: int  # before it

    @property
    def others(self) -> list[int]:
        return [each for each in BROKERS if each != self.leader]

    def is_raised(self) -> bool:
        """In the map, as the others have heard."""
        said = [self.brokers.reported_by(each, self.copy).get(0) for each in self.others]
        return all(each is not None and each.leader_epoch > self.epoch for each in said)

    def is_said(self) -> bool:
        return _is_said(self.brokers, self.leader, self.copy)

    def is_short(self) -> bool:
        stored = read_batches(self.brokers.brokers[self.leader].partition_dir(self.copy))
        return stored[-1].last == AGREED - 1


STEPS: dict[str, tuple[str, Callable[[Cut], bool]]] = {
    "the epoch is raised": ("withdrawn.json", Cut.is_raised),
    "it is said what goes": ("acknowledged", Cut.is_said),
    "the log is short, and not synced": (".log", Cut.is_short),
    "followers have not heard of it": ("", Cut.is_short),
}


@pytest.mark.parametrize("step", STEPS)
def test_the_leader_is_killed(target: Target, new_topic: str, step: str) -> None:
    held, reached = STEPS[step]
    clusters, copy = target.clusters, PREFIX + new_topic
    mirror = clusters.mirrors[1]
    clusters.source.create_topic(new_topic, replicas=[[1]], configs={})
    _write(clusters.source, new_topic, range(AGREED))
    _wait_copied(target, new_topic)
    _check(penstock("mirror", "promote", copy, "--config", str(mirror.config)))
    _write(target.brokers, copy, range(900, 920))
    _write(clusters.source, new_topic, range(AGREED, AGREED + 10))
    target.brokers.wait_in_sync(copy, 1, within=WITHIN)
    leader = target.brokers.leader(copy, 0)
    said = target.brokers.reported_by(leader, copy)[0]
    cut = Cut(target.brokers, copy, leader, said.leader_epoch)
    if held:
        target.faults[leader].delay_syncs(held, HELD)
    else:
        for each in cut.others:
            target.brokers.cut(leader, each)
    with ThreadPoolExecutor(1) as threads:
        demoted = threads.submit(mirror.told, "demote", copy, "--cut", "--yes", within=300)
        wait_until(lambda: reached(cut), within=WITHIN, what=step, every=0.05)
        target.brokers.kill(leader)
        target.faults[leader].no_more()
        target.brokers.mend_links()
        wait_until(
            lambda: target.brokers.leader(copy, 0) in cut.others,
            within=WITHIN,
            what="another leads",
            every=0.2,
        )
        _check(demoted.result())
    target.brokers.start()
    _wait_copied(target, new_topic)
    target.brokers.wait_in_sync(copy, 1, within=WITHIN)
    source = clusters.source.brokers[1].partition_dir(new_topic)
    wanted = [each.same for each in read_batches(source)]
    replicas = read_replicas(target.brokers.directory, copy, 0)
    assert [each.broker for each in replicas] == list(BROKERS)
    for replica in replicas:
        assert [each.same for each in replica.batches] == wanted, replica.broker
    assert any(_is_said(target.brokers, each, copy) for each in BROKERS)


def _is_said(cluster: BrokerCluster, broker: int, copy: str) -> bool:
    file = cluster.brokers[broker].data_dir / "withdrawn.json"
    return file.exists() and copy in file.read_text()


def _check(ended: Ended) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _write(cluster: BrokerCluster, topic: str, numbers: range) -> None:
    """A batch for each, so that there is more than one."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 10 == 9:
            assert producer.flush(WITHIN) == 0


def _wait_copied(target: Target, topic: str) -> None:
    source = target.clusters.source
    wait_until(
        lambda: high(target.brokers, PREFIX + topic) == high(source, topic) > 0,
        within=WITHIN,
        what=f"{topic} is copied",
        every=0.2,
    )
