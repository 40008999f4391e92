"""Produce (key 0), versions 3–9.

A batch is checked (header, CRC, size, timestamps), appended, and never looked into, except in a
compacted topic, where every record must have a key. acks=0 gets no answer, and an error closes its
connection, as in Kafka. acks=1 is answered once the batch is written. acks=all is answered once it
is flushed; meanwhile the client's next requests are served, and answered in their order.

Not here: transactions (refused), batches older than format v2 (refused), throttling.
"""

import time
from typing import TYPE_CHECKING

from broker.connection import Connection, Reply
from broker.errors import ApiError
from broker.partition import Partition
from broker.storage.errors import StorageError
from wire.batch import check_batch, stamp_append_time
from wire.errors import BatchError, ErrorCode
from wire.produce import PartitionBatch, PartitionResult, ProduceRequest, response_frame
from wire.records import records

if TYPE_CHECKING:
    from broker.broker import Broker

_ALL = -1


def serve(
    broker: "Broker",
    connection: Connection,
    version: int,
    correlation_id: int,
    request: ProduceRequest,
) -> None:
    """Append what was sent, and answer as `acks` asks."""
    if request.acks not in {_ALL, 0, 1}:
        refused = _refuse_all(request, ErrorCode.invalid_required_acks, "acks is -1, 0 or 1")
        connection.send([response_frame(version, correlation_id, refused)])
        return
    if request.transactional_id is not None:
        refused = _refuse_all(
            request,
            ErrorCode.transactional_id_authorization_failed,
            "transactions are not supported",
        )
        connection.send([response_frame(version, correlation_id, refused)])
        return
    now_ms = time.time_ns() // 1_000_000
    results = []
    unflushed: list[tuple[int, Partition, int]] = []
    for batch in request.batches:
        try:
            result, partition, end_offset = _append(broker, batch, request.acks, now_ms)
        except (ApiError, BatchError, StorageError) as error:
            broker.metrics.rejected(error.code)
            results.append(
                PartitionResult(batch.topic, batch.partition, error.code, message=str(error))
            )
            continue
        if request.acks == _ALL and end_offset > partition.log.flushed_offset:
            unflushed.append((len(results), partition, end_offset))
        results.append(result)
    if request.acks == 0:
        if failed := [result for result in results if result.code]:
            connection.close(f"error='acks=0 and {failed[0].message}'")
    elif unflushed:
        _Unflushed(connection.reply(), version, correlation_id, results).wait(unflushed)
    else:
        connection.send([response_frame(version, correlation_id, results)])


def _append(
    broker: "Broker", batch: PartitionBatch, acks: int, now_ms: int
) -> tuple[PartitionResult, Partition, int]:
    """Append one batch: what to answer, and up to where it must be flushed for acks=all."""
    topic, index, view = batch
    partition = broker.partitions.find(topic, index)
    if partition.offline_reason:
        raise ApiError(ErrorCode.kafka_storage_error, partition.offline_reason)
    if view is None:
        raise BatchError(ErrorCode.invalid_record, "no record batch was sent")
    if len(view) > partition.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"the batch has {len(view)} bytes, {partition.max_message_bytes} are allowed",
        )
    header = check_batch(view)
    if header.attributes & _UNUSUAL:
        raise BatchError(
            ErrorCode.invalid_record, "control and transactional batches are not accepted"
        )
    append_time = -1
    if partition.stamps_append_time:
        append_time = now_ms
        stamp_append_time(view, now_ms)
        header = header._replace(max_timestamp=now_ms)
    else:
        _check_timestamps(partition, header.base_timestamp, header.max_timestamp, now_ms)
    if acks == _ALL and partition.config.min_insync_replicas > 1:
        raise ApiError(
            ErrorCode.not_enough_replicas,
            f"1 replica is in sync, min.insync.replicas is {partition.config.min_insync_replicas}",
        )
    if partition.compacts and any(record.key is None for record in records(view)):
        raise BatchError(ErrorCode.invalid_record, "a compacted topic needs a key in every record")
    appended = partition.append(view, header, now_ms)
    traffic = partition.traffic
    traffic.bytes_in += len(view)
    traffic.messages_in += header.record_count
    result = PartitionResult(
        topic,
        index,
        ErrorCode.none,
        appended.base_offset,
        append_time,
        partition.log.start_offset,
    )
    return result, partition, appended.last_offset + 1


_UNUSUAL = 0x30  # transactional, control


def _check_timestamps(partition: Partition, base: int, latest: int, now_ms: int) -> None:
    if base < 0:  # the producer gave no time
        return
    earliest_allowed = now_ms - partition.timestamp_before_max_ms
    latest_allowed = now_ms + partition.timestamp_after_max_ms
    if base < earliest_allowed or latest > latest_allowed:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"timestamps {base} to {latest} are not between {earliest_allowed} "
            f"and {latest_allowed}",
        )


def _refuse_all(request: ProduceRequest, code: ErrorCode, message: str) -> list[PartitionResult]:
    return [
        PartitionResult(batch.topic, batch.partition, code, message=message)
        for batch in request.batches
    ]


class _Unflushed:
    """A request with acks=all that waits for its partitions' flushes."""

    __slots__ = ("_correlation_id", "_left", "_reply", "_results", "_version")

    def __init__(
        self, reply: Reply, version: int, correlation_id: int, results: list[PartitionResult]
    ) -> None:
        self._reply = reply
        self._version = version
        self._correlation_id = correlation_id
        self._results = results
        self._left = 0

    def wait(self, unflushed: list[tuple[int, Partition, int]]) -> None:
        self._left = len(unflushed)
        for position, partition, end_offset in unflushed:

            def flushed(code: ErrorCode, position: int = position) -> None:
                if code:
                    self._results[position] = self._results[position]._replace(
                        code=code, base_offset=-1, message="the batch could not be flushed"
                    )
                self._left -= 1
                if self._left == 0:
                    frame = response_frame(self._version, self._correlation_id, self._results)
                    self._reply.send([frame])

            partition.when_flushed(end_offset, flushed)
