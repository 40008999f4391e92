"""CreateTopics, DeleteTopics and CreatePartitions, in every version, against a running broker; and
quotas of created and deleted partitions (KIP-599), as clients of each version meet them."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as KafkaTopic

from tests.broker.api.requests import (
    ask_metadata,
    creatable,
    create,
    delete,
    described,
    extend,
    set_quota,
    unused,
)
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


EXCEEDED = ErrorCode.throttling_quota_exceeded
SetRate = Callable[[float | None], None]
LITTLE = 0.01  # of a partition a second: eleven seconds' worth is less than one


@pytest.fixture
def rate(running: RunningBroker) -> Iterator[SetRate]:
    """How many partitions a second the clients of these tests may create and delete."""

    def set_rate(value: float | None) -> None:
        with running.client() as other:
            assert set_quota(other, None, "controller_mutation_rate", value) is ErrorCode.none

    yield set_rate
    set_rate(None)


def created(
    client: RawClient, version: int, *names: str, partitions: int = 1
) -> tuple[list[ErrorCode], int]:
    """What came of each, and how long the client is to wait."""
    topics = tuple(creatable(name, partitions) for name in names)
    request = create_topics.CreateTopicsRequest(topics=topics, timeout=20_000)
    answer = client.ask(create_topics.API, version, request)
    return [each.error_code for each in answer.topics], answer.throttle_time


def test_a_new_client_is_refused_and_told_how_long(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(LITTLE)
    first, second = unused(), unused()
    assert created(client, 7, first) == ([ErrorCode.none], 0)
    (code,), wait = created(client, 7, second)
    assert code is EXCEEDED
    assert 0 < wait <= 10_000
    for version in (6, 5):
        with running.client() as other:
            assert delete(other, first, version=version).error_code is EXCEEDED
    with running.client() as other:
        assert extend(other, first, 2).error_code is EXCEEDED
    rate(None)
    with running.client() as other:
        assert created(other, 7, second) == ([ErrorCode.none], 0)


def test_of_one_request_what_fits_is_done(client: RawClient, rate: SetRate) -> None:
    rate(LITTLE)
    codes, _ = created(client, 7, *(unused() for _ in range(3)))
    assert sorted(codes) == sorted([ErrorCode.none, EXCEEDED, EXCEEDED])


def test_an_old_client_is_served_and_has_to_wait(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(10.0)
    codes, wait = created(client, 5, unused(), partitions=112)
    assert codes == [ErrorCode.none]
    assert 0 < wait <= 200
    began = time.monotonic()
    ask_metadata(client, "some-topic")
    assert time.monotonic() - began > wait / 1000 - 0.1  # nothing was read meanwhile


def test_topics_that_are_created_by_asking_count_too(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(LITTLE)
    asked = ask_metadata(client, unused(), create=True)
    assert asked.topics[0].error_code is ErrorCode.none
    assert asked.throttle_time > 0
    with running.client() as other:
        assert created(other, 7, unused())[0] == [EXCEEDED]


def test_what_is_only_checked_costs_nothing(client: RawClient, rate: SetRate) -> None:
    rate(LITTLE)
    create(client, creatable(unused(), 50), validate_only=True)
    assert created(client, 7, unused()) == ([ErrorCode.none], 0)


def test_librdkafka_is_served_and_waits(running: RunningBroker, rate: SetRate) -> None:
    """It asks in versions that know no such error."""
    rate(2.0)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{running.port}"})
    for partitions in (24, 1):
        name = unused()
        admin.create_topics([KafkaTopic(name, partitions)], request_timeout=30)[name].result(30)
