"""Looking at the groups of real brokers: also of those that are away, too old, or say nothing."""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.groups.poller import GroupsPoller
from audit.configuration.config import Cluster
from client.admin import topics as admin
from client.admin.acls import add_acls
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from client.groups.offset_commits import Consumed, commit_offsets
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.secured_broker import SecuredBroker
from harness.processes.waiting import wait_until
from tests.client.group.conftest import Site
from tests.client.older_broker import OlderBroker
from wire.acls import THE_CLUSTER, Acl, Operation, Permission, ResourcePattern, ResourceType
from wire.messages import list_groups

WITHIN = 120
DAY_MILLIS = 86_400_000


class Watcher:
    """All that was seen, as what lasts for one look is gone by the time somebody asks."""

    def __init__(self) -> None:
        self._looks: deque[GroupsSeen] = deque()

    def found(self, _: str, seen: GroupsSeen) -> None:
        self._looks.append(seen)

    def until(self, condition: Callable[[GroupsSeen], object], what: str) -> GroupsSeen:
        """The first look that is so, of those that were not asked for before."""

        def met() -> list[GroupsSeen]:
            while self._looks:
                seen = self._looks.popleft()
                if condition(seen):
                    return [seen]
            return []

        return wait_until(met, within=WITHIN, what=what)[0]


@contextmanager
def watching(cluster: Cluster) -> Iterator[Watcher]:
    watcher = Watcher()
    look = GroupsPoller("c", cluster, every_seconds=0.1, receive=watcher.found)
    look.start()
    try:
        yield watcher
    finally:
        look.ask_to_stop()
        look.join()


def at(bootstrap: str) -> Cluster:
    return Cluster(brokers=tuple(bootstrap.split(",")))


def write(brokers: Brokers, topic: str, count: int) -> None:
    producer = Producer(brokers, topic)
    yesterday = int(time.time() * 1000) - DAY_MILLIS
    for _ in range(count):
        producer.send(b"message", partition=0, timestamp=yesterday)
    producer.flush()


def messages(seen: GroupsSeen, group: str) -> int | None:
    """Of one group over all topics; None while it is not seen."""
    found = [each.messages for each in seen.rows if each.group == group]
    return sum(found) if found else None


def test_a_group_is_followed(running_broker: BrokerProcess, new_topic: str) -> None:
    group = f"group of {new_topic}"
    with (
        Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=60) as brokers,
        watching(at(running_broker.bootstrap)) as watcher,
    ):
        admin.create_topic(brokers, new_topic)
        write(brokers, new_topic, 10)
        commit_offsets(brokers, group, {TopicPartition(new_topic, 0): Consumed(4)})
        watcher.until(lambda seen: messages(seen, group) == 6, "six are left")
        write(brokers, new_topic, 5)
        watcher.until(lambda seen: messages(seen, group) == 11, "five more")
        commit_offsets(brokers, group, {TopicPartition(new_topic, 0): Consumed(15)})
        seen = watcher.until(lambda seen: messages(seen, group) == 0, "all is read")
        (row,) = [each for each in seen.rows if each.group == group]
        assert (row.state, row.topic, row.behind) == ("Empty", new_topic, 0)
        assert seen.troubles == ()
        admin.delete_topic(brokers, new_topic)
        watcher.until(lambda seen: not messages(seen, group), "of a topic that is gone")


def test_a_group_of_the_papers_kind(running_broker: BrokerProcess, new_topic: str) -> None:
    site = Site(running_broker, new_topic)
    with closing(site), watching(at(running_broker.bootstrap)) as watcher:
        site.create(2)
        site.join()
        site.write(2, 5)
        site.until_all_is_read()

        def all_is_read(seen: GroupsSeen) -> bool:
            rows = [each for each in seen.rows if each.group == site.group]
            return [(each.topic, each.partitions, each.messages) for each in rows] == [
                (new_topic, 2, 0)
            ]

        seen = watcher.until(all_is_read, "its commits are seen")
        (row,) = [each for each in seen.rows if each.group == site.group]
        assert row.state == "Stable"


def test_brokers_that_serve_no_groups(running_broker: BrokerProcess) -> None:
    with (
        OlderBroker(running_broker.bootstrap, {list_groups.API: -1}) as older,
        watching(at(older.bootstrap)) as watcher,
    ):
        seen = watcher.until(lambda seen: bool(seen.troubles), "they are too old")
        assert seen.troubles == ("Its brokers serve no consumer groups: they are too old",)
        assert seen.looked > 0


