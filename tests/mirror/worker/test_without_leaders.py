"""One of two brokers is away, and what it alone had has no leader: what a look finds then, and what
it makes later."""

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from mirror.clusters.scanner import ClusterScanner
from mirror.partitions.gaps import Gap, gaps_of
from tests.client.shipped_topics import delete_before
from tests.mirror.logs import values, write
from tests.mirror.workers import mirror_config
from wire.mirrored import ACCEPT_GAP

Pair = tuple[BrokerProcess, BrokerProcess]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[Pair]:
    """A cluster of two; the second is started anew by whoever kills it."""
    chroot = f"{zookeeper.address}/{uuid.uuid4().hex}"
    settings = {"ledger": False, "zookeeper_session_seconds": 4}
    first, second = (
        BrokerProcess(
            tmp_path_factory.mktemp(f"pair-{number}"),
            zookeeper=chroot,
            broker_id=number,
            settings=settings,
        )
        for number in (1, 2)
    )
    with first, second:
        yield first, second


@pytest.fixture
def of_pair(pair: Pair) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(pair[0].bootstrap), patience_seconds=60) as brokers:
        yield brokers


def looking(source: BrokerProcess, target: BrokerProcess, **more: Any) -> ClusterScanner:
    return ClusterScanner(mirror_config(source, target, **more))


def wait_leaderless(brokers: Brokers, topic: str) -> None:
    def is_leaderless() -> bool:
        partitions = brokers.refresh([topic]).topics[topic].partitions
        return any(each.leader == NO_LEADER for each in partitions)

    wait_until(is_leaderless, what=f"{topic} has no leader")


def led_by(brokers: Brokers, broker: int, suffix: str = "") -> str:
    """A new topic of one partition."""
    while True:
        name = f"{uuid.uuid4().hex}{suffix}"
        if admin.create_topic(brokers, name, partitions=1).partition(0).leader == broker:
            return name


@contextmanager
def away(broker: BrokerProcess) -> Iterator[None]:
    broker.kill()
    try:
        yield
    finally:
        broker.start()


def gaps(brokers: Brokers, topic: str) -> dict[int, Gap]:
    """That the copy takes."""
    configs = {each.name: each.value or "" for each in admin.topic_configs(brokers, topic)}
    return gaps_of(configs.get(ACCEPT_GAP, ""))


def test_schemas_without_a_leader_hold_up_schemas_alone(
    source: BrokerProcess, pair: Pair, there: Brokers, of_pair: Brokers, new_topic: str
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    lost = led_by(of_pair, 2, "._schemas")
    with closing(looking(source, pair[0], topics=[new_topic], schemas=True)) as looks:
        assert looks.schema_ids is not None
        with away(pair[1]):
            wait_leaderless(of_pair, lost)
            assert looks.look().copies[f"dc1.{new_topic}"].changes  # was made just now
            seen = looks.look()
            assert seen.copies[f"dc1.{new_topic}"].partitions == 1
            said = f"the schema ids in {lost} are unknown: no leader"
            assert said in seen.troubles["dc1._schemas"]
            assert looks.schema_ids.fault(memoryview(b"")) == said
        wait_until(lambda: not looks.look().troubles, what="no trouble is left")
        assert looks.schema_ids.fault(memoryview(b"")) == ""


def test_copies_are_made_and_enlarged_when_the_source_says_where_they_begin(
    pair: Pair, target: BrokerProcess, of_pair: Brokers, here: Brokers
) -> None:
    lost, kept = led_by(of_pair, 2), led_by(of_pair, 1)
    write(of_pair, lost, values(0, 20))
    delete_before(of_pair, lost, 10)
    made, enlarged = f"dc1.{lost}", f"dc1.{kept}"
    with closing(looking(pair[0], target, topics=[kept])) as looks:
        looks.look()
        assert looks.look().copies[enlarged].partitions == 1
    admin.add_partitions(of_pair, kept, 4)
    for partition in (1, 2, 3):
        write(of_pair, kept, values(0, 20), partition)
        delete_before(of_pair, kept, 10, partition)
    with closing(looking(pair[0], target, topics=[lost, kept])) as looks:
        with away(pair[1]):
            for topic in (lost, kept):
                wait_leaderless(of_pair, topic)
            troubles = looks.look().troubles
            assert all("leader not available" in troubles[copy] for copy in (made, enlarged))
            assert made not in admin.all_topics(here).topics
            assert len(here.refresh([enlarged]).topic(enlarged).partitions) == 1

        def partitions() -> list[int]:
            copies = looks.look().copies
            return [copies[copy].partitions for copy in (made, enlarged)]

        wait_until(lambda: partitions() == [1, 4], what="they are made and enlarged")
    assert gaps(here, made) == {0: Gap(0, 10)}
    assert gaps(here, enlarged) == {each: Gap(0, 10) for each in (1, 2, 3)}
