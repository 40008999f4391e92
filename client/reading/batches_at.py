"""Looks up the headers of the batches at given offsets, by which a log is recognized.

Each partition is fetched by its own request, because only the first partition in a response gets a
whole batch regardless of size. A few requests to each leader are in flight at a time.
"""

from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.connection.conversation import PendingResponse
from client.errors import ConnectionLost, ErrorCode, check
from client.producing.delivery import TopicPartition
from client.producing.leaders import by_leader
from client.reading.committed import READ_UNCOMMITTED
from client.rights import Right, on_topic
from wire.acls import Operation
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.record_batches.batch import CRC_START, MAGIC, BatchHeader, headers

UNDER_WAY: Final = 8
_LEAST: Final = 1  # byte; the response has one batch nevertheless

_Asked = tuple[TopicPartition, PendingResponse[FetchResponse]]


def batches_at(
    brokers: Brokers, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, BatchHeader | None]:
    """Returns the header of the batch at each offset, or of the next batch if compaction removed
    it. None if there is no such batch or it is damaged, so that nothing can be concluded."""
    found_headers: dict[TopicPartition, BatchHeader | None] = {}

    def attempt() -> dict[TopicPartition, BatchHeader | None]:
        missing_targets = offsets.keys() - found_headers.keys()
        for leader, led_partitions in by_leader(
            brokers, sorted(missing_targets), Operation.READ
        ).items():
            connection = brokers.broker(leader)
            targets = [
                TopicPartition(topic, partition)
                for topic in led_partitions
                for partition in led_partitions[topic]
            ]
            for start in range(0, len(targets), UNDER_WAY):
                requests = [
                    (target, connection.send(fetch.API, _request(target, offsets[target])))
                    for target in targets[start : start + UNDER_WAY]
                ]
                found_headers.update(_received(connection, requests, offsets, brokers.who))
        return found_headers

    return brokers.persist(attempt)


def _request(target: TopicPartition, offset: int) -> FetchRequest:
    fetch_partition = FetchPartition(
        partition=target.partition, fetch_offset=offset, partition_max_bytes=_LEAST
    )
    return FetchRequest(
        max_wait=0,
        min_bytes=0,
        max_bytes=_LEAST,
        isolation_level=READ_UNCOMMITTED,
        topics=(FetchTopic(topic=target.topic, partitions=(fetch_partition,)),),
    )


def _received(
    connection: BrokerConnection,
    fetches: list[_Asked],
    offsets: Mapping[TopicPartition, int],
    who: str,
) -> list[tuple[TopicPartition, BatchHeader | None]]:
    """Receives all responses before it checks any: an error must not leave answers unread."""
    answers = [
        (target, connection.receive(pending_response)) for target, pending_response in fetches
    ]
    found_headers = []
    for target, response in answers:
        check(response.error_code, f"fetch from {connection.address}")
        parts = [part for topic in response.responses for part in topic.partitions]
        if not parts:  # from a broker that throttles its clients
            raise ConnectionLost(f"{connection.address}: no answer for {target}")
        needs = on_topic(who, target.topic, Operation.READ)
        found_headers.append((target, _header(target, parts[0], offsets[target], needs)))
    return found_headers


def _header(
    target: TopicPartition, data: PartitionData, offset: int, needs: Right
) -> BatchHeader | None:
    if data.error_code is ErrorCode.offset_out_of_range:
        return None
    check(data.error_code, str(target), needs=needs)
    assert not isinstance(data.records, FileSlice)  # only the broker sends these
    view = memoryview(data.records or b"")
    for start, header in headers(view):
        if header.next_offset > offset:
            batch = view[start : start + header.size]
            is_whole = header.magic == MAGIC and crc32c(batch[CRC_START:]) == header.crc
            return header if is_whole else None
    return None
