"""Groups and their offsets, as brokers of both kinds tell of them, and old ones in other words."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as TheirPartition

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Unsupported
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import Committed, committed_offsets, describe_groups, list_groups
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from tests.client.older_broker import OlderBroker
from wire.framing.codec import Api
from wire.messages import find_coordinator, offset_fetch
from wire.messages import list_groups as list_groups_api

Server = BrokerProcess | ApacheKafka


@contextmanager
def member(server: Server, group: str, topic: str) -> Iterator[Consumer]:
    """One that has read the first message."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": group, "client.id": "teller"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    with closing(consumer):
        consumer.subscribe([topic])
        assert consumer.consume(1, timeout=60)
        yield consumer


def topic_with_one_message(brokers: Brokers, topic: str, partitions: int = 2) -> None:
    admin.create_topic(brokers, topic, partitions=partitions)
    producer = Producer(brokers, topic)
    producer.send(b"one")
    producer.flush()


def server_of(request: pytest.FixtureRequest, brokers: Brokers) -> Server:
    found: Server = request.getfixturevalue(
        "running_kafka" if "running_kafka" in request.node.name else "running_broker"
    )
    return found


def test_a_group_with_a_member(
    brokers: Brokers, request: pytest.FixtureRequest, new_topic: str
) -> None:
    topic_with_one_message(brokers, new_topic)
    group = f"group of {new_topic}"
    with member(server_of(request, brokers), group, new_topic) as consumer:
        wanted = TheirPartition(new_topic, 1, 7)
        consumer.commit(offsets=[wanted], asynchronous=False)
        [listed] = [each for each in list_groups(brokers) if each.name == group]
        assert (listed.protocol_type, listed.state) == ("consumer", "Stable")
        described = describe_groups(brokers, [group])[group]
        assert (described.state, described.coordinator) == ("Stable", listed.coordinator)
        assert described.has_members
        assert not described.is_rebalancing
        assert described.kind == "kafka"
        [only] = described.members
        assert (only.client_id, only.topics) == ("teller", (new_topic,))
        assert only.host == "127.0.0.1"
        assert only.partitions == (TopicPartition(new_topic, 0), TopicPartition(new_topic, 1))
        [(where, committed)] = committed_offsets(brokers, [group])[group].items()
        assert where == TopicPartition(new_topic, 1)
        assert (committed.offset, committed.metadata) == (7, "")


def test_groups_without_members_and_one_that_is_not_there(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    names = [f"{new_topic}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        commit_offsets(brokers, name, {TopicPartition(new_topic, 1): Consumed(number, 3)})
    listed = {each.name: each for each in list_groups(brokers)}
    assert [listed[name].state for name in names] == ["Empty"] * 5
    assert list(listed) == sorted(listed)
    asked = [*names, f"{new_topic}-unknown"]
    described = describe_groups(brokers, asked)
    assert list(described) == asked
    assert [each.state for each in described.values()] == [*["Empty"] * 5, "Dead"]
    assert [each.is_there for each in described.values()] == [*[True] * 5, False]
    assert committed_offsets(brokers, asked) == {
        **{
            name: {TopicPartition(new_topic, 1): Committed(number, 3)}
            for number, name in enumerate(names)
        },
        f"{new_topic}-unknown": {},
    }


@pytest.mark.parametrize("fetch", [7, 5, 2])
def test_older_brokers_are_asked_in_their_words(
    running_broker: BrokerProcess, new_topic: str, fetch: int
) -> None:
    most: dict[Api[Any, Any], int] = {
        offset_fetch.API: fetch,
        find_coordinator.API: 3,
        list_groups_api.API: 2,
    }
    names = [f"{new_topic}-{number}" for number in range(120)]
    with (
        OlderBroker(running_broker.bootstrap, most) as older,
        Brokers(Bootstrap.of(older.bootstrap), patience_seconds=60) as brokers,
    ):
        admin.create_topic(brokers, new_topic)
        for number, name in enumerate(names[:3]):
            commit_offsets(brokers, name, {TopicPartition(new_topic, 0): Consumed(number)})
        found = committed_offsets(brokers, names)
        assert [next(iter(each.values())).offset for each in found.values() if each] == [0, 1, 2]
        assert list(found) == names
        states = {each.name: each.state for each in list_groups(brokers)}
        assert [states.get(name) for name in names[:4]] == ["", "", "", None]
        assert describe_groups(brokers, names)[names[0]].state == "Empty"


def test_one_that_is_too_old_says_so(running_broker: BrokerProcess, new_topic: str) -> None:
    with (
        OlderBroker(running_broker.bootstrap, {offset_fetch.API: 1}) as older,
        Brokers(Bootstrap.of(older.bootstrap), patience_seconds=60) as brokers,
        pytest.raises(Unsupported, match=r"OffsetFetch up to version 1; version 2 is required"),
    ):
        committed_offsets(brokers, [new_topic])
