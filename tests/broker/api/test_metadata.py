"""Metadata: brokers and topics, as one consistent picture."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from harness.waiting import wait_until
from tests.broker.api.requests import ask_metadata, described, unused
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import metadata
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

NewTopic = Callable[..., str]


@pytest.mark.parametrize("version", metadata.API.versions)
def test_a_topic(
    client: RawClient, running: RunningBroker, new_topic: NewTopic, version: int
) -> None:
    name = new_topic(partitions=3)
    answer = ask_metadata(client, name, version=version)

    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", running.port)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, name)
    assert [each.partition_index for each in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert partition.error_code is ErrorCode.none
        assert partition.leader_id == 1
        assert partition.replica_nodes == (1,)
        assert partition.isr_nodes == (1,)
    if version >= 1:
        assert answer.controller_id == 1
        assert broker.rack is not None
    if version >= 2:
        assert answer.cluster_id == running.broker.cluster.snapshot.cluster_id
    if version >= 7:
        assert {each.leader_epoch for each in topic.partitions} == {0}
    if version >= 10:
        assert topic.topic_id is not None


@pytest.mark.parametrize("version", metadata.API.versions)
def test_all_topics_and_none(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    everything: Any = () if version == 0 else None
    answer = client.ask(metadata.API, version, MetadataRequest(topics=everything))
    assert name in {topic.name for topic in answer.topics}
    if version > 0:
        assert ask_metadata(client, version=version).topics == ()


@pytest.mark.parametrize("version", range(8, 13))
def test_what_one_may_do_is_told_to_who_asks(
    client: RawClient, new_topic: NewTopic, version: int
) -> None:
    names = (new_topic(), unused())

    def told(include: bool) -> tuple[int, set[int]]:
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include,
            include_cluster_authorized_operations=include and version <= 10,
        )
        answer = client.ask(metadata.API, version, request)
        topics = {topic.topic_authorized_operations for topic in answer.topics}
        return answer.cluster_authorized_operations, topics

    not_asked = -(2**31)
    # What Apache Kafka without an authorizer says; of the cluster it says it up to version 10.
    assert told(include=True) == (8096 if version <= 10 else not_asked, {3576})
    assert told(include=False) == (not_asked, {not_asked})


def test_a_topic_by_its_id(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    topic_id = described(client, name).topic_id
    stranger = uuid.uuid4()
    asked = MetadataRequest(
        topics=(
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=stranger),
        )
    )
    known, unknown = client.ask(metadata.API, 12, asked).topics
    assert (known.name, known.topic_id) == (name, topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.unknown_topic_id, None)
    assert unknown.topic_id == stranger


def test_topics_that_are_asked_for_twice_are_told_once(
    client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic()
    assert [topic.name for topic in ask_metadata(client, name, name).topics] == [name]


def test_unknown_topics_are_created_only_where_the_client_allows_it(client: RawClient) -> None:
    name = unused()
    assert described(client, name).error_code is ErrorCode.unknown_topic_or_partition
    created = described(client, name, create=True)
    assert created.error_code is ErrorCode.none
    (partition,) = created.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.none, 1)
    assert described(client, name) == created


def test_one_topic_that_two_clients_want_created_at_once(running: RunningBroker) -> None:
    """Whoever comes second may hear of it a moment before its partition is served."""
    name = unused()
    with running.client() as one, running.client() as other:
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),))
        for each in (one, other):
            each.begin(metadata.API, 12, asked)
        answers = [each.finish(metadata.API, 12).topics for each in (one, other)]
    (first,), (second,) = answers
    assert (first.error_code, second.error_code) == (ErrorCode.none, ErrorCode.none)
    assert first.topic_id == second.topic_id
    partition_codes = {topic.partitions[0].error_code for topic in (first, second)}
    assert partition_codes <= {ErrorCode.none, ErrorCode.leader_not_available}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", ["", "..", "../x", "a b", "a/b", "x" * 250])
def test_names_that_no_topic_can_have(client: RawClient, name: str, create: bool) -> None:
    topic = described(client, name, create=create)
    assert (topic.error_code, topic.name) == (ErrorCode.invalid_topic_exception, name)


def test_a_flood_of_new_names_creates_a_bounded_number(client: RawClient) -> None:
    names = (unused() for _ in range(103))
    topics = ask_metadata(client, *names, create=True).topics
    codes = [topic.error_code for topic in topics]
    assert codes.count(ErrorCode.none) == 100
    assert codes.count(ErrorCode.unknown_topic_or_partition) == 3


def test_what_was_described_before_is_described_anew_when_it_changes(
    client: RawClient, running: RunningBroker, new_topic: NewTopic
) -> None:
    name = new_topic(partitions=2)
    before = described(client, name)
    assert described(client, name) == before
    partition = running.broker.partitions.find(name, 1)
    running.broker.loop.call_soon_threadsafe(partition.take_offline, "its disk is gone")
    wait_until(lambda: partition.offline_reason != "", within=10, what="it is offline")
    served, offline = described(client, name).partitions
    assert served == before.partitions[0]
    assert (offline.error_code, offline.leader_id) == (ErrorCode.leader_not_available, -1)