def test_a_cluster_that_cannot_be_reached() -> None:
    with watching(at("127.0.0.1:9")) as watcher:
        seen = watcher.until(lambda seen: bool(seen.troubles), "nobody answers")
        assert seen.looked == 0
        assert "no broker at 127.0.0.1:9" in seen.troubles[0]


@pytest.mark.slow
def test_a_coordinator_that_stands_still(tmp_path: Path, new_topic: str) -> None:
    """What the others know is shown, and that something is not known; until its groups have moved.
    The thread that asks ends all the same."""
    with ExitStack() as stack:
        cluster = stack.enter_context(BrokerCluster(tmp_path, brokers=2))
        cluster.create_topic(new_topic, replicas=[[1], [2]], configs={})
        first = cluster.to_clients[1].address
        brokers = stack.enter_context(Brokers(Bootstrap.of(first), patience_seconds=60))
        write(brokers, new_topic, 10)
        names = {f"group-{each}" for each in range(12)}
        for name in names:
            commit_offsets(brokers, name, {TopicPartition(new_topic, 0): Consumed(4)})
        watcher = stack.enter_context(watching(at(first)))
        seen = watcher.until(lambda seen: len(seen.groups) == len(names), "all are seen")
        coordinated = {each.coordinator for each in seen.groups.values()}
        assert coordinated == {1, 2}  # else nothing here is tested
        theirs = {each.name for each in seen.groups.values() if each.coordinator == 2}
        cluster.freeze(2)
        seen = watcher.until(lambda seen: bool(seen.troubles), "one does not answer")
        assert any("broker 2" in words for words in seen.troubles)
        assert {each.group for each in seen.rows} >= names - theirs
        assert {each.messages for each in seen.rows} == {6}
        watcher.until(
            lambda seen: not seen.troubles and {each.group for each in seen.rows} == names,
            "the other broker coordinates all of them",
        )


def test_what_may_not_be_seen_is_said(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, new_topic: str
) -> None:
    settings = {"authorization": {"super_users": ["broker", "bob"]}}
    address = f"{zookeeper.address}/{new_topic}"
    scram = Mechanism.SCRAM_SHA_512
    with SecuredBroker(tmp_path, zookeeper=address, settings=settings) as secured, ExitStack() as s:
        brokers = s.enter_context(Brokers(secured.bootstrap(scram, "bob"), patience_seconds=60))
        admin.create_topic(brokers, new_topic)
        write(brokers, new_topic, 10)
        commit_offsets(brokers, "billing", {TopicPartition(new_topic, 0): Consumed(4)})

        def allow(operation: Operation, pattern: ResourcePattern) -> None:
            acl = Acl("User:alice", "*", operation, Permission.ALLOW)
            add_acls(brokers, [(pattern, acl)])

        alices = Cluster(
            brokers=(f"127.0.0.1:{secured.locked}",), security=secured.security(scram, "alice")
        )
        watcher = s.enter_context(watching(alices))
        seen = watcher.until(lambda seen: bool(seen.troubles), "nothing may be seen")
        assert seen.troubles == (
            "No group is seen: User:alice sees those that it may DESCRIBE, and may not DESCRIBE "
            "every group",
        )
        assert not seen.groups

        allow(Operation.DESCRIBE, ResourcePattern(ResourceType.CLUSTER, THE_CLUSTER))
        seen = watcher.until(lambda seen: "billing" in seen.groups, "it is listed")
        watcher.until(
            lambda seen: any("DESCRIBE or READ on group billing" in e for e in seen.troubles),
            "it is not shown",
        )

        allow(Operation.DESCRIBE, ResourcePattern(ResourceType.GROUP, "*"))
        allow(Operation.DESCRIBE, ResourcePattern(ResourceType.TOPIC, new_topic))
        seen = watcher.until(lambda seen: messages(seen, "billing") == 6, "it is shown")
        (row,) = seen.rows
        assert row.unknown == ""
        assert abs(row.behind - DAY_MILLIS) < DAY_MILLIS / 20  # known about
        watcher.until(lambda seen: not seen.troubles, "nothing is to be said")

        allow(Operation.READ, ResourcePattern(ResourceType.TOPIC, new_topic))
        commit_offsets(brokers, "billing", {TopicPartition(new_topic, 0): Consumed(5)})
        seen = watcher.until(lambda seen: messages(seen, "billing") == 5, "it may be read")
        (row,) = seen.rows
        assert DAY_MILLIS <= row.behind < DAY_MILLIS + WITHIN * 1000
        assert not re.findall(r"not authorized.* operation=Read\b", secured.broker.log())
