"""CreateTopics, DeleteTopics and CreatePartitions, in every version, against a running broker."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.api.requests import creatable, create, delete, described, extend, unused
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import create_partitions, create_topics, delete_topics

NewTopic = Callable[..., str]


@pytest.mark.parametrize("version", create_topics.API.versions)
def test_a_created_topic_can_be_written_at_once(client: RawClient, version: int) -> None:
    name = unused()
    (result,) = create(client, creatable(name, 2, retention_ms="5000"), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        assert result.configs is not None
        assert {each.name: each.value for each in result.configs}["retention.ms"] == "5000"
    found = described(client, name)
    assert len(found.partitions) == 2
    if version >= 7:
        assert result.topic_id == found.topic_id
    assert client.produce(name, batch(1), index=1).error_code is ErrorCode.none


def test_defaults_stand_for_what_is_not_said(client: RawClient) -> None:
    (result,) = create(client, creatable(unused(), -1, -1))
    assert (result.num_partitions, result.replication_factor) == (1, 1)


def test_an_assignment_can_be_given(client: RawClient) -> None:
    name = unused()
    (result,) = create(client, creatable(name, -1, -1, ((1, (1,)), (0, (1,)))))
    assert result.error_code is ErrorCode.none
    assert len(described(client, name).partitions) == 2


def test_validation_creates_nothing(client: RawClient) -> None:
    name = unused()
    (result,) = create(client, creatable(name, 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 3)
    assert result.topic_id is None
    assert described(client, name).error_code is ErrorCode.unknown_topic_or_partition


def test_topics_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    taken = new_topic()
    assigned = ((0, (1,)),)
    cases = {
        ErrorCode.topic_already_exists: creatable(taken),
        ErrorCode.invalid_topic_exception: creatable("../x"),
        ErrorCode.invalid_partitions: creatable(unused(), 0),
        ErrorCode.invalid_replication_factor: creatable(unused(), 1, 2),
        ErrorCode.invalid_config: creatable(unused(), retention_mss="1"),
        ErrorCode.invalid_request: creatable(unused(), 1, 1, assigned),
        ErrorCode.invalid_replica_assignment: creatable(unused(), -1, -1, assigned * 2),
    }
    good = unused()
    results = create(client, *cases.values(), creatable(good))
    assert [result.error_code for result in results] == [*cases, ErrorCode.none]
    assert all(result.error_message for result in results[:-1])
    assert described(client, good).error_code is ErrorCode.none
    (result,) = create(client, creatable(unused(), retention_ms=None))
    assert result.error_code is ErrorCode.invalid_request


def test_an_absurd_number_of_partitions_is_refused_before_any_is_made(client: RawClient) -> None:
    (one,) = create(client, creatable(unused(), 2**31 - 1))
    assert one.error_code is ErrorCode.invalid_partitions
    many = create(client, *(creatable(unused(), 4_000) for _ in range(3)))
    assert {result.error_code for result in many} == {ErrorCode.invalid_partitions}
    assert len({result.error_message for result in many}) == 1


def test_a_topic_twice_in_one_request(client: RawClient) -> None:
    name = unused()
    results = create(client, creatable(name), creatable(name))
    assert {result.error_code for result in results} == {ErrorCode.invalid_request}
    assert described(client, name).error_code is ErrorCode.unknown_topic_or_partition


def test_no_time_to_wait(client: RawClient) -> None:
    name = unused()
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
    assert described(client, name).error_code is ErrorCode.unknown_topic_or_partition
    code = client.produce(name, batch(1)).error_code
    assert code is ErrorCode.unknown_topic_or_partition
    assert not directory.exists()


def test_a_topic_of_the_same_name_begins_anew(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    before = described(client, name).topic_id
    client.produce(name, batch(1, 2, 3))
    delete(client, name)
    (created,) = client.create(name).topics
    assert created.error_code is ErrorCode.none
    assert created.topic_id != before
    assert client.produce(name, batch(1)).base_offset == 0


def test_deleting_by_id(client: RawClient, new_topic: NewTopic) -> None:
    name, stranger = new_topic(), uuid.uuid4()
    known = delete(client, None, topic_id=described(client, name).topic_id)
    assert (known.error_code, known.name) == (ErrorCode.none, name)
    unknown = delete(client, None, topic_id=stranger)
    assert (unknown.error_code, unknown.name) == (ErrorCode.unknown_topic_id, None)
    for both_or_neither in (delete(client, "other", topic_id=stranger), delete(client, None)):
        assert both_or_neither.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("name", ["", "../x", "never-created", "x" * 1000])
def test_deleting_what_is_not_there(client: RawClient, name: str) -> None:
    assert delete(client, name).error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", create_partitions.API.versions)
def test_a_topic_grows(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    assert extend(client, name, 3, version=version).error_code is ErrorCode.none
    assert len(described(client, name).partitions) == 3
    assert client.produce(name, batch(1), index=2).error_code is ErrorCode.none


def test_extensions_that_cannot_be(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    for count in (2, 1, 2**31 - 1):
        assert extend(client, name, count).error_code is ErrorCode.invalid_partitions
    wrong = extend(client, name, 4, ((1,),))
    assert wrong.error_code is ErrorCode.invalid_replica_assignment
    unknown = extend(client, "never-created", 2)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert extend(client, name, 3, validate_only=True).error_code is ErrorCode.none
    assert len(described(client, name).partitions) == 2
    assert extend(client, name, 3, ((1,),)).error_code is ErrorCode.none
    assert len(described(client, name).partitions) == 3
