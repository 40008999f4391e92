"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers and DescribeLogDirs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.api.requests import delete_before, end_of_epoch, list_offset, producers
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import delete_records, describe_log_dirs, list_offsets, offset_for_leader_epoch
from wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DirectoryState,
)
from wire.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP

NewTopic = Callable[..., str]


@pytest.mark.parametrize("version", list_offsets.API.versions)
def test_offsets_of_a_log(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    client.produce(name, batch(1000, 3000, 2000))
    client.produce(name, batch(2500, 4000))

    def found(timestamp: int) -> tuple[int, int]:
        answer = list_offset(client, name, timestamp, version=version)
        assert answer.error_code is ErrorCode.none
        if version >= 4 and answer.offset >= 0:
            assert answer.leader_epoch == 0
        return answer.offset, answer.timestamp

    assert found(EARLIEST) == (0, -1)
    assert found(LATEST) == (5, -1)
    assert found(0) == (0, 1000)
    assert found(1001) == (1, 3000)
    assert found(3001) == (4, 4000)
    assert found(4001) == (-1, -1)
    if version >= 7:
        assert found(MAX_TIMESTAMP) == (4, 4000)


def test_offsets_that_cannot_be_told(client: RawClient, new_topic: NewTopic) -> None:
    name, unknown = new_topic(), ErrorCode.unknown_topic_or_partition
    of_nothing = {EARLIEST: 0, LATEST: 0, MAX_TIMESTAMP: -1, 0: -1}
    assert {each: list_offset(client, name, each).offset for each in of_nothing} == of_nothing
    assert list_offset(client, "never-created", LATEST).error_code is unknown
    for index in (1, -1):
        assert list_offset(client, name, LATEST, index=index).error_code is unknown
    for epoch, code in ((0, ErrorCode.none), (1, ErrorCode.unknown_leader_epoch)):
        assert list_offset(client, name, LATEST, epoch=epoch).error_code is code
    assert list_offset(client, name, -9).error_code is ErrorCode.unsupported_version
    twice = list_offset(client, name, LATEST, times=2)
    assert twice.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", delete_records.API.versions)
def test_records_are_deleted(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    client.produce(name, batch(*range(10)))
    first = delete_before(client, name, 4, version=version)
    assert (first.error_code, first.low_watermark) == (ErrorCode.none, 4)
    assert list_offset(client, name, EARLIEST).offset == 4
    assert delete_before(client, name, 2, version=version).low_watermark == 4
    assert delete_before(client, name, -1, version=version).low_watermark == 10
    assert {list_offset(client, name, each).offset for each in (EARLIEST, LATEST)} == {10}
    assert client.produce(name, batch(1)).base_offset == 10


def test_records_that_cannot_be_deleted(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic()
    kept = new_topic(configs={"cleanup.policy": "compact"})
    client.produce(name, batch(1))
    for before in (2, -2, 2**62):
        answer = delete_before(client, name, before)
        assert answer.error_code is ErrorCode.offset_out_of_range
        assert answer.low_watermark == -1
    assert delete_before(client, kept, -1).error_code is ErrorCode.policy_violation
    unknown = delete_before(client, name, -1, index=7)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert list_offset(client, name, EARLIEST).offset == 0


ASKED = {
    "the end": lambda client, name: list_offset(client, name, LATEST).offset,
    "the greatest time": lambda client, name: list_offset(client, name, MAX_TIMESTAMP).offset + 1,
    "a time": lambda client, name: list_offset(client, name, 2000).offset + 1,
    "what is deleted": lambda client, name: delete_before(client, name, -1).low_watermark,
    "what is deleted before it": lambda client, name: delete_before(client, name, 2).low_watermark,
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_was_acknowledged_unflushed_is_counted(
    client: RawClient, new_topic: NewTopic, asked: str
) -> None:
    """By acks=1. Nothing else has it flushed."""
    name = new_topic(configs={"flush.ms": "3600000"})
    for offset, timestamp in enumerate((1000, 2000)):
        assert client.produce(name, batch(timestamp), acks=1).base_offset == offset
    assert ASKED[asked](client, name) == 2


@pytest.mark.parametrize("version", offset_for_leader_epoch.API.versions)
def test_ends_of_epochs(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    client.produce(name, batch(1, 2, 3))
    none, unknown = ErrorCode.none, ErrorCode.unknown_topic_or_partition
    assert end_of_epoch(client, name, 0, version=version) == (none, 0, 3)
    assert end_of_epoch(client, name, 5, version=version) == (none, -1, -1)
    fenced, *_ = end_of_epoch(client, name, 0, 3, version=version)
    assert fenced is ErrorCode.unknown_leader_epoch
    assert end_of_epoch(client, name, 0, version=version, index=9)[0] is unknown


def test_producers_are_told(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    client.produce(name, batch(1, 2, producer_id=77, producer_epoch=3, base_sequence=10))
    client.produce(name, batch(3, producer_id=77, producer_epoch=3, base_sequence=12))
    client.produce(name, batch(4, producer_id=78, producer_epoch=0, base_sequence=0))

    one, other, missing, again = producers(client, name, 0, 1, 5, 0)
    told = {
        each.producer_id: (each.producer_epoch, each.last_sequence) for each in one.active_producers
    }
    assert told == {77: (3, 12), 78: (0, 0)}
    for each in one.active_producers:
        assert each.last_timestamp > 1_600_000_000_000  # of append, not of the record
        assert (each.coordinator_epoch, each.current_txn_start_offset) == (-1, -1)
    assert (other.error_code, other.active_producers) == (ErrorCode.none, ())
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert missing.error_message
    assert again.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", describe_log_dirs.API.versions)
def test_the_log_directory(
    client: RawClient, running: RunningBroker, new_topic: NewTopic, version: int
) -> None:
    name = new_topic(partitions=2)
    size = len(batch(1, 2, 3))
    client.produce(name, batch(1, 2, 3))

    def ask(topics: Any) -> dict[str, dict[int, int]]:
        request = DescribeLogDirsRequest(topics=topics)
        (result,) = client.ask(describe_log_dirs.API, version, request).results
        assert result.error_code is ErrorCode.none
        assert Path(result.log_dir) == Path(running.broker.config.data_dir)
        state = DirectoryState.of(result)
        assert (state.total_files > 0) is (version >= 2)
        assert not state.unwritable
        if version >= 4:
            assert 0 < result.usable_bytes <= result.total_bytes
        return {
            topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
            for topic in result.topics
        }

    assert ask(None)[name] == {0: size, 1: 0}
    one = DescribableLogDirTopic(topic=name, partitions=(0, 9))
    other = DescribableLogDirTopic(topic="never-created", partitions=(0,))
    assert ask((one, other)) == {name: {0: size}}
    assert ask(()) == {}
