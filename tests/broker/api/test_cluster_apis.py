"""The APIs about the cluster, coordinators and producer ids, where there is no authorization."""

import pytest

from tests.broker.api.questions import ask_deleted_groups
from tests.broker.api.requests import (
    acl,
    add_acls,
    ask_producer_id,
    codes,
    find,
    find_acls,
    remove_acls,
)
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import (
    delete_groups,
    describe_cluster,
    find_coordinator,
    init_producer_id,
    list_partition_reassignments,
)
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


@pytest.mark.parametrize("version", describe_cluster.API.versions)
def test_the_cluster(client: RawClient, running: RunningBroker, version: int) -> None:
    answer = client.ask(describe_cluster.API, version, DescribeClusterRequest())
    assert answer.error_code is ErrorCode.none
    assert answer.cluster_id == running.broker.cluster.snapshot.cluster_id
    assert answer.controller_id == 1
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", running.port)
    assert broker.rack


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
    for each in find(client, version, find_coordinator.TRANSACTION):
        assert each.error_code is ErrorCode.transactional_id_authorization_failed
        assert "has no transactions" in (each.error_message or "")
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
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed
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
