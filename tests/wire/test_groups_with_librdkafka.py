"""Members of ours in groups with a member of librdkafka's, at Apache Kafka: what it says is read,
and what we say is understood, whoever leads."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest
from confluent_kafka import Consumer

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.apache_kafka import ApacheKafka
from harness.waiting import wait_until
from tests.broker.api.running_broker import RawClient
from tests.system.crash import Worker
from tests.wire.group_member import GroupMember
from wire.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    by_topic,
    pairs,
    read_assignment,
    read_subscription,
)

PARTITIONS: Final = frozenset(range(4))
OURS: Final = frozenset({0})
COOPERATIVE: Final = "cooperative-sticky"
_POLL_MS: Final = 100
_WITHIN: Final = 60.0
_MOST_REBALANCES: Final = 10


class Librdkafka(Worker):
    """Belongs to the group until it is told to stop. `has` is what it may read at the moment."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        super().__init__(f"librdkafka in {group}")
        self.bootstrap, self.group, self.topic, self.protocol = bootstrap, group, topic, protocol
        self.has: frozenset[int] = frozenset()

    def work(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "partition.assignment.strategy": self.protocol,
            "heartbeat.interval.ms": _POLL_MS,
            "client.rack": "r1",
        }
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([self.topic])
            while not self.stopping:
                consumer.poll(_POLL_MS / 1000)
                self.has = frozenset(each.partition for each in consumer.assignment())

    def wait_until_it_has(self, wanted: frozenset[int]) -> None:
        def has_it() -> bool:
            self.check()
            return self.has == wanted

        wait_until(has_it, within=_WITHIN, what=f"{self.name} has {sorted(wanted)}")

    def check(self) -> None:
        """Raises what it has failed with."""
        if self.failure is not None:
            raise self.failure


@contextmanager
def running(member: Librdkafka) -> Iterator[None]:
    member.start()
    try:
        yield
    finally:
        member.finish()


@pytest.mark.parametrize("protocol", ["range", COOPERATIVE])
def test_it_follows_and_leads(running_kafka: ApacheKafka, new_topic: str, protocol: str) -> None:
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic, partitions=len(PARTITIONS))
    group = f"group-of-{new_topic}"
    theirs = Librdkafka(running_kafka.bootstrap, group, new_topic, protocol)
    with RawClient(running_kafka.port) as raw:
        ours = GroupMember(raw, group, protocol)
        assert ours.join(Subscription(topics=(new_topic,))).leader == ours.member_id
        ours.sync({ours.member_id: Assignment(assigned_partitions=on(new_topic, PARTITIONS))})
        with running(theirs):
            follower = _it_follows(ours, theirs)
            _it_says_what_it_has(ours, theirs, follower)
            ours.leave()
            theirs.wait_until_it_has(PARTITIONS)
            _it_leads(raw, theirs, follower)


def on(topic: str, partitions: frozenset[int]) -> tuple[TopicPartitions, ...]:
    return by_topic((topic, partition) for partition in partitions)


def _it_follows(ours: GroupMember, theirs: Librdkafka) -> str:
    """It joins, and is told what we have written; under which id is returned."""
    ours.wait_until_others_join(theirs.check)
    had = Subscription(topics=(theirs.topic,), owned_partitions=on(theirs.topic, OURS))
    joined = ours.join(had)
    said = {each.member_id: read_subscription(each.metadata) for each in joined.members}
    assert said.pop(ours.member_id) == had
    ((follower, subscription),) = said.items()
    assert subscription.topics == (theirs.topic,)
    assert subscription.owned_partitions == ()
    assert subscription.generation_id == -1
    assert subscription.rack_id == "r1"
    _share(ours, theirs, follower)
    return follower


def _share(ours: GroupMember, theirs: Librdkafka, follower: str) -> None:
    parts = {ours.member_id: OURS, follower: PARTITIONS - OURS}
    given = {
        each: Assignment(assigned_partitions=on(theirs.topic, part)) for each, part in parts.items()
    }
    assert ours.sync(given) == given[ours.member_id]
    theirs.wait_until_it_has(PARTITIONS - OURS)
    members = ours.describe().members
    assert {each.member_id: read_assignment(each.member_assignment) for each in members} == given


def _it_says_what_it_has(ours: GroupMember, theirs: Librdkafka, follower: str) -> None:
    """The leader joins once more, and so must all."""
    before = ours.generation
    joined = ours.join(Subscription(topics=(theirs.topic,)))
    (said,) = (each.metadata for each in joined.members if each.member_id == follower)
    subscription = read_subscription(said)
    assert subscription.topics == (theirs.topic,)
    if theirs.protocol == COOPERATIVE:
        has = {(theirs.topic, each) for each in PARTITIONS - OURS}
        assert set(pairs(subscription.owned_partitions)) == has
        assert subscription.generation_id == before
        assert subscription.user_data
    else:
        assert subscription.owned_partitions == ()
    _share(ours, theirs, follower)


def _it_leads(raw: RawClient, theirs: Librdkafka, leader: str) -> None:
    """We come back as somebody new, and get our part from it. What it must give up first is not in
    the first assignment where the protocol is cooperative."""
    ours = GroupMember(raw, theirs.group, theirs.protocol)
    assignment: Assignment | None = None
    for rebalance in range(_MOST_REBALANCES):
        if rebalance:
            ours.wait_until_others_join(theirs.check)
        joined = ours.join(Subscription(topics=(theirs.topic,)))
        assert (joined.leader, joined.members) == (leader, ())
        assignment = ours.try_to_sync()
        if assignment is not None and assignment.assigned_partitions:
            break
    assert assignment is not None
    (part,) = assignment.assigned_partitions
    assert part.topic == theirs.topic
    assert len(part.partitions) == len(PARTITIONS) / 2
    theirs.wait_until_it_has(PARTITIONS - set(part.partitions))
    ours.leave()
