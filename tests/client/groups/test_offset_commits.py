"""Consumed offsets, as another client reads them back."""

import pytest
from confluent_kafka import Consumer

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ErrorCode, Refused, UnknownTopic
from client.groups.offset_commits import Consumed, commit_offsets
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from tests.client.shipped_topics import committed


@pytest.fixture(params=["running_broker", "running_kafka"])
def server(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


def test_what_was_consumed_is_shown_by_kafkas_tools(
    server: BrokerProcess | ApacheKafka, new_topic: str
) -> None:
    group = f"group-of-{new_topic}"
    with Brokers(Bootstrap.of(server.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic, partitions=3)
        first = {
            TopicPartition(new_topic, 0): Consumed(5, 0),
            TopicPartition(new_topic, 2): Consumed(7),
        }
        commit_offsets(brokers, group, first)
        assert committed(server.bootstrap, group, new_topic, 3) == [5, -1001, 7]
        commit_offsets(brokers, group, {TopicPartition(new_topic, 2): Consumed(9)})
        assert committed(server.bootstrap, group, new_topic, 3) == [5, -1001, 9]


def test_a_group_that_has_members_is_left_alone(
    server: BrokerProcess | ApacheKafka, new_topic: str
) -> None:
    group = f"group-of-{new_topic}"
    with Brokers(Bootstrap.of(server.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic)
        producer = Producer(brokers, new_topic)
        producer.send(b"one")
        producer.flush()
        settings = {"bootstrap.servers": server.bootstrap, "group.id": group}
        member = Consumer({**settings, "auto.offset.reset": "earliest"})
        try:
            member.subscribe([new_topic])
            assert member.consume(1, timeout=60)
            with pytest.raises(Refused) as refused:
                commit_offsets(brokers, group, {TopicPartition(new_topic, 0): Consumed(1)})
        finally:
            member.close()
        assert refused.value.code is ErrorCode.unknown_member_id


def test_a_topic_that_is_gone_is_not_waited_for(running_broker: BrokerProcess) -> None:
    with (
        Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=600) as brokers,
        pytest.raises(UnknownTopic, match="offset of group g: no partition gone-0"),
    ):
        commit_offsets(brokers, "g", {TopicPartition("gone", 0): Consumed(1)})
