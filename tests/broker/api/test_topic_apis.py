"""CreateTopics, DeleteTopics and CreatePartitions, in every version, against a running broker."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import create_partitions, create_topics, delete_topics, metadata
from wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

NewTopic = Callable[..., str]
TIMEOUT = 20_000


def fresh() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def create(
    client: RawClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> tuple[CreatableTopicResult, ...]:
    request = CreateTopicsRequest(topics=topics, timeout=TIMEOUT, validate_only=validate_only)
    return client.ask(create_topics.API, version, request).topics


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


def delete(client: RawClient, name: str, *, version: int = 6) -> DeletableTopicResult:
    if version >= 6:
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout=TIMEOUT)
    else:
        request = DeleteTopicsRequest(topic_names=(name,), timeout=TIMEOUT)
    (result,) = client.ask(delete_topics.API, version, request).responses
    return result


def extend(
    client: RawClient,
    name: str,
    count: int,
    assignments: tuple[tuple[int, ...], ...] | None = None,
    *,
    version: int = 3,
    validate_only: bool = False,
) -> CreatePartitionsTopicResult:
    given = None
    if assignments is not None:
        given = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments)
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count, assignments=given),),
        timeout=TIMEOUT,
        validate_only=validate_only,
    )
    (result,) = client.ask(create_partitions.API, version, request).results
    return result


def describe(client: RawClient, name: str) -> MetadataResponseTopic:
    asked = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False
    )
    (found,) = client.ask(metadata.API, 12, asked).topics
    return found


@pytest.mark.parametrize("version", create_topics.API.versions)
def test_a_created_topic_can_be_written_at_once(client: RawClient, version: int) -> None:
    name = fresh()
    (result,) = create(client, topic(name, 2, retention_ms="5000"), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        assert result.configs is not None
        assert {each.name: each.value for each in result.configs}["retention.ms"] == "5000"
    found = describe(client, name)
    assert len(found.partitions) == 2
    if version >= 7:
        assert result.topic_id == found.topic_id
    assert client.produce(name, batch(1), index=1).error_code is ErrorCode.none


def test_defaults_stand_for_what_is_not_said(client: RawClient) -> None:
    (result,) = create(client, topic(fresh(), -1, -1))
    assert (result.num_partitions, result.replication_factor) == (1, 1)


def test_an_assignment_can_be_given(client: RawClient) -> None:
    name = fresh()
    given = (
        CreatableReplicaAssignment(partition_index=1, broker_ids=(1,)),
        CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),
    )
    asked = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=given)
    (result,) = create(client, asked)
    assert result.error_code is ErrorCode.none
    assert len(describe(client, name).partitions) == 2


def test_validation_creates_nothing(client: RawClient) -> None:
    name = fresh()
    (result,) = create(client, topic(name, 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 3)
    assert result.topic_id is None
    assert describe(client, name).error_code is ErrorCode.unknown_topic_or_partition


def test_topics_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    taken = new_topic()
    assigned = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)
    null = (CreatableTopicConfig(name="retention.ms", value=None),)
    cases = {
        ErrorCode.topic_already_exists: topic(taken),
        ErrorCode.invalid_topic_exception: topic("../x"),
        ErrorCode.invalid_partitions: topic(fresh(), 0),
        ErrorCode.invalid_replication_factor: topic(fresh(), 1, 2),
        ErrorCode.invalid_config: topic(fresh(), retention_mss="1"),
        ErrorCode.invalid_request: CreatableTopic(
            name=fresh(), num_partitions=1, replication_factor=1, assignments=assigned
        ),
        ErrorCode.invalid_replica_assignment: CreatableTopic(
            name=fresh(), num_partitions=-1, replication_factor=-1, assignments=assigned * 2
        ),
    }
    good = fresh()
    results = create(client, *cases.values(), topic(good))
    assert [result.error_code for result in results] == [*cases, ErrorCode.none]
    assert all(result.error_message for result in results[:-1])
    assert describe(client, good).error_code is ErrorCode.none
    (result,) = create(
        client,
        CreatableTopic(name=fresh(), num_partitions=1, replication_factor=1, configs=null),
    )
    assert result.error_code is ErrorCode.invalid_request


def test_an_absurd_number_of_partitions_is_refused_before_anything_is_made(
    client: RawClient,
) -> None:
    (one,) = create(client, topic(fresh(), 2**31 - 1))
    assert one.error_code is ErrorCode.invalid_partitions
    many = create(client, *(topic(fresh(), 4_000) for _ in range(3)))
    assert {result.error_code for result in many} == {ErrorCode.invalid_partitions}
    assert len({result.error_message for result in many}) == 1


def test_a_topic_twice_in_one_request(client: RawClient) -> None:
    name = fresh()
    results = create(client, topic(name), topic(name))
    assert {result.error_code for result in results} == {ErrorCode.invalid_request}
    assert describe(client, name).error_code is ErrorCode.unknown_topic_or_partition


def test_no_time_to_wait(client: RawClient) -> None:
    name = fresh()
    (result,) = client.create(name, timeout=0).topics
    assert result.error_code is ErrorCode.request_timed_out
    (again,) = client.create(name).topics
    assert again.error_code is ErrorCode.topic_already_exists


@pytest.mark.parametrize("version", delete_topics.API.versions)
def test_a_deleted_topic_is_gone(
    client: RawClient, running: RunningBroker, new_topic: NewTopic, version: int
) -> None:
    name = new_topic()
    client.produce(name, batch(1))
    directory = Path(running.broker.config.data_dir) / f"{name}-0"
    assert directory.is_dir()

    result = delete(client, name, version=version)
    assert (result.error_code, result.name) == (ErrorCode.none, name)
    assert describe(client, name).error_code is ErrorCode.unknown_topic_or_partition
    code = client.produce(name, batch(1)).error_code
    assert code is ErrorCode.unknown_topic_or_partition
    assert not directory.exists()


def test_a_topic_of_the_same_name_begins_anew(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    before = describe(client, name).topic_id
    client.produce(name, batch(1, 2, 3))
    delete(client, name)
    (created,) = client.create(name).topics
    assert created.error_code is ErrorCode.none
    assert created.topic_id != before
    assert client.produce(name, batch(1)).base_offset == 0


def test_deleting_by_id(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    topic_id = describe(client, name).topic_id
    stranger = uuid.uuid4()
    request = DeleteTopicsRequest(
        topics=(
            DeleteTopicState(topic_id=topic_id),
            DeleteTopicState(topic_id=stranger),
            DeleteTopicState(name="other", topic_id=stranger),
            DeleteTopicState(),
        ),
        timeout=TIMEOUT,
    )
    known, unknown, both, neither = client.ask(delete_topics.API, 6, request).responses
    assert (known.error_code, known.name) == (ErrorCode.none, name)
    assert (unknown.error_code, unknown.name) == (ErrorCode.unknown_topic_id, None)
    assert both.error_code is ErrorCode.invalid_request
    assert neither.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("name", ["", "../x", "never-created", "x" * 1000])
def test_deleting_what_is_not_there(client: RawClient, name: str) -> None:
    assert delete(client, name).error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", create_partitions.API.versions)
def test_a_topic_grows(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    assert extend(client, name, 3, version=version).error_code is ErrorCode.none
    assert len(describe(client, name).partitions) == 3
    assert client.produce(name, batch(1), index=2).error_code is ErrorCode.none


def test_extensions_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    assert extend(client, name, 2).error_code is ErrorCode.invalid_partitions
    assert extend(client, name, 1).error_code is ErrorCode.invalid_partitions
    assert extend(client, name, 2**31 - 1).error_code is ErrorCode.invalid_partitions
    wrong = extend(client, name, 4, ((1,),))
    assert wrong.error_code is ErrorCode.invalid_replica_assignment
    unknown = extend(client, "never-created", 2)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert extend(client, name, 3, validate_only=True).error_code is ErrorCode.none
    assert len(describe(client, name).partitions) == 2
    assert extend(client, name, 3, ((1,),)).error_code is ErrorCode.none
    assert len(describe(client, name).partitions) == 3
