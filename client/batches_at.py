"""The batches that hold given offsets, by their headers: by these a log is known again.

Each partition is asked for by itself, as only the first of an answer comes with a whole batch,
however large that is. Of each leader a few answers are under way at a time.
"""

from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from client.brokers import Brokers
from client.committed import READ_UNCOMMITTED
from client.connection import BrokerConnection
from client.conversation import PendingResponse
from client.delivery import TopicPartition
from client.errors import ConnectionLost, ErrorCode, check
from client.leaders import by_leader
from client.rights import Right, on_topic
from wire.acls import Operation
from wire.batch import CRC_START, MAGIC, BatchHeader, headers
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.slices import FileSlice

UNDER_WAY: Final = 8
_LEAST: Final = 1  # byte: one batch comes all the same

_Asked = tuple[TopicPartition, PendingResponse[FetchResponse]]


def batches_at(
    brokers: Brokers, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, BatchHeader | None]:
    """Of the batch that holds each offset, or the next behind it where compaction has left none.
    None where there is no such batch, or it is damaged: then nothing can be told from it."""
    found: dict[TopicPartition, BatchHeader | None] = {}

    def attempt() -> dict[TopicPartition, BatchHeader | None]:
        missing = offsets.keys() - found.keys()
        for leader, led in by_leader(brokers, sorted(missing), Operation.READ).items():
            connection = brokers.broker(leader)
            targets = [TopicPartition(topic, each) for topic in led for each in led[topic]]
            for at in range(0, len(targets), UNDER_WAY):
                asked = [
                    (each, connection.send(fetch.API, _request(each, offsets[each])))
                    for each in targets[at : at + UNDER_WAY]
                ]
                found.update(_received(connection, asked, offsets, brokers.who))
        return found

    return brokers.persist(attempt)


def _request(target: TopicPartition, offset: int) -> FetchRequest:
    wanted = FetchPartition(
        partition=target.partition, fetch_offset=offset, partition_max_bytes=_LEAST
    )
    return FetchRequest(
        max_wait=0,
        min_bytes=0,
        max_bytes=_LEAST,
        isolation_level=READ_UNCOMMITTED,
        topics=(FetchTopic(topic=target.topic, partitions=(wanted,)),),
    )


def _received(
    connection: BrokerConnection,
    asked: list[_Asked],
    offsets: Mapping[TopicPartition, int],
    who: str,
) -> list[tuple[TopicPartition, BatchHeader | None]]:
    """All answers are taken before any is judged: what one says is no reason to leave others."""
    answers = [(target, connection.receive(pending)) for target, pending in asked]
    found = []
    for target, answer in answers:
        check(answer.error_code, f"fetch from {connection.address}")
        parts = [part for topic in answer.responses for part in topic.partitions]
        if not parts:  # a broker that throttles its clients says nothing at all
            raise ConnectionLost(f"{connection.address}: no answer for {target}")
        needs = on_topic(who, target.topic, Operation.READ)
        found.append((target, _header(target, parts[0], offsets[target], needs)))
    return found


def _header(
    target: TopicPartition, data: PartitionData, offset: int, needs: Right
) -> BatchHeader | None:
    if data.error_code is ErrorCode.offset_out_of_range:
        return None
    check(data.error_code, str(target), needs=needs)
    assert not isinstance(data.records, FileSlice)  # those only leave
    view = memoryview(data.records or b"")
    for start, header in headers(view):
        if header.next_offset > offset:
            batch = view[start : start + header.size]
            whole = header.magic == MAGIC and crc32c(batch[CRC_START:]) == header.crc
            return header if whole else None
    return None
