"""Quotas of created and deleted partitions (KIP-599), as clients of each version meet them."""

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.api.questions import ask_metadata
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import alter_client_quotas, create_partitions, create_topics, delete_topics
from wire.messages.describe_client_quotas import EntityData

EXCEEDED = ErrorCode.throttling_quota_exceeded
SetRate = Callable[[float | None], None]
LITTLE = 0.01  # of a partition a second: eleven seconds' worth is less than one


@pytest.fixture
def rate(running: RunningBroker) -> Iterator[SetRate]:
    """How many partitions a second the clients of these tests may create and delete."""

    def set_rate(value: float | None) -> None:
        op = alter_client_quotas.OpData(
            key="controller_mutation_rate", value=value or 0.0, remove=value is None
        )
        entity = (EntityData(entity_type="user", entity_name=None),)
        entry = alter_client_quotas.EntryData(entity=entity, ops=(op,))
        request = alter_client_quotas.AlterClientQuotasRequest(entries=(entry,))
        with running.client() as other:
            (result,) = other.ask(alter_client_quotas.API, 1, request).entries
        assert result.error_code is ErrorCode.none, result.error_message

    yield set_rate
    set_rate(None)


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def create(
    client: RawClient, version: int, *names: str, partitions: int = 1
) -> tuple[list[ErrorCode], int]:
    """What came of each, and how long the client is to wait."""
    request = create_topics.CreateTopicsRequest(
        topics=tuple(
            create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ),
        timeout=20_000,
    )
    answer = client.ask(create_topics.API, version, request)
    return [each.error_code for each in answer.topics], answer.throttle_time


def test_a_new_client_is_refused_and_told_how_long(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(LITTLE)
    first, second = new_name(), new_name()
    assert create(client, 7, first) == ([ErrorCode.none], 0)
    (code,), wait = create(client, 7, second)
    assert code is EXCEEDED
    assert 0 < wait <= 10_000
    for version, state in ((6, EXCEEDED), (5, EXCEEDED)):
        with running.client() as other:
            named = delete_topics.DeleteTopicState(name=first)
            request = delete_topics.DeleteTopicsRequest(
                topics=(named,) if version == 6 else (),
                topic_names=() if version == 6 else (first,),
                timeout=20_000,
            )
            (result,) = other.ask(delete_topics.API, version, request).responses
        assert result.error_code is state
    with running.client() as other:
        more = create_partitions.CreatePartitionsTopic(name=first, count=2)
        asked = create_partitions.CreatePartitionsRequest(topics=(more,), timeout=20_000)
        (extended,) = other.ask(create_partitions.API, 3, asked).results
    assert extended.error_code is EXCEEDED
    rate(None)
    with running.client() as other:
        assert create(other, 7, second) == ([ErrorCode.none], 0)


def test_of_one_request_what_fits_is_done(client: RawClient, rate: SetRate) -> None:
    rate(LITTLE)
    codes, _ = create(client, 7, *(new_name() for _ in range(3)))
    assert sorted(codes) == sorted([ErrorCode.none, EXCEEDED, EXCEEDED])


def test_an_old_client_is_served_and_has_to_wait(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(10.0)
    codes, wait = create(client, 5, new_name(), partitions=112)
    assert codes == [ErrorCode.none]
    assert 0 < wait <= 200
    began = time.monotonic()
    ask_metadata(client, "some-topic")
    assert time.monotonic() - began > wait / 1000 - 0.1  # nothing was read meanwhile


def test_topics_that_are_created_by_asking_count_too(
    client: RawClient, running: RunningBroker, rate: SetRate
) -> None:
    rate(LITTLE)
    asked = ask_metadata(client, new_name(), create=True)
    assert asked.topics[0].error_code is ErrorCode.none
    assert asked.throttle_time > 0
    with running.client() as other:
        assert create(other, 7, new_name())[0] == [EXCEEDED]


def test_what_is_only_checked_costs_nothing(client: RawClient, rate: SetRate) -> None:
    rate(LITTLE)
    wanted = create_topics.CreatableTopic(name=new_name(), num_partitions=50, replication_factor=1)
    request = create_topics.CreateTopicsRequest(
        topics=(wanted,), timeout=20_000, validate_only=True
    )
    client.ask(create_topics.API, 7, request)
    assert create(client, 7, new_name()) == ([ErrorCode.none], 0)


def test_librdkafka_is_served_and_waits(running: RunningBroker, rate: SetRate) -> None:
    """It asks in versions that know no such error."""
    rate(2.0)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{running.port}"})
    for partitions in (24, 1):
        name = new_name()
        admin.create_topics([NewTopic(name, partitions)], request_timeout=30)[name].result(30)
