"""Metadata, and the other APIs about the cluster, coordinators and producer ids, where there is no
authorization."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from harness.processes.waiting import wait_until
from tests.broker.api.questions import ask_deleted_groups
from tests.broker.api.requests import (
    acl,
    add_acls,
    ask_metadata,
    ask_producer_id,
    codes,
    described,
    find,
    find_acls,
    remove_acls,
    unused,
)
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import (
    api_versions,
    delete_groups,
    describe_cluster,
    find_coordinator,
    init_producer_id,
    list_partition_reassignments,
    metadata,
)
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.mark.parametrize("version", describe_cluster.API.versions)
def test_the_cluster(client: RawClient, running: RunningBroker, version: int) -> None:
    answer = client.ask(describe_cluster.API, version, DescribeClusterRequest())
    assert answer.error_code is ErrorCode.none
    assert answer.cluster_id == running.broker.cluster.snapshot.cluster_id
    assert answer.controller_id == 1
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", running.port)
    assert broker.rack is None


@pytest.mark.parametrize("version", describe_cluster.API.versions)
def test_what_one_may_do_with_the_cluster_is_told_to_who_asks(
    client: RawClient, version: int
) -> None:
    def told(include: bool) -> int:
        request = DescribeClusterRequest(include_cluster_authorized_operations=include)
        answer = client.ask(describe_cluster.API, version, request)
        return answer.cluster_authorized_operations

    assert told(include=True) == 8096  # as Apache Kafka without an authorizer says
    assert told(include=False) == -(2**31)


def test_there_are_no_other_endpoints_than_brokers(client: RawClient) -> None:
    answer = client.ask(describe_cluster.API, 1, DescribeClusterRequest(endpoint_type=2))
    assert answer.error_code is ErrorCode.unsupported_endpoint_type
    assert answer.brokers == ()


def test_nothing_is_on_the_move(client: RawClient) -> None:
    some = (ListPartitionReassignmentsTopics(name="any", partition_indexes=(0,)),)
    for topics in (None, (), some):
        request = ListPartitionReassignmentsRequest(topics=topics)
        answer = client.ask(list_partition_reassignments.API, 0, request)
        assert (answer.error_code, answer.topics) == (ErrorCode.none, ())


@pytest.mark.parametrize("version", find_coordinator.API.versions)
def test_whoever_looks_for_a_group_finds_this_broker(
    client: RawClient, running: RunningBroker, version: int
) -> None:
    for each in find(client, version):
        assert each.error_code is ErrorCode.none
        assert (each.node_id, each.host, each.port) == (1, "127.0.0.1", running.port)


@pytest.mark.parametrize("version", find_coordinator.API.versions[1:])
def test_nobody_coordinates_transactions_and_nobody_shall_ask_again(
    client: RawClient, version: int
) -> None:
    """librdkafka would, after any other code than that one."""
    for each in find(client, version, find_coordinator.TRANSACTION):
        assert each.error_code is ErrorCode.unsupported_version
    says_who = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2")
    client.ask(api_versions.API, 3, says_who)
    for each in find(client, version, find_coordinator.TRANSACTION):
        assert each.error_code is ErrorCode.transactional_id_authorization_failed
        assert "does not support transactions" in (each.error_message or "")
        assert each.node_id == -1
    for each in find(client, version, 2):
        assert each.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", delete_groups.API.versions)
def test_there_are_no_groups_to_delete(client: RawClient, version: int) -> None:
    results = ask_deleted_groups(client, "one", "other", "one", version=version)
    assert [each.group_id for each in results] == ["one", "other"]
    assert codes(results) == {ErrorCode.group_id_not_found}


@pytest.mark.parametrize("version", init_producer_id.API.versions)
def test_every_producer_gets_an_id_of_its_own(client: RawClient, version: int) -> None:
    answers = [ask_producer_id(client, version) for _ in range(3)]
    assert {answer.error_code for answer in answers} == {ErrorCode.none}
    assert {answer.producer_epoch for answer in answers} == {0}
    ids = {answer.producer_id for answer in answers}
    assert len(ids) == 3
    assert min(ids) > 0


@pytest.mark.parametrize("version", [3, 4])
def test_a_producer_that_had_an_id_gets_a_new_one(client: RawClient, version: int) -> None:
    first = ask_producer_id(client, version)
    second = ask_producer_id(client, version, producer_id=first.producer_id, producer_epoch=0)
    assert second.error_code is ErrorCode.none
    assert second.producer_id != first.producer_id
    assert second.producer_epoch == 0


def test_half_an_identity_is_a_mistake(client: RawClient) -> None:
    for half in ("producer_id", "producer_epoch"):
        answer = ask_producer_id(client, **{half: 5})
        assert (answer.error_code, answer.producer_id) == (ErrorCode.invalid_request, -1)


@pytest.mark.parametrize("version", init_producer_id.API.versions)
def test_transactions_are_refused_for_good(client: RawClient, version: int) -> None:
    answer = ask_producer_id(client, version, transactional_id="t", transaction_timeout=1000)
    assert answer.error_code is ErrorCode.unsupported_version
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_without_authorization_an_acl_would_not_hold(
    client: RawClient, running: RunningBroker
) -> None:
    disabled = ErrorCode.security_disabled
    described = find_acls(client, None)
    assert described.error_code is disabled
    assert "authorization" in (described.error_message or "")
    assert [each.error_code for each in add_acls(client, acl("t"), acl("t"))] == [disabled] * 2
    assert remove_acls(client, None).error_code is disabled
    assert running.broker.cluster.snapshot.acls == {}


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
        assert broker.rack is None  # nobody has set one
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
