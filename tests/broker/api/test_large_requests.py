"""Requests about many things: served a few at a time, and not at all to who may do nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.api.table import APIS
from broker.configs.config import AuthorizationConfig
from harness.processes.waiting import wait_until
from tests.broker.api.requests import unused
from tests.broker.api.rules import EVERYTHING, Rules
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from tests.system.worst_requests import WITHOUT_ARRAYS, WRITER, Heart, longest, worst_frames
from wire.errors import ErrorCode
from wire.messages import fetch, list_offsets, metadata, produce
from wire.messages.list_offsets import LATEST

Permit = Callable[[Rules], None]
REFUSED = ErrorCode.topic_authorization_failed
MOST_MILLIS = 20


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(super_users=("User:admin",))}


@pytest.fixture
def topic(client: RawClient, permit: Permit) -> str:
    permit(EVERYTHING)
    name = unused()
    assert not client.create(name).topics[0].error_code
    assert client.produce(name, batch(1, 2)).base_offset == 0
    return name


def ends(*topics: tuple[str, int]) -> list_offsets.ListOffsetsRequest:
    """Of so many partitions of each; there is one."""
    return list_offsets.ListOffsetsRequest(
        topics=tuple(
            list_offsets.ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                    for index in range(count)
                ),
            )
            for name, count in topics
        )
    )


def test_pieces_of_a_request_are_answered_as_one(client: RawClient, topic: str) -> None:
    asked = [("none", 100), (topic, 300), ("no", 1)]
    answer = client.ask(list_offsets.API, 7, ends(*asked))
    assert [(each.name, len(each.partitions)) for each in answer.topics] == asked
    found = [each for of in answer.topics for each in of.partitions]
    assert [each.partition_index for each in found[:400]] == [*range(100), *range(300)]
    assert [number for number, each in enumerate(found) if not each.error_code] == [100]
    assert found[100].offset == 2


def test_names_of_many_topics(client: RawClient, topic: str) -> None:
    names = [f"absent-{number}" for number in range(300)] + [topic]
    asked = tuple(metadata.MetadataRequestTopic(name=name) for name in names)
    request = metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = client.ask(metadata.API, 12, request)
    assert sorted(each.name or "" for each in answer.topics) == sorted(names)
    assert [each.name for each in answer.topics if not each.error_code] == [topic]
    assert len(answer.brokers) == 1


def test_a_fetch_of_many_partitions(client: RawClient, topic: str) -> None:
    def request(offset: int, wait: int) -> fetch.FetchRequest:
        wanted = [
            fetch.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
            for index in range(1 if wait else 700)
        ]
        topics = [fetch.FetchTopic(topic=topic, partitions=tuple(wanted))]
        topics += [fetch.FetchTopic(topic=topic, partitions=tuple(wanted[:1]))] * (
            600 if wait else 0
        )
        return fetch.FetchRequest(
            max_wait=wait, min_bytes=1, max_bytes=1 << 20, topics=tuple(topics)
        )

    (answer,) = client.ask(fetch.API, 12, request(0, 0)).responses
    assert [each.partition_index for each in answer.partitions] == [*range(700)]
    first, *others = answer.partitions
    assert (first.error_code, first.high_watermark) == (ErrorCode.none, 2)
    assert {each.error_code for each in others} == {ErrorCode.unknown_topic_or_partition}
    # There is nothing yet: it waits, and is answered all the same.
    assert len(client.ask(fetch.API, 12, request(2, 50)).responses) == 601


def test_batches_are_appended_in_their_order(client: RawClient, topic: str) -> None:
    batches = tuple(
        produce.PartitionProduceData(index=0, records=memoryview(batch(1))) for _ in range(200)
    )
    data = (produce.TopicProduceData(name=topic, partition_data=batches),)
    request = produce.ProduceRequest(acks=-1, timeout=20_000, topic_data=data)
    (answer,) = client.ask(produce.API, 9, request).responses
    assert [each.base_offset for each in answer.partition_responses] == [*range(2, 202)]


def test_who_may_do_nothing_may_not_ask_much(
    running: RunningBroker, client: RawClient, topic: str, permit: Permit
) -> None:
    many = ends((topic, 900))
    assert not any(client.ask(list_offsets.API, 7, many).throttle_time for _ in range(20))
    permit([])
    answer = client.ask(list_offsets.API, 7, many)
    assert {each.error_code for of in answer.topics for each in of.partitions} == {REFUSED}
    wait_until(lambda: client.ask(list_offsets.API, 7, many).throttle_time, what="it has to wait")
    for count in (1100, 50_000):
        with running.client() as another, pytest.raises((AssertionError, OSError)):
            another.ask(list_offsets.API, 7, ends((topic, count)))
    permit(EVERYTHING)
    with running.client() as another:
        assert len(another.ask(list_offsets.API, 7, ends((topic, 1100))).topics) == 1


ARRAYS = [api for key, api in sorted(APIS.items()) if key not in WITHOUT_ARRAYS]


def test_nobody_is_kept_waiting_by_one_request(running: RunningBroker) -> None:
    """Neither by who may do nothing nor by who may do something else."""
    heart, found = Heart(running), {}
    for rules in (set(), WRITER):
        for api in ARRAYS:
            if frames := list(worst_frames(api, 5000)):
                # What else runs on the machine makes the same work longer, never shorter.
                tries = (longest(running, heart, frames, rules) for _ in range(5))
                within = next((ms for ms in tries if ms <= MOST_MILLIS), None)
                found[api.name, bool(rules)] = within
    assert [each for each, ms in found.items() if ms is None] == []
