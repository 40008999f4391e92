"""Quotas of created and deleted partitions (KIP-599), as clients of each version meet them."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.api.requests import (
    ask_metadata,
    creatable,
    create,
    delete,
    extend,
    set_quota,
    unused,
)
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import create_topics

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
        admin.create_topics([NewTopic(name, partitions)], request_timeout=30)[name].result(30)
